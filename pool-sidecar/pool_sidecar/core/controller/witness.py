"""Whether the other members of a pool bear witness that a node is gone. Pure.

Guarantees: A node is gone only where more than half of the other members whose Nodes are Ready say
so, counted over those that are Ready and not over those that report. A vote that is missing, late,
or of a member that never heard the node, or not since that became Ready, or that was lost beside
the node and is just back, keeps it. Where fewer than a third of the pool is Ready the site has the
trouble and not the node. A vote is at most `MAX_AGE` seconds old and was seen to change after the
API lost the node: a report on a node that still spoke is no witness of its death. Ages are measured
from when this process saw a report change: no two clocks are compared, and after a start no report
is fresh until it was seen to change. Times are seconds of one clock, and come in.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from pool_sidecar.core.controller.node_state import NodeState
from pool_sidecar.core.pool_member import PeerVerdict, PoolMember, Verdict
from pool_sidecar.core.votes import is_vote

# A report counts for as many of its own periods, and for no longer than so many seconds (pool.md
# 14.1): while the API has lost a node, its neighbours report on it every 10 s.
PERIODS: Final = 3
MAX_AGE: Final = 30.0
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


class ReportFreshness:
    """When each member's report was last seen to change; `now` is when this process began."""

    def __init__(self, now: float) -> None:
        self._seen: dict[str, _Seen] = {}
        self._blind_until = now
        # Of each Node that the API has lost: which loss it is, and the members whose report has
        # changed since.
        self._losses: dict[str, tuple[str, set[str]]] = {}

    def node_observed(self, node: NodeState) -> None:
        """The API lost it, or hears it again."""
        known = self._losses.get(node.name)
        if not node.is_lost:
            self._losses.pop(node.name, None)
        elif known is None or known[0] != node.ready_since:
            self._losses[node.name] = node.ready_since, set()

    def node_deleted(self, name: str) -> None:
        self._losses.pop(name, None)

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
        self._forget_votes(member.name)
        if counts and report is not None:
            for peer in report.verdicts:
                if peer.node in self._losses:
                    self._losses[peer.node][1].add(member.name)

    def deleted(self, name: str) -> None:
        self._seen.pop(name, None)
        self._forget_votes(name)

    def _forget_votes(self, voter: str) -> None:
        for _, voters in self._losses.values():
            voters.discard(voter)

    def void(self, now: float) -> None:
        """This process stood still: what it has seen, and sees next, is of unknown age."""
        self._blind_until = now + SETTLE
        self._seen = {
            name: _Seen(it.uid, it.sequence, it.every, -math.inf) for name, it in self._seen.items()
        }

    def begins(self, member: PoolMember, peer: PeerVerdict) -> float:
        """When it began to be as its report says, or was heard before. Of a report that is
        fresh."""
        return self._seen[member.name].changed_at - max(peer.seconds, peer.heard or 0)

    def is_fresh(self, member: PoolMember, now: float) -> bool:
        seen = self._seen.get(member.name)
        if seen is None or seen.uid != member.uid:
            return False
        return now - seen.changed_at <= min(PERIODS * seen.every, MAX_AGE)

    def is_about_loss(self, member: PoolMember, node: str) -> bool:
        """Whether its report was seen to change after the API had lost the node."""
        loss = self._losses.get(node)
        return loss is not None and member.name in loss[1]


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
    """What the Ready members of one pool say, each node among them. `counts`: whether a vote of a
    member whose report is fresh is about this loss of the node, and of one that had heard it."""

    def __init__(
        self,
        members: Sequence[Member],
        is_fresh: Callable[[PoolMember], bool],
        counts: Callable[[PoolMember, PeerVerdict], bool],
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
            for peer in report.verdicts:
                if peer.node == node.name:
                    continue
                if fresh and is_vote(peer) and counts(member, peer):
                    self._votes[peer.node] += 1
                elif peer.verdict is Verdict.NEVER_HEARD:
                    self._strangers[peer.node].append(node.name)

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
