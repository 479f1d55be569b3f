"""All pools over time: what is observed of Nodes and PoolMembers comes in, commands go out. Pure.

    node_observed, member_observed ──► plan(now) ──► commands ──► performed, refused or lost

Owns which pools are to be looked at again, and which commands are under way. Guarantees: Nothing is
planned before both collections were listed. What is planned follows from the API's state, from
`now`, and from a memory that only delays, so that a controller that begins anew goes on where
another one ended. There is one command at a time for an object, and a failed one rests. Times are
seconds on CLOCK_BOOTTIME, and come in.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from edge_sidecars.runtime.backoff import exponential
from pool_sidecar.core.controller.conditions import (
    SetConditions,
    not_reachable,
    pool_full,
    set_conditions,
)
from pool_sidecar.core.controller.membership import (
    NO_POOL,
    CreateMember,
    DeleteMember,
    LabelMember,
    admitted,
    has_bad_name,
    membership,
    pool_of,
    refused,
)
from pool_sidecar.core.controller.node_state import NodeState
from pool_sidecar.core.controller.taints import (
    TaintMemory,
    TaintNode,
    TaintPolicy,
    UndecidedNode,
    verdicts,
    without_taints,
)
from pool_sidecar.core.controller.witness import Member, ReportFreshness, Witnesses
from pool_sidecar.core.pool_member import PeerVerdict, PoolMember

# Seconds; a loop that pauses for longer than this knows no report's age.
GAP: Final = 5.0
# Seconds before a command that failed is tried again: a conflict is over as soon as the watch has
# brought the newer state.
REST_AFTER_CONFLICT: Final = 1.0
REST_AFTER_FAILURE: Final = 5.0
# Each failure in a row doubles the rest of a PoolMember, so that an API server which refuses those
# of ten thousand nodes is not asked a thousand times a second. Taints do not wait: each second that
# `dead` stays on a node that is back may cost its pods.
LONGEST_REST: Final = 60.0
# Seconds before a PoolMember that does not keep `spec.lost` is written again.
LOST_AGAIN: Final = 60.0


@dataclass(frozen=True, slots=True)
class JudgeMember:
    """Writes `spec.judged` and `spec.lost`."""

    name: str
    uid: str
    is_dead: bool
    is_lost: bool = False


MemberCommand = CreateMember | LabelMember | DeleteMember | JudgeMember | SetConditions
Command = TaintNode | MemberCommand
# Which object.
Target = tuple[str, str]


@dataclass(frozen=True, slots=True)
class PoolCount:
    """Of one pool, as of one moment; `refused`: Nodes that find no place."""

    pool: str
    members: int
    ready: int
    dead: int
    cut: int
    refused: int
    not_reachable: int
    undecided: tuple[UndecidedNode, ...]
    keeping: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PoolPlan:
    """`bad_names`: Nodes whose label is no pool's name."""

    commands: tuple[Command, ...] = ()
    undecided: tuple[UndecidedNode, ...] = ()
    bad_names: tuple[NodeState, ...] = ()
    refused: tuple[NodeState, ...] = ()


@dataclass
class _Index:
    """Which Nodes name which pool."""

    nodes: dict[str, NodeState] = field(default_factory=dict)
    members: dict[str, PoolMember] = field(default_factory=dict)
    by_pool: defaultdict[str, dict[str, NodeState]] = field(
        default_factory=lambda: defaultdict(dict)
    )

    def put(self, node: NodeState) -> None:
        before = self.nodes.get(node.name)
        if before is not None and pool_of(before) != pool_of(node):
            self._leave(before)
        self.nodes[node.name] = node
        self.by_pool[pool_of(node)][node.name] = node

    def remove(self, node: NodeState) -> None:
        self.nodes.pop(node.name, None)
        self._leave(node)

    def of(self, pool: str) -> Sequence[NodeState]:
        return tuple(self.by_pool.get(pool, {}).values())

    def _leave(self, node: NodeState) -> None:
        pool = self.by_pool[pool_of(node)]
        pool.pop(node.name, None)
        if not pool:
            del self.by_pool[pool_of(node)]


class PoolController:
    """`now`: when this process began."""

    def __init__(self, policy: TaintPolicy, now: float) -> None:
        self._policy = policy
        self._index = _Index()
        self._memory = TaintMemory(now)
        self._freshness = ReportFreshness(now)
        self._dirty: set[str] = set()
        # Names of Nodes and PoolMembers that are in no pool, and may have something of ours.
        self._strays: set[str] = set()
        self._missing = {"nodes", "poolmembers"}
        self._under_way: set[Target] = set()
        self._rests_until: dict[Target, float] = {}
        # Of PoolMembers: failures in a row, but for conflicts.
        self._failures: Counter[Target] = Counter()
        # Those that rest until a newer state of the object comes.
        self._outdated: set[Target] = set()
        self._looked_at = now
        # When `spec.lost` of each PoolMember was last written: a CRD of before has no such field.
        self._lost_written_at: dict[str, float] = {}

    # ── what is observed ──

    @property
    def missing(self) -> tuple[str, ...]:
        """Collections that were not listed yet."""
        return tuple(sorted(self._missing))

    def node(self, name: str) -> NodeState | None:
        return self._index.nodes.get(name)

    def nodes_listed(self, nodes: Iterable[NodeState], now: float) -> None:
        """All that there are."""
        found = {it.name: it for it in nodes}
        for name in self._index.nodes.keys() - found.keys():
            self.node_deleted(name)
        for node in found.values():
            self.node_observed(node, now)
        self._missing.discard("nodes")

    def node_observed(self, node: NodeState, now: float) -> None:
        """By a watch; the older of two changes nothing."""
        before = self._index.nodes.get(node.name)
        if before is not None and before.uid == node.uid:
            if before.resource_version >= node.resource_version:
                return
        elif before is not None:
            self._memory.deleted(before)
            self._freshness.node_deleted(node.name)
        self._memory.observed(node, before, now)
        self._freshness.node_observed(node)
        self._renewed(("node", node.name))
        self._index.put(node)
        self._touch(node)
        if before is not None and before.pool != node.pool:
            self._touch(before)

    def node_answered(self, node: NodeState, now: float) -> None:
        """In an answer, which may be older than the end of the Node: only a watch or a list brings
        one that is not known."""
        known = self._index.nodes.get(node.name)
        if known is not None and known.uid == node.uid:
            self.node_observed(node, now)

    def node_deleted(self, name: str) -> None:
        node = self._index.nodes.get(name)
        if node is not None:
            self._memory.deleted(node)
            self._freshness.node_deleted(name)
            self._forget(("node", name))
            self._index.remove(node)
            self._touch(node)
            self._strays.add(name)

    def members_listed(self, members: Iterable[PoolMember], now: float) -> None:
        """All that there are."""
        found = {it.name: it for it in members}
        for name in self._index.members.keys() - found.keys():
            self.member_deleted(name)
        for member in found.values():
            self._member(member, now, is_listed=True)
        self._missing.discard("poolmembers")

    def member_observed(self, member: PoolMember, now: float) -> None:
        """By a watch."""
        self._member(member, now, is_listed=False)

    def member_deleted(self, name: str) -> None:
        member = self._index.members.pop(name, None)
        self._freshness.deleted(name)
        self._forget(("poolmember", name))
        if member is not None:
            self._touch_member(member)

    def _member(self, member: PoolMember, now: float, *, is_listed: bool) -> None:
        before = self._index.members.get(member.name)
        is_same = before is not None and before.uid == member.uid
        if before is not None and is_same and before.resource_version >= member.resource_version:
            return
        self._freshness.observed(member, now, is_listed=is_listed)
        self._renewed(("poolmember", member.name))
        self._index.members[member.name] = member
        self._touch_member(member)
        if before is not None and before.pool != member.pool:
            self._touch_member(before)

    def _renewed(self, target: Target) -> None:
        if target in self._outdated:
            self._outdated.discard(target)
            self._rests_until.pop(target, None)

    def _forget(self, target: Target) -> None:
        """The object is gone; one of its name is another one."""
        if target[0] == "poolmember":
            self._lost_written_at.pop(target[1], None)
        self._failures.pop(target, None)
        self._rests_until.pop(target, None)
        self._outdated.discard(target)

    def _touch(self, node: NodeState) -> None:
        pool = pool_of(node)
        if pool:
            self._dirty.add(pool)
        else:
            self._strays.add(node.name)

    def _touch_member(self, member: PoolMember) -> None:
        if member.pool:
            self._dirty.add(member.pool)
        node = self._index.nodes.get(member.name)
        if node is None:
            self._strays.add(member.name)
        else:
            self._touch(node)

    # ── what is to be done ──

    def looked(self, now: float) -> bool:
        """At least once a second, as leader or not. Whether this process stood still, so that every
        report is of unknown age."""
        stood_still = now - self._looked_at > GAP
        if stood_still:
            self._freshness.void(now)
        self._looked_at = now
        return stood_still

    def plan(self, now: float) -> PoolPlan:
        """What is to be done now. Each command is reported back by `performed` or `failed`."""
        if self._missing:
            return PoolPlan()
        commands: list[Command] = []
        undecided: list[UndecidedNode] = []
        no_place: list[NodeState] = []
        dirty, self._dirty = self._dirty, set()
        for pool in sorted(dirty):
            found = self._plan_pool(pool, now)
            commands += self._begin(found.commands, now)
            undecided += found.undecided
            no_place += found.refused
        strays, self._strays = self._strays, set()
        bad_names = []
        for name in sorted(strays):
            commands += self._begin(self._stray_commands(name), now)
            node = self._index.nodes.get(name)
            if node is not None and has_bad_name(node):
                bad_names.append(node)
        return PoolPlan(tuple(commands), tuple(undecided), tuple(bad_names), tuple(no_place))

    def is_confirmed(self, command: TaintNode, nodes: Iterable[NodeState], now: float) -> bool:
        """Whether `dead` is right by all Nodes of the pool as they were just read: which there are,
        are Ready, and are dead by another controller's word, may be older in what was observed.
        They count as observed."""
        found = {it.name: it for it in nodes}
        judged = found.get(command.name)
        is_news = any(it.is_dead and not self._is_known_dead(it) for it in found.values())
        for node in found.values():
            self.node_answered(node, now)
        if judged is None or judged.resource_version != command.node.resource_version or is_news:
            return False
        present = admitted(pool_of(judged), found.values(), self._index.members)
        return self._witnesses(present, now).opinion(judged.name).is_gone

    def _is_known_dead(self, node: NodeState) -> bool:
        known = self._index.nodes.get(node.name)
        return known is not None and known.is_dead

    def performed(self, command: Command) -> None:
        """It was applied: what it made of the object comes by the watch, or was observed."""
        self._under_way.discard(_target(command))
        self._failures.pop(_target(command), None)
        self._look_again(command)

    def failed(self, command: Command, now: float, *, is_conflict: bool, is_lost: bool) -> None:
        """`is_lost`: it may have been applied; else it certainly was not."""
        target, rest = _target(command), REST_AFTER_FAILURE
        self._under_way.discard(target)
        if isinstance(command, JudgeMember):
            self._lost_written_at.pop(command.name, None)
        if is_conflict and self._is_outdated(command):
            # The newer state is here already: it is judged again at once.
            rest = 0.0
        elif is_conflict:
            self._outdated.add(target)
            rest = REST_AFTER_CONFLICT
        elif not isinstance(command, TaintNode):
            rest = exponential(self._failures[target], first=rest, longest=LONGEST_REST)
            self._failures[target] += 1
        self._rests_until[target] = now + rest
        self._look_again(command)
        if isinstance(command, TaintNode) and command.marks_dead and not is_lost:
            self._memory.refused(command.node)

    def _is_outdated(self, command: Command) -> bool:
        """Whether a newer state of the Node has been observed than the one that was judged."""
        if not isinstance(command, TaintNode):
            return False
        known = self._index.nodes.get(command.name)
        return known is not None and known.resource_version > command.node.resource_version

    def _plan_pool(self, pool: str, now: float) -> PoolPlan:
        nodes, members = self._index.of(pool), self._index.members
        present = admitted(pool, nodes, members)
        inside = {node.name for node, _ in present}
        without_place = refused(pool, nodes, members)
        witnesses = self._witnesses(present, now)
        found = verdicts(pool, present, witnesses, self._memory, self._policy, now=now)
        if found.is_waiting:
            self._dirty.add(pool)
        outside = (without_taints(it) for it in nodes if it.name not in inside)
        commands: list[Command] = [*found.taints, *(it for it in outside if it is not None)]
        commands += membership(pool, nodes, members)
        commands += self._judge(present, now)
        commands += self._conditions(pool, present, witnesses, without_place)
        no_place = tuple(it for it in nodes if it.name in without_place)
        return PoolPlan(tuple(commands), found.undecided, (), no_place)

    def _witnesses(self, present: Sequence[Member], now: float) -> Witnesses:
        def counts(member: PoolMember, peer: PeerVerdict) -> bool:
            ready_at = self._memory.ready_at.get(peer.node, -math.inf)
            has_heard = self._freshness.begins(member, peer) >= ready_at
            was_there = self._memory.was_there(member.name, peer.node, now)
            return was_there and has_heard and self._freshness.is_about_loss(member, peer.node)

        return Witnesses(present, lambda it: self._freshness.is_fresh(it, now), counts)

    def _conditions(
        self,
        pool: str,
        present: Sequence[Member],
        witnesses: Witnesses,
        without_place: Iterable[str],
    ) -> Iterator[Command]:
        for node, member in present:
            command = set_conditions(member, not_reachable(witnesses.strangers_to(node.name)))
            if command is not None:
                yield command
        for name in sorted(without_place):
            found = self._index.members.get(name)
            command = None if found is None else set_conditions(found, pool_full(pool))
            if command is not None:
                yield command

    def _judge(self, present: Sequence[Member], now: float) -> Iterator[Command]:
        for node, member in present:
            written_at = self._lost_written_at.get(node.name, -math.inf)
            # It asks for votes, and on one that is kept there is nothing to decide.
            is_lost = node.is_lost and not node.keeps_pods
            is_news = member.is_lost != is_lost and (not is_lost or now - written_at >= LOST_AGAIN)
            if is_news or member.is_dead != node.is_dead:
                yield JudgeMember(member.name, member.uid, node.is_dead, is_lost)

    def _stray_commands(self, name: str) -> list[Command]:
        """Of a name that is in no pool."""
        node, member = self._index.nodes.get(name), self._index.members.get(name)
        if node is not None and pool_of(node) != NO_POOL:
            return []
        commands: list[Command] = []
        if node is not None and (command := without_taints(node)) is not None:
            commands.append(command)
        if member is not None:
            commands.append(DeleteMember(member.name, member.uid))
        return commands

    def _begin(self, commands: Iterable[Command], now: float) -> list[Command]:
        """Those that may be sent: one at a time for an object, the first one first."""
        begun = []
        for command in commands:
            target = _target(command)
            self._look_again(command)
            if target in self._under_way or self._rests_until.get(target, now) > now:
                continue
            self._rests_until.pop(target, None)
            self._outdated.discard(target)
            self._under_way.add(target)
            if isinstance(command, TaintNode) and command.marks_dead:
                self._memory.sent(command.node, now)
            if isinstance(command, JudgeMember) and command.is_lost:
                self._lost_written_at[command.name] = now
            elif isinstance(command, JudgeMember):
                self._lost_written_at.pop(command.name, None)
            begun.append(command)
        return begun

    def _look_again(self, command: Command) -> None:
        """Until nothing is left to be done."""
        node = self._index.nodes.get(command.name)
        if node is not None:
            self._touch(node)
        else:
            self._strays.add(command.name)

    # ── what people ask ──

    def counts(self, now: float) -> Iterator[PoolCount]:
        """Of each pool that has Nodes."""
        for pool, found in sorted(self._index.by_pool.items()):
            if pool == NO_POOL:
                continue
            nodes, members = tuple(found.values()), self._index.members
            present = admitted(pool, nodes, members)
            witnesses = self._witnesses(present, now)
            seen = verdicts(pool, present, witnesses, self._memory, self._policy, now=now)
            yield PoolCount(
                pool=pool,
                members=len(present),
                ready=sum(node.is_ready for node, _ in present),
                dead=sum(node.is_dead for node, _ in present),
                cut=sum(node.is_cut for node, _ in present),
                refused=len(refused(pool, nodes, members)),
                not_reachable=sum(bool(witnesses.strangers_to(node.name)) for node, _ in present),
                undecided=tuple(it for it in seen.undecided if not it.is_wanted),
                keeping=tuple(node.name for node, _ in present if node.keeps_pods),
            )

    def defects(self) -> list[str]:
        """PoolMembers whose status breaks the bounds, so that it counts as none."""
        found = ((it.name, it.defect) for it in self._index.members.values() if it.defect)
        return [f"{name}: {defect}" for name, defect in sorted(found)]


def _target(command: Command) -> Target:
    """One write at a time for each object."""
    return ("node" if isinstance(command, TaintNode) else "poolmember", command.name)
