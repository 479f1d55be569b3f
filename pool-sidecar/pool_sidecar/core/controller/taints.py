"""Which of the two taints each Node of a pool is to have. Pure.

`cut`: the member says that it borrows a link, for so long; no new pod is to come. `dead`: the cloud
does not hear the node, and its pool bears witness that it is gone; its pods go.

    Ready          dead                                     cut, if taints for it are wanted
    True, False    goes                                     CloudLink False for 40 s: comes
    Unknown        as it is; comes by witness, one node a   CloudLink True or absent: goes
                   pool at a time, at most `max_dead`       CloudLink Unknown: as it is

Guarantees: `dead` comes to no Node whose Ready is not Unknown, to no more than `max_dead` of a pool
at once, and not within 10 s of another one in the pool. A Node whose annotation keeps its pods has
neither taint. The memory of this process only delays:
what it forgets, it learns again from the API before it acts.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from pool_sidecar.core.controller.membership import pool_of
from pool_sidecar.core.controller.node_state import KEEP_PODS, NodeState
from pool_sidecar.core.controller.witness import Member, Opinion, Witnesses
from pool_sidecar.core.pool_member import Json

# Seconds between two nodes of a pool that are judged dead: what made the first one fall silent is
# seen by then if it takes the second one, too.
DEAD_INTERVAL: Final = 10.0
# Seconds for which a node borrows its link before it gets no more pods.
CUT_AFTER: Final = 40.0
# Seconds after which a lost node that no majority calls gone is reported: a dead one is judged by
# then, at the latest.
CANNOT_TELL_AFTER: Final = 60.0
# Seconds for which a member that was lost beside the node has to be back before it bears witness:
# kubelets of one site do not all come back in the same moment. They try again each 10 s, and the
# kernel's connections take up to 16 s more.
BACK_FOR: Final = 30.0


@dataclass(frozen=True, slots=True)
class MaxDead:
    """How many nodes of a pool may be `dead` at once: a share of the pool, or so many."""

    share: Fraction | None = Fraction(1, 3)
    count: int = 0

    def of(self, size: int) -> int:
        """At least one."""
        return max(1, self.count if self.share is None else math.floor(size * self.share))


@dataclass(frozen=True, slots=True)
class TaintNode:
    """Replaces the taints of the Node in the state that was judged."""

    node: NodeState
    taints: tuple[Json, ...]
    opinion: Opinion | None = None

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def marks_dead(self) -> bool:
        """Whether `dead` comes by it."""
        return self.opinion is not None


@dataclass(frozen=True, slots=True)
class UndecidedNode:
    """A node that the cloud has lost and that is kept. `is_limit`: by `max_dead`; `is_wanted`: by
    its annotation."""

    node: NodeState
    why: str
    is_limit: bool = False
    is_wanted: bool = False


@dataclass(frozen=True, slots=True)
class TaintVerdicts:
    """Of one pool, as of one moment. `is_waiting`: time alone may change them."""

    taints: tuple[TaintNode, ...] = ()
    undecided: tuple[UndecidedNode, ...] = ()
    is_waiting: bool = False


@dataclass(frozen=True, slots=True)
class Mark:
    """Sent at, for the Node at a version; `before`: when the mark before it was."""

    version: int
    at: float
    before: float | None


@dataclass
class TaintMemory:
    """What the API does not tell: since when it has been so, by the clock of this process.
    `started`: when it began."""

    started: float
    lost_since: dict[str, float] = field(default_factory=dict)
    cut_since: dict[str, float] = field(default_factory=dict)
    # When a Node was last seen to become Ready.
    ready_at: dict[str, float] = field(default_factory=dict)
    # The same, of what was missed meanwhile, too; or when one was first seen that was Ready.
    back_at: dict[str, float] = field(default_factory=dict)
    # By pool; a pool that is not here counts from the start.
    marked_at: dict[str, float] = field(default_factory=dict)
    # Marks that were sent, and have neither been seen nor refused, by Node.
    marking: dict[str, Mark] = field(default_factory=dict)

    def observed(self, node: NodeState, before: NodeState | None, now: float) -> None:
        is_missed = before is not None and _was_heard_between(node, before)
        if is_missed:
            self.lost_since.pop(node.name, None)
        _keep(self.lost_since, node.name, now, while_true=node.is_lost)
        _keep(self.cut_since, node.name, now, while_true=node.cloud_link == "False")
        if is_missed or (before is not None and node.is_ready and not before.is_ready):
            self.ready_at[node.name] = now
        is_other = before is None or not before.is_ready or node.ready_since != before.ready_since
        if node.is_ready and is_other:
            self.back_at[node.name] = now
        mark = self.marking.get(node.name)
        if mark is not None and mark.version < node.resource_version:
            if node.is_dead:
                del self.marking[node.name]
            else:
                # Somebody else's write came first: the mark is refused, if it is not already.
                self.refused(node)
        if before is not None and node.is_dead and not before.is_dead:
            self.marked_at[pool_of(node)] = now

    def deleted(self, node: NodeState) -> None:
        for memory in (
            *(self.lost_since, self.cut_since, self.ready_at, self.back_at),
            self.marking,
        ):
            memory.pop(node.name, None)

    def sent(self, node: NodeState, now: float) -> None:
        """`dead` is on its way to the Node."""
        pool = pool_of(node)
        mark = self.marking.get(node.name)
        before = self.marked_at.get(pool) if mark is None else mark.before
        self.marking[node.name] = Mark(node.resource_version, now, before)
        self.marked_at[pool] = now

    def refused(self, node: NodeState) -> None:
        """It certainly did not get there: as if it had not been sent."""
        mark, pool = self.marking.pop(node.name, None), pool_of(node)
        if mark is None or self.marked_at.get(pool) != mark.at:
            return
        del self.marked_at[pool]
        if mark.before is not None:
            self.marked_at[pool] = mark.before

    def was_there(self, voter: str, node: str, now: float) -> bool:
        """Whether the voter was not lost with the node, or has been back for long enough."""
        back = self.back_at.get(voter, now)
        return back < self.lost_since.get(node, now) or now - back >= BACK_FOR

    def may_mark(self, pool: str, now: float) -> bool:
        return now - self.marked_at.get(pool, self.started) >= DEAD_INTERVAL


def _was_heard_between(node: NodeState, before: NodeState) -> bool:
    """Whether it was lost, heard and lost again, of which only the end was seen."""
    return node.is_lost and before.is_lost and node.ready_since != before.ready_since


def _keep(since: dict[str, float], name: str, now: float, *, while_true: bool) -> None:
    if while_true:
        since.setdefault(name, now)
    else:
        since.pop(name, None)


@dataclass(frozen=True, slots=True)
class TaintPolicy:
    """What the flags say."""

    max_dead: MaxDead = MaxDead()
    taints_cut: bool = True


def verdicts(
    pool: str,
    members: Sequence[Member],
    witnesses: Witnesses,
    memory: TaintMemory,
    policy: TaintPolicy,
    *,
    now: float,
) -> TaintVerdicts:
    """Of the members of a pool; changes nothing in `memory`."""
    nodes = [node for node, _ in members]
    cut = {it.name: _is_cut(it, memory.cut_since, policy, now) for it in nodes}
    opinions = {it.name: witnesses.opinion(it.name) for it in nodes if _is_open(it)}
    judged = [it for it in nodes if not it.keeps_pods]
    chosen, limit = _choose(pool, judged, opinions, memory, policy, now, size=len(nodes))
    found = [
        TaintNode(node, taints, opinions[node.name] if node is chosen else None)
        for node in nodes
        if (taints := _taints(node, chosen, is_cut=cut[node.name])) != node.taints
    ]
    undecided = [
        _undecided(node, opinions[node.name], limit)
        for node in nodes
        if node.name in opinions and node is not chosen
    ]
    is_waiting = bool(undecided) or any(
        name in memory.cut_since and not is_cut for name, is_cut in cut.items()
    )
    reported = (it for it in undecided if it.is_limit or _is_overdue(it.node, memory, now))
    return TaintVerdicts(tuple(found), tuple(reported), is_waiting)


def without_taints(node: NodeState) -> TaintNode | None:
    """What becomes of a Node that is no member of any pool; None where it has none of ours."""
    taints = node.with_taints(dead=False, cut=False)
    return None if taints == node.taints else TaintNode(node, taints)


def _is_open(node: NodeState) -> bool:
    """Whether its witnesses are to be heard."""
    return node.is_lost and (not node.is_dead or node.keeps_pods)


def _choose(
    pool: str,
    nodes: Sequence[NodeState],
    opinions: Mapping[str, Opinion],
    memory: TaintMemory,
    policy: TaintPolicy,
    now: float,
    *,
    size: int,
) -> tuple[NodeState | None, int | None]:
    """The node that is to be marked now, the one first that was lost first; and the limit, where it
    is the limit that keeps others from it. `size`: of the pool."""
    gone = [it for it in nodes if it.name in opinions and opinions[it.name].is_gone]
    marked = sum(it.is_dead or it.name in memory.marking for it in nodes)
    limit = policy.max_dead.of(size)
    # One whose mark was sent may be marked already: it is that one again, or none.
    pending = [it for it in gone if it.name in memory.marking]
    if not pending and marked >= limit:
        return None, limit
    if not memory.may_mark(pool, now):
        return None, None
    candidates = pending or gone
    first = min(
        candidates, key=lambda it: (memory.lost_since.get(it.name, now), it.name), default=None
    )
    return first, None


def _taints(node: NodeState, chosen: NodeState | None, *, is_cut: bool) -> tuple[Json, ...]:
    stays_dead = node.is_dead and node.ready == "Unknown" and not node.keeps_pods
    return node.with_taints(dead=stays_dead or node is chosen, cut=is_cut)


def _is_cut(
    node: NodeState, cut_since: Mapping[str, float], policy: TaintPolicy, now: float
) -> bool:
    if node.keeps_pods or not policy.taints_cut or node.cloud_link in ("True", ""):
        return False
    return node.is_cut or now - cut_since.get(node.name, now) >= CUT_AFTER


def _undecided(node: NodeState, found: Opinion, limit: int | None) -> UndecidedNode:
    if node.keeps_pods:
        opinion = "its pool says that it is gone" if found.is_gone else found.why_not
        return UndecidedNode(node, f"its annotation {KEEP_PODS} says so; {opinion}", is_wanted=True)
    if found.is_gone and limit is not None:
        why = f"{limit} of the pool are dead already, which --max-dead allows"
        return UndecidedNode(node, why, is_limit=True)
    if found.is_gone:
        return UndecidedNode(node, "another node of the pool was judged within 10 s")
    return UndecidedNode(node, found.why_not)


def _is_overdue(node: NodeState, memory: TaintMemory, now: float) -> bool:
    return now - memory.lost_since.get(node.name, now) >= CANNOT_TELL_AFTER
