"""Whether the other members of a pool bear witness that a node is gone. Pure.

Guarantees: a node is gone only where more than half of the other members whose Nodes are Ready say
so, counted over those that are Ready and not over those that report; a vote that is missing, late,
or of a member that never heard the node, or not since that became Ready, keeps it. Where fewer than
a third of the pool is Ready the site has the trouble and not the node. Ages are measured from when
this process saw a report change: no two clocks are compared, and after a start no report is fresh
until it was seen to change.
Times are seconds of one clock, and come in.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from pool_sidecar.core.controller.node_state import NodeState
from pool_sidecar.core.pool_member import PeerVerdict, PoolMember, Verdict

# Seconds for which it must have been so. Four missed reports of 10 s, and a reboot of the host
# whose kernel answers while kubelet does not.
SILENT_FOR: Final = 40
DEGRADED_FOR: Final = 300
# A report counts for as many of its own periods.
PERIODS: Final = 3
# Seconds in which nothing that is read counts as a change, after this process stood still: what the
# API server had to say meanwhile comes at once, and is as old as the gap.
SETTLE: Final = 5.0

# A member of a pool, and its Node.
Member = tuple[NodeState, PoolMember]


@dataclass(frozen=True, slots=True)
class _Seen:
    uid: str
    sequence: int | None
    every: int
    changed_at: float


class Freshness:
    """When each member's report was last seen to change; `now` is when this process began."""

    def __init__(self, now: float) -> None:
        self._seen: dict[str, _Seen] = {}
        self._blind_until = now

    def observed(self, member: PoolMember, now: float, *, is_listed: bool = False) -> None:
        """`is_listed`: from a list of all, so that a change may be of any age."""
        report = member.status.report
        sequence = None if report is None else report.sequence
        before = self._seen.get(member.name)
        if before is not None and (before.uid, before.sequence) == (member.uid, sequence):
            return
        is_change = before is not None and before.uid == member.uid
        counts = is_change and not is_listed and now >= self._blind_until
        self._seen[member.name] = _Seen(
            member.uid,
            sequence,
            0 if report is None else report.every,
            now if counts else -math.inf,
        )

    def deleted(self, name: str) -> None:
        self._seen.pop(name, None)

    def void(self, now: float) -> None:
        """This process stood still: what it has seen, and sees next, is of unknown age."""
        self._blind_until = now + SETTLE
        self._seen = {
            name: _Seen(it.uid, it.sequence, it.every, -math.inf) for name, it in self._seen.items()
        }

    def begins(self, member: PoolMember, told: PeerVerdict) -> float:
        """When it began to be as its report says. Of a report that is fresh."""
        return self._seen[member.name].changed_at - told.seconds

    def is_fresh(self, member: PoolMember, now: float) -> bool:
        seen = self._seen.get(member.name)
        if seen is None or seen.uid != member.uid:
            return False
        return now - seen.changed_at <= PERIODS * seen.every


@dataclass(frozen=True, slots=True)
class Opinion:
    """What a pool says of one node: `votes` of `voters`, the Ready ones among the others; `ready`
    of `size` members are Ready."""

    votes: int
    voters: int
    ready: int
    size: int

    @property
    def has_majority(self) -> bool:
        return self.votes * 2 > self.voters

    @property
    def is_pool_well(self) -> bool:
        """Whether at least a third is Ready."""
        return self.ready * 3 >= self.size

    @property
    def is_gone(self) -> bool:
        return self.has_majority and self.is_pool_well

    @property
    def why_not(self) -> str:
        """In words, where the node is kept."""
        if not self.is_pool_well:
            return f"only {self.ready} of {self.size} members of the pool are Ready"
        if not self.voters:
            return "no other member of the pool is Ready"
        return (
            f"{self.votes} of the {self.voters} other members that are Ready say that it is gone, "
            "and more than half must"
        )


class Witnesses:
    """What the Ready members of one pool say, each node among them. `has_heard`: whether a member
    whose report is fresh has heard the node since that became Ready."""

    def __init__(
        self,
        members: Sequence[Member],
        is_fresh: Callable[[PoolMember], bool],
        has_heard: Callable[[PoolMember, PeerVerdict], bool],
    ) -> None:
        self._size = len(members)
        self._ready = {node.name for node, _ in members if node.is_ready}
        self._votes: Counter[str] = Counter()
        self._strangers: defaultdict[str, list[str]] = defaultdict(list)
        for node, member in members:
            report = member.status.report
            if not node.is_ready or report is None:
                continue
            fresh = is_fresh(member)
            for told in report.verdicts:
                if told.node == node.name:
                    continue
                if fresh and _is_vote(told) and has_heard(member, told):
                    self._votes[told.node] += 1
                elif told.verdict is Verdict.NEVER_HEARD:
                    self._strangers[told.node].append(node.name)

    def opinion(self, node: str) -> Opinion:
        """Of all but the node itself."""
        return Opinion(
            votes=self._votes[node],
            voters=len(self._ready - {node}),
            ready=len(self._ready),
            size=self._size,
        )

    def strangers_to(self, node: str) -> Sequence[str]:
        """The Ready members whose report says that they never heard the node: fresh or not, since
        it takes nothing from it."""
        return tuple(self._strangers.get(node, ()))


def _is_vote(told: PeerVerdict) -> bool:
    if told.verdict is Verdict.SILENT:
        return told.seconds >= SILENT_FOR
    return told.verdict is Verdict.DEGRADED and told.seconds >= DEGRADED_FOR
