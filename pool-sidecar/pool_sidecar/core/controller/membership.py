"""Which Nodes are members of which pool, and what that makes of the PoolMembers. Pure.

Guarantees: a Node with a pool's label has one PoolMember, of its name, owned by it; a Node without
one, or with a name that is none, has no PoolMember. A pool has 64 members: who is one stays one,
and the others join in the order of their names. A Node that finds no place has a PoolMember without
the label, on which a condition says so. With the label, and whenever it moves to another pool, the
PoolMember goes: no report in one pool counts in another.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from pool_sidecar.core.controller.node_state import NodeState
from pool_sidecar.core.controller.witness import Member
from pool_sidecar.core.pool_member import MAX_MEMBERS, PoolMember, is_pool_name

Members = Mapping[str, PoolMember]


@dataclass(frozen=True, slots=True)
class CreateMember:
    """`pool`: "" where the pool is full. `owner`: the uid of the Node."""

    name: str
    owner: str
    pool: str
    may_lead: bool


@dataclass(frozen=True, slots=True)
class LabelMember:
    name: str
    uid: str
    pool: str
    may_lead: bool


@dataclass(frozen=True, slots=True)
class DeleteMember:
    name: str
    uid: str


MembershipCommand = CreateMember | LabelMember | DeleteMember
# Of a Node whose label is no pool's name, and of one without the label.
NO_POOL: Final = ""


def pool_of(node: NodeState) -> str:
    """The pool that the Node's label names; "" where it names none."""
    return node.pool if is_pool_name(node.pool) else NO_POOL


def has_bad_name(node: NodeState) -> bool:
    return bool(node.pool) and not is_pool_name(node.pool)


def admitted(pool: str, nodes: Iterable[NodeState], members: Members) -> tuple[Member, ...]:
    """The members of a pool as they are in the API, in the order of their names."""
    found = ((node, members.get(node.name)) for node in nodes)
    present = [
        (node, it)
        for node, it in found
        if it is not None and it.pool == pool and it.owner == node.uid
    ]
    return tuple(sorted(present, key=lambda it: it[0].name)[:MAX_MEMBERS])


def refused(pool: str, nodes: Iterable[NodeState], members: Members) -> frozenset[str]:
    """The names of the Nodes of a pool that find no place in it."""
    nodes = tuple(nodes)
    inside = [node.name for node, _ in admitted(pool, nodes, members)]
    outside = sorted({node.name for node in nodes} - set(inside))
    return frozenset(outside[MAX_MEMBERS - len(inside) :])


def membership(
    pool: str, nodes: Iterable[NodeState], members: Members
) -> tuple[MembershipCommand, ...]:
    """What is to be done about the PoolMembers of the Nodes of one pool."""
    nodes = tuple(nodes)
    without_place = refused(pool, nodes, members)
    commands = (
        _command(node, members.get(node.name), NO_POOL if node.name in without_place else pool)
        for node in sorted(nodes, key=lambda it: it.name)
    )
    return tuple(it for it in commands if it is not None)


def _command(node: NodeState, member: PoolMember | None, pool: str) -> MembershipCommand | None:
    may_lead = node.may_lead and bool(pool)
    if member is None:
        return CreateMember(node.name, node.uid, pool, may_lead)
    if member.owner != node.uid or member.pool not in (NO_POOL, pool, pool_of(node)):
        return DeleteMember(member.name, member.uid)
    if (member.pool, member.may_lead) != (pool, may_lead):
        return LabelMember(member.name, member.uid, pool, may_lead)
    return None
