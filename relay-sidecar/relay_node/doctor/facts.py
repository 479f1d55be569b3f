"""What is known of a node."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from edge_sidecars.apimachinery.selection.fields import FieldSelector
from relay_node.doctor.pods import Pod
from relay_node.doctor.unknown import Unknown

if TYPE_CHECKING:
    from relay_node.doctor.machine.machine import Machine


class _Struct(msgspec.Struct, rename="camel"):
    pass


class LinkFacts(_Struct):
    is_up: bool
    state: Literal["up", "unauthorized", "relayed", "down"]


class JournalState(_Struct):
    directory: str | None
    failure: str | None


class SecretsState(_Struct):
    is_kept: bool
    failure: str | None


class KeptToken(_Struct):
    namespace: str
    service_account: str
    pod_uid: str = msgspec.field(name="podUID")
    audiences: tuple[str, ...]
    expiration_seconds: int | None


class Stream(_Struct):
    """`resource_version` None: not listed yet."""

    resource: str
    namespace: str
    field_selector: str
    objects: int
    resource_version: str | None


class CallerFacts(_Struct):
    """A pod whose token is kept, and the reads that it was allowed, like "watch services"."""

    namespace: str
    service_account: str
    pod_uid: str = msgspec.field(name="podUID")
    rights: tuple[str, ...]
    has_read: bool


class ReadObject(_Struct):
    """That is kept because it was read by its name."""

    resource: str
    namespace: str
    name: str


class Restart(_Struct):
    """What a relay that starts anew would have."""

    key_failure: str | None
    callers: tuple[CallerFacts, ...]
    objects: tuple[ReadObject, ...]


class Relay(_Struct):
    """What is needed of its /status."""

    uptime_seconds: float
    lack: str | None
    link: LinkFacts
    journal: JournalState
    secrets: SecretsState
    tokens: tuple[KeptToken, ...]
    streams: tuple[Stream, ...]
    restart: Restart

    def keeps(self, resource: str, *, namespace: str = "", name: str = "") -> bool:
        """All objects of a resource, or one: as the whole of it, of the namespace, or by name."""
        for it in self.streams:
            if it.resource == resource and it.resource_version is not None:
                by_name = FieldSelector.parse(it.field_selector).exact("metadata.name")
                is_wide = not it.namespace or it.namespace == namespace
                if is_wide and by_name in ((name, None) if name else (None,)):
                    return True
        named = ReadObject(resource, namespace, name)
        return bool(name) and named in self.restart.objects

    def rights_of(self, pod_uid: str) -> set[str]:
        """Verbs and resources, as `Caller.rights`."""
        return {
            right
            for caller in self.restart.callers
            if caller.pod_uid == pod_uid
            for right in caller.rights
        }

    def is_read_by(self, pod_uid: str) -> bool:
        """The pod has read something since the relay started."""
        return any(it.pod_uid == pod_uid and it.has_read for it in self.restart.callers)

    def streams_by_name(self, resource: str) -> dict[tuple[str, str], Stream]:
        """Those by name, by namespace and name."""
        found = {}
        for stream in self.streams:
            if stream.resource == resource and stream.namespace:
                name = FieldSelector.parse(stream.field_selector).exact("metadata.name")
                found[stream.namespace, name or ""] = stream
        return found


class Reservation(msgspec.Struct, frozen=True):
    """As `sticky-ipam list` has it; `uid` "" where the runtime did not name it."""

    addresses: list[str]
    uid: str = ""
    namespace: str = ""
    name: str = ""


@dataclass(frozen=True)
class Certificate:
    """The node's; Unix times."""

    not_before: float
    not_after: float


@dataclass(frozen=True)
class KubeconfigFacts:
    """Kubelet's; `is_by_relay`: its server is the relay; `other`: with which kubelet starts, where
    that is another one."""

    path: Path
    server: str
    is_by_relay: bool
    other: Path | None = None


@dataclass(frozen=True)
class Deviation:
    """A file that is not as it was installed; `backup`: of what was before, None for nothing."""

    path: Path
    backup: Path | None


@dataclass(frozen=True, kw_only=True)
class Names:
    """Of a Service by whose address pods ask for names: how many of its endpoints are on this node,
    and elsewhere."""

    service: str
    here: int
    elsewhere: int


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Of one node.

    `machine`: what is on its disk
    `names`: Services by address; Unknown where these cannot be asked for
    `volumes`: names of PersistentVolumes by claims that are bound, as far as the claims are kept
    `images`: their full names, as the Node has them; None where it does not list all
    `reservations`: None where the pods' network is not sticky-ipam's
    `upstream_time`: Unix time of the API server, None where it was not heard
    `filesystem`: of the relay's data directory
    `volatile`: paths that are on a file system in memory, by what they are
    `pod_kubeconfig`: of pods on the host's network, and what is wrong with it, or ""
    `outdated`: files of which the snapshot is missing or old
    """

    now: float
    node: str
    machine: Machine
    relay: Relay | Unknown
    pods: Sequence[Pod] | Unknown
    names: Mapping[str, Names] | Unknown
    volumes: Mapping[tuple[str, str], str]
    images: Collection[str] | None
    reservations: Sequence[Reservation] | Unknown | None
    certificate: Certificate | Unknown
    upstream_time: float | None
    kubeconfig: KubeconfigFacts
    filesystem: str
    volatile: Mapping[str, Path]
    pod_kubeconfig: Path
    pod_kubeconfig_lack: str
    outdated: Sequence[Path]
    deviations: Sequence[Deviation]
