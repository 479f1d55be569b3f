"""A Node as the controller needs it: a few fields of the 5-15 KB that it has. Pure.

Guarantees: the taints are kept as the API server sent them, so that a patch changes only ours.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from edge_sidecars.apimachinery.watch_events import decode_object
from pool_sidecar.core.pool_member import GROUP, TRUE, Json

# Of the kind that a kubelet cannot set for itself (KEP-279, NodeRestriction).
NODE_RESTRICTION: Final = "edge-sidecars.node-restriction.kubernetes.io"
DEFAULT_POOL_LABEL: Final = f"{NODE_RESTRICTION}/pool"
MAY_LEAD_NODE_LABEL: Final = f"{NODE_RESTRICTION}/may-lead"
# Nodes' own condition, which the member on the node writes.
CLOUD_LINK: Final = f"{GROUP}/CloudLink"
DEAD: Final = f"{GROUP}/dead"
# Nodes' annotation: with any value but "false", neither taint comes to the Node.
KEEP_PODS: Final = f"{GROUP}/keep-pods"
CUT: Final = f"{GROUP}/cut"
DEAD_TAINT: Final[Json] = {"key": DEAD, "effect": "NoExecute"}
CUT_TAINT: Final[Json] = {"key": CUT, "effect": "NoSchedule"}
# k8s.io/kubernetes, pkg/controller/nodelifecycle: of a node that was heard before.
STATUS_UNKNOWN: Final = "NodeStatusUnknown"


@dataclass(frozen=True, slots=True)
class NodeState:
    """`pool`: the label as it is, "" without one. `ready` and `cloud_link`: the statuses of these
    conditions, "" without one; `ready_since`: the text of Ready's lastTransitionTime; `keeps_pods`:
    by its annotation."""

    name: str
    uid: str = ""
    resource_version: int = 0
    pool: str = ""
    may_lead: bool = False
    ready: str = ""
    ready_reason: str = ""
    ready_since: str = ""
    cloud_link: str = ""
    keeps_pods: bool = False
    taints: tuple[Json, ...] = ()

    @property
    def key(self) -> str:
        return self.name

    @property
    def is_ready(self) -> bool:
        return self.ready == "True"

    @property
    def is_lost(self) -> bool:
        """Whether the cloud itself has lost it: it was heard, and is not any more."""
        return self.ready == "Unknown" and self.ready_reason == STATUS_UNKNOWN

    @property
    def is_dead(self) -> bool:
        return any(it.get("key") == DEAD for it in self.taints)

    @property
    def is_cut(self) -> bool:
        return any(it.get("key") == CUT for it in self.taints)

    def with_taints(self, *, dead: bool, cut: bool) -> tuple[Json, ...]:
        """Its taints, with ours as wanted; one of ours that stays is kept as it is."""
        kept = [it for it in self.taints if _stays(it, dead=dead, cut=cut)]
        if dead and not self.is_dead:
            kept.append(DEAD_TAINT)
        if cut and not self.is_cut:
            kept.append(CUT_TAINT)
        return tuple(kept)

    @classmethod
    def parse(cls, raw: bytes, *, pool_label: str = DEFAULT_POOL_LABEL) -> Self:
        """Raises ValueError for what is no Node of the API."""
        document = decode_object(raw)
        metadata = _object(document.get("metadata"))
        labels = _object(metadata.get("labels"))
        annotations = _object(metadata.get("annotations"))
        name, version = metadata.get("name"), str(metadata.get("resourceVersion"))
        if not isinstance(name, str) or not (version.isascii() and version.isdecimal()):
            raise ValueError(f"a Node without a name or a version: {raw[:80]!r}")
        conditions = {
            it.get("type"): it
            for it in map(_object, _array(_object(document.get("status")).get("conditions")))
        }
        ready = _object(conditions.get("Ready"))
        taints = _array(_object(document.get("spec")).get("taints"))
        return cls(
            name=name,
            uid=str(metadata.get("uid", "")),
            resource_version=int(version),
            pool=str(labels.get(pool_label, "")),
            may_lead=labels.get(MAY_LEAD_NODE_LABEL) == TRUE,
            ready=str(ready.get("status", "")),
            ready_reason=str(ready.get("reason", "")),
            ready_since=str(ready.get("lastTransitionTime", "")),
            cloud_link=str(_object(conditions.get(CLOUD_LINK)).get("status", "")),
            keeps_pods=annotations.get(KEEP_PODS, "false") != "false",
            taints=tuple(map(_object, taints)),
        )


def _stays(taint: Mapping[str, Any], *, dead: bool, cut: bool) -> bool:
    return (taint.get("key") != DEAD or dead) and (taint.get("key") != CUT or cut)


def _object(found: Any) -> Json:
    return found if isinstance(found, dict) else {}


def _array(found: Any) -> list[Any]:
    return found if isinstance(found, list) else []
