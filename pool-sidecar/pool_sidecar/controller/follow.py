"""Nodes and PoolMembers as the API server sends them, into the core.

Guarantees: the core is told in the turn of the event loop in which a change came, with the time of
that moment; a list is told as one, since what it has may be of any age.
"""

from collections.abc import Callable, Sequence
from typing import Never

from edge_sidecars.kubeapi import ApiClient
from edge_sidecars.kubeapi.reflector import reflect
from edge_sidecars.runtime.clock import boottime
from pool_sidecar.controller.api import NODES
from pool_sidecar.core.controller.node_state import NodeState
from pool_sidecar.core.controller.pool_controller import PoolController
from pool_sidecar.core.pool_member import PATH, PoolMember


class _Nodes:
    """A sink of `reflect`. `changed` is called after each."""

    def __init__(self, core: PoolController, moved: Callable[[], None]) -> None:
        self._core = core
        self._moved = moved

    def replaced(self, documents: Sequence[NodeState], version: int) -> None:
        self._core.nodes_listed(documents, boottime())
        self._moved()

    def changed(self, document: NodeState) -> None:
        self._core.node_observed(document, boottime())
        self._moved()

    def deleted(self, document: NodeState) -> None:
        self._core.node_deleted(document.name)
        self._moved()

    def at(self, version: int) -> None:
        """Nothing here depends on it."""


class _Members:
    """A sink of `reflect`."""

    def __init__(self, core: PoolController, moved: Callable[[], None]) -> None:
        self._core = core
        self._moved = moved

    def replaced(self, documents: Sequence[PoolMember], version: int) -> None:
        self._core.members_listed(documents, boottime())
        self._moved()

    def changed(self, document: PoolMember) -> None:
        self._core.member_observed(document, boottime())
        self._moved()

    def deleted(self, document: PoolMember) -> None:
        self._core.member_deleted(document.name)
        self._moved()

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
    await reflect(api, NODES, decode=decode, sink=_Nodes(core, moved))


async def follow_members(api: ApiClient, core: PoolController, moved: Callable[[], None]) -> Never:
    """Until cancelled. Without the CRD there are none, until there is one."""
    await reflect(api, PATH, decode=PoolMember.parse, sink=_Members(core, moved))
