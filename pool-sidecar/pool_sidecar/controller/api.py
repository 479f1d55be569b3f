"""Every request of the controller but its watches.

Guarantees: A write is sent only while this process leads for longer than it may take, asked anew
before each. It is sent once, bears our field manager, and names what it was decided on: taints
the resourceVersion of the Node that was judged, everything else the uid of the PoolMember. Nothing
of a Node is named but its taints.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from edge_sidecars.controllers.guarded_writes import GuardedWrites, NotLeading
from edge_sidecars.kubeapi import ApiClient, ApiError, NotFound, NotSent, Unreachable
from edge_sidecars.runtime.formats import rfc3339
from pool_sidecar.core.controller.conditions import SetConditions
from pool_sidecar.core.controller.membership import CreateMember, DeleteMember, LabelMember
from pool_sidecar.core.controller.node_state import NodeState
from pool_sidecar.core.controller.pool_controller import Command, JudgeMember
from pool_sidecar.core.controller.taints import TaintNode
from pool_sidecar.core.pool_member import (
    API_VERSION,
    KIND,
    MAY_LEAD_LABEL,
    PATH,
    POOL_LABEL,
    TRUE,
    Json,
)

FIELD_MANAGER: Final = "pool-controller"
NODES: Final = "/api/v1/nodes"


@dataclass(frozen=True, slots=True)
class WriteFailure:
    """`is_lost`: it may have been applied all the same."""

    why: str
    is_conflict: bool
    is_lost: bool


class PoolApi:
    """`may_act` says whether this process leads for longer than one request takes."""

    def __init__(
        self, api: ApiClient, *, may_act: Callable[[], bool], timeout: float, pool_label: str
    ) -> None:
        self._api = api
        self._timeout = timeout
        self.guarded = GuardedWrites(
            api, lambda _: may_act(), field_manager=FIELD_MANAGER, timeout=timeout
        )
        self._pool_label = pool_label
        self.parse_node = partial(NodeState.parse, pool_label=pool_label)

    async def nodes_of(self, pool: str) -> Sequence[NodeState]:
        """As etcd has them now."""
        params = {"labelSelector": f"{self._pool_label}={pool}"}
        answer = await self._api.request("GET", NODES, timeout=self._timeout, params=params)
        items = answer.get("items") or []
        return [self.parse_node(json.dumps(it).encode()) for it in items]

    async def taint(self, command: TaintNode) -> NodeState:
        """The Node as it is then."""
        body = {
            "metadata": {"resourceVersion": str(command.node.resource_version)},
            "spec": {"taints": list(command.taints)},
        }
        return self.parse_node(await self.guarded.patch(f"{NODES}/{command.name}", body))

    async def write(self, command: Command) -> None:
        """A command about a PoolMember."""
        path = f"{PATH}/{command.name}"
        match command:
            case CreateMember():
                await self.guarded.post(PATH, _new_member(command))
            case LabelMember():
                labels = {POOL_LABEL: command.pool or None, MAY_LEAD_LABEL: _true(command.may_lead)}
                await self.guarded.patch(path, {"metadata": {"uid": command.uid, "labels": labels}})
            case JudgeMember():
                spec = {
                    "judged": "Dead" if command.is_dead else None,
                    "lost": True if command.is_lost else None,
                }
                await self.guarded.patch(path, {"metadata": {"uid": command.uid}, "spec": spec})
            case SetConditions():
                conditions = [it.document() for it in _stamped(command)]
                status = {"conditions": conditions or None}
                body = {"metadata": {"uid": command.uid}, "status": status}
                await self.guarded.patch(f"{path}/status", body)
            case DeleteMember():
                await self._delete(path, command.uid)
            case TaintNode():
                raise TypeError("taints are written by `taint`")

    async def get(self, path: str) -> Json | None:
        """None where there is no such object."""
        try:
            return await self._api.request("GET", path, timeout=self._timeout, pooled=True)
        except NotFound:
            return None

    async def _delete(self, path: str, uid: str) -> None:
        try:
            await self.guarded.delete(path, uid=uid)
        except NotFound:
            # Garbage collection was quicker.
            return


def failure(error: NotLeading | ApiError | Unreachable | ValueError) -> WriteFailure:
    """What a failed write means for who decided it."""
    if isinstance(error, NotLeading):
        return WriteFailure("not leading", is_conflict=False, is_lost=False)
    if isinstance(error, ApiError):
        is_conflict = error.status in (404, 409)
        return WriteFailure(str(error), is_conflict, is_lost=not error.is_refusal)
    return WriteFailure(str(error), is_conflict=False, is_lost=not isinstance(error, NotSent))


def _new_member(command: CreateMember) -> Json:
    labels: dict[str, Any] = {}
    if command.pool:
        labels[POOL_LABEL] = command.pool
    if command.may_lead:
        labels[MAY_LEAD_LABEL] = TRUE
    owner = {"apiVersion": "v1", "kind": "Node", "name": command.name, "uid": command.owner}
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": command.name, "labels": labels, "ownerReferences": [owner]},
        "spec": {},
    }


def _true(is_so: bool) -> str | None:
    return TRUE if is_so else None


def _stamped(command: SetConditions) -> Sequence[Any]:
    from dataclasses import replace

    now = rfc3339.stamp_now()
    return [it if it.since else replace(it, since=now) for it in command.conditions]
