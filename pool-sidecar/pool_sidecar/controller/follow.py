"""Nodes and PoolMembers as the API server sends them, into the core.

Guarantees: a change reaches the core in the turn of the event loop in which it came, with the time
of that moment; a list reaches it as one, since what it has may be of any age.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Never, TypeVar

from edge_sidecars.kubeapi import ApiClient
from edge_sidecars.kubeapi.reflector import reflect
from edge_sidecars.runtime.clock import boottime
from pool_sidecar.controller.api import NODES
from pool_sidecar.core.controller.node_state import NodeState
from pool_sidecar.core.controller.pool_controller import PoolController
from pool_sidecar.core.pool_member import PATH, PoolMember

T = TypeVar("T")


@dataclass(frozen=True)
class _Sink(Generic[T]):
    """A sink of `reflect`, which tells the core at once; `moved` is called after each."""

    listed: Callable[[Sequence[T], float], None]
    observed: Callable[[T, float], None]
    is_gone: Callable[[T], None]
    moved: Callable[[], None]

    def replaced(self, documents: Sequence[T], version: int) -> None:
        self.listed(documents, boottime())
        self.moved()

    def changed(self, document: T) -> None:
        self.observed(document, boottime())
        self.moved()

    def deleted(self, document: T) -> None:
        self.is_gone(document)
        self.moved()

    def at(self, version: int) -> None:
        """Nothing here depends on it."""


async def follow_nodes(
    api: ApiClient,
    core: PoolController,
    moved: Callable[[], None],
    *,
    decode: Callable[[bytes], NodeState],
) -> Never:
    """Until cancelled. A Node has 5-15 KB, of which `decode` keeps some 500 bytes."""
    sink = _Sink(
        core.nodes_listed, core.node_observed, lambda it: core.node_deleted(it.name), moved
    )
    await reflect(api, NODES, decode=decode, sink=sink)


async def follow_members(api: ApiClient, core: PoolController, moved: Callable[[], None]) -> Never:
    """Until cancelled. Without the CRD there are none, until there is one."""
    sink = _Sink(
        core.members_listed, core.member_observed, lambda it: core.member_deleted(it.name), moved
    )
    await reflect(api, PATH, decode=PoolMember.parse, sink=sink)
