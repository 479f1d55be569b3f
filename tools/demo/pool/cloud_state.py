"""What the cloud says of the nodes of a pool, in the words of docs/explanation/pools.md. Pure.

well        Ready
cut, via X  Ready, and its member says that it borrows the link of X
lost        the cloud does not hear it; other nodes of the pool are Ready
dead        so, and its pool bears witness that it is gone
site cut    the cloud hears no node of the pool but those that are dead
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from pool_sidecar.core.controller.node_state import CLOUD_LINK, DEAD

Json = dict[str, Any]

WELL, LOST, DEAD_NODE, SITE_CUT, STARTING = "well", "lost", "dead", "site cut", "starting"


@dataclass(frozen=True)
class NodeSeen:
    """`ready_since`: the text of Ready's lastTransitionTime; `via`: whose link it borrows, by its
    PoolMember; `renewed`: the Lease's renewTime in seconds since the epoch, 0.0 without one."""

    ready: str
    ready_since: str
    is_cut: bool
    via: str
    taints: frozenset[str]
    renewed: float

    @classmethod
    def of(cls, node: Json, member: Json, lease: Json) -> Self:
        """Of the objects as the API has them; {} for one that is not there."""
        renewed = lease.get("spec", {}).get("renewTime")
        return cls(
            ready=condition(node, "Ready"),
            ready_since=condition(node, "Ready", "lastTransitionTime"),
            is_cut=condition(node, CLOUD_LINK) == "False",
            via=str(member.get("status", {}).get("via", "")),
            taints=frozenset(it["key"] for it in node.get("spec", {}).get("taints", ())),
            renewed=datetime.fromisoformat(renewed).timestamp() if renewed else 0.0,
        )

    @property
    def is_dead(self) -> bool:
        return DEAD in self.taints


def condition(node: Json, kind: str, field: str = "status") -> str:
    """A field of a Node's condition; "" without one."""
    conditions = node.get("status", {}).get("conditions", ())
    return next((str(it.get(field, "")) for it in conditions if it["type"] == kind), "")


def states(pool: Mapping[str, NodeSeen]) -> Mapping[str, str]:
    """In words, of each node of a pool."""
    is_heard = any(it.ready == "True" for it in pool.values())
    return {name: _state(it, is_heard=is_heard) for name, it in pool.items()}


def _state(node: NodeSeen, *, is_heard: bool) -> str:
    if node.is_dead:
        return DEAD_NODE
    if node.ready == "Unknown":
        return LOST if is_heard else SITE_CUT
    if node.ready != "True":
        return STARTING
    return f"cut, via {node.via}" if node.is_cut else WELL
