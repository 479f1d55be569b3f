"""What `/status` says of a restart: whether the relay would find all that its node's pods need."""

from typing import TYPE_CHECKING, Final

from relay_sidecar.config.config import Config
from relay_sidecar.streams.seen_objects import SeenObjects
from relay_sidecar.telemetry.status import NamedObject, RestartStatus
from relay_sidecar.wiring.access import OpenedAccess

if TYPE_CHECKING:
    from relay_sidecar.journal.sealing.sealed_secrets import SealedSecrets
    from relay_sidecar.kept_tokens.feature import NodeTokens

# What kubelet reads by name before it starts pods, or the volumes of one: by group and plural.
_NEEDED: Final = frozenset(
    {
        ("", "persistentvolumeclaims"),
        ("", "persistentvolumes"),
        ("storage.k8s.io", "csinodes"),
        ("storage.k8s.io", "volumeattachments"),
        ("resource.k8s.io", "resourceclaims"),
    }
)


def restart_status(
    config: Config,
    seen: SeenObjects,
    secrets: "SealedSecrets | None",
    tokens: "NodeTokens | None",
    opened: OpenedAccess,
) -> RestartStatus:
    failure = None
    if secrets is not None:
        from relay_sidecar.wiring.kept_secrets import key_failure

        failure = key_failure(config, secrets)
    objects = [
        NamedObject(resource=str(it.resource), namespace=it.item.key[0], name=it.item.key[1])
        for it in seen
        if (it.resource.group, it.resource.plural) in _NEEDED
    ]
    callers = [] if tokens is None else tokens.callers(opened.rights, opened.has_read)
    return RestartStatus(key_failure=failure, callers=callers, objects=objects)
