"""Which shards are free, who takes part in sharing them, and what this member gives up or takes.

Owns since when each shard is free and who may take it; what is written is `table_plan`'s. Pure.
Guarantees: no shard is free but one whose last owner has ended for good; nothing is taken from a
table that not all who may work go by; nothing is given up for a member that does not take.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from elector_sidecar.core.election import Election
from elector_sidecar.core.timing import MAX_LEASE_DURATION
from elector_sidecar.shards import balance
from elector_sidecar.shards.balance import UNTAKEN_LIMIT, Share
from elector_sidecar.shards.members.membership import Membership, ShardMember
from elector_sidecar.shards.members.observed_members import ENDED, End, Members, ObservedMember
from elector_sidecar.shards.ownership import Ownership
from elector_sidecar.shards.pace import Pace
from elector_sidecar.shards.table.shard_table import Owner
from elector_sidecar.shards.table.table_state import TableState

# Who finds nothing owned lets others arrive before it takes anything. Seconds of membership.
FIRST_TAKE_DELAY = 1.0

Term = tuple[str, int]


@dataclass(frozen=True)
class Moves:
    """Shards to take, when, and past whom: members whose share they were and who did not."""

    shards: tuple[int, ...] = ()
    due_at: float = math.inf
    passed_over: frozenset[Term] = frozenset()


NO_MOVES = Moves()


@dataclass
class _PassedOver:
    """A member that did not take its share: how many it had, in which table, how often."""

    owned: int
    table_version: int
    pace: Pace


class ShardMoves:
    def __init__(
        self,
        member: ShardMember,
        election: Election,
        membership: Membership,
        ownership: Ownership,
        members: Members,
        table: TableState,
    ) -> None:
        self._member = member
        self._duration = member.candidate.timing.lease_duration
        self._election = election
        self._membership = membership
        self._ownership = ownership
        self._members = members
        self._table = table
        self._free_since: dict[int, float] = {}
        # Since when this member may take what is free.
        self._open_since = math.inf
        # Who was a member when nothing was owned counts as settled.
        self._founders: frozenset[Term] = frozenset()
        self._passed_over: dict[Term, _PassedOver] = {}

    @property
    def _me(self) -> str:
        return self._election.identity

    def begin_term(self) -> None:
        self._free_since = {}
        self._open_since = math.inf
        self._founders = frozenset()
        self._passed_over = {}

    # ── who takes part ──

    def shares(self, now: float) -> dict[str, Share]:
        """The living members with this number of shards, and what the table gives each."""
        counts = self._counts()
        shares = {}
        for member in self._members.alive(now):
            note = member.note
            if note is None or note.shards != self._member.shards:
                continue
            term = (member.holder, note.term)
            owned = counts.get(term, 0)
            shares[member.holder] = Share(
                owned,
                is_settled=note.is_settled or term in self._founders,
                is_leaving=note.is_leaving,
                can_take=note.seen is not None and self._may_try(now, term, owned, note.seen_at),
            )
        return shares

    def _counts(self) -> dict[Term, int]:
        counts: dict[Term, int] = {}
        for owner in self._table.known.table.owners if self._table.known else ():
            if owner is not None:
                term = (owner.identity, owner.term)
                counts[term] = counts.get(term, 0) + 1
        return counts

    def _may_try(self, now: float, term: Term, owned: int, seen_at: int) -> bool:
        """Whether shards may be given up for it: if it was passed over, once it has seen that,
        and ever later the more often it was."""
        passed = self._passed_over.get(term)
        if passed is None:
            return True
        if owned > passed.owned:
            del self._passed_over[term]
            return True
        return seen_at > passed.table_version and now >= passed.pace.not_before

    def passed_over(self, now: float, terms: frozenset[Term], table_version: int) -> None:
        """They left free what is written as taken now."""
        counts = self._counts()
        for term in terms:
            passed = self._passed_over.get(term)
            if passed is None:
                passed = self._passed_over[term] = _PassedOver(0, 0, Pace(UNTAKEN_LIMIT))
            passed.owned, passed.table_version = counts.get(term, 0), table_version
            passed.pace.failed(now, is_refused=True)

    def place(self, now: float) -> int:
        """This member's turn among those that could do what anybody can."""
        shares = balance.participants(self.shares(now))
        order = sorted(shares, key=lambda identity: (shares[identity].owned, identity))
        return order.index(self._me) if self._me in order else len(order)

    # ── whose term has ended ──

    def end_of(self, owner: Owner) -> End:
        return self._members.end_of(owner, table_version=self._table.version)

    def _is_over(self, owner: Owner, number: int) -> bool:
        if owner.identity == self._me:
            return owner.term < number
        return self.end_of(owner) == ENDED

    # ── what moves ──

    def note_free(self, now: float, number: int) -> None:
        """Since when each shard is seen free; who may found the ring; what is over the quota."""
        known = self._table.known
        if known is None:
            return
        ended = {owner for owner in self._table.owners if self._is_over(owner, number)}
        free = {s for s, it in enumerate(known.table.owners) if it is None or it in ended}
        self._free_since = {s: self._free_since.get(s, now) for s in sorted(free)}
        is_unowned = len(free) == known.table.shards
        if is_unowned:
            self._membership.found()
            self._founders = frozenset(
                (it.holder, it.note.term) for it in self._members.alive(now) if it.note
            )
        if not self.may_take(now) or known.table.shards != self._member.shards:
            return
        shares = self.shares(now)
        handing_over = sum(it.is_handing_over for it in self._ownership.shards.values())
        if self._me in shares and not is_unowned:
            count = balance.excess(self._me, shares, known.table.shards) - handing_over
            if count > 0:
                self._ownership.give_up(now, count)

    def may_take(self, now: float) -> bool:
        """Whether all who may work go by this table, so that what is free in it is free."""
        since = self._table.unconfirmed_since
        if since is None:
            return True
        others = self._others(since)
        # A Lease without a note that can be read is no proof of a member: it may be a copy.
        durations = [owner.lease_duration for owner in self._table.owners]
        durations += [it.duration for it in others if it.note]
        return self._table.is_confirmed(
            now,
            notes=[it.note for it in others],
            stream_version=self._members.version,
            wait=min(max([self._duration, *durations]), MAX_LEASE_DURATION),
        )

    def _others(self, since: float) -> list[ObservedMember]:
        """The Leases of those who may have owned something then or later."""
        for owner in self._table.owners:
            self._members.member(owner.lease)  # one that was never seen may work
        mine = self._member.candidate.name
        return [it for it in self._members if it.name != mine and it.may_work(since)]

    def takes(self, now: float) -> Moves:
        if not self.may_take(now):
            self._open_since = math.inf
            return NO_MOVES
        if self._membership.is_founder and now < self.first_take_at(now):
            return Moves(due_at=self.first_take_at(now))
        self._open_since = min(self._open_since, now)
        free = {shard: max(at, self._open_since) for shard, at in self._free_since.items()}
        shares, shards = self.shares(now), self._member.shards
        mine = balance.taking(self._me, shares, list(free), [], shards)
        waited, passed = 0.0, frozenset[Term]()
        if not mine.shards:
            late = [shard for shard, since in free.items() if now >= since + UNTAKEN_LIMIT]
            mine = balance.taking(self._me, shares, [], late, shards) if late else mine
            waited, passed = UNTAKEN_LIMIT, self._below_quota(now, shares)
        if not mine.shards:
            return NO_MOVES
        since = [free[shard] for shard in mine.shards]
        # Several members give up shards at once, each in a write of its own.
        due_at = max(since) if mine.are_all else balance.gathered_at(since)
        due_at += waited + mine.delay
        return Moves(mine.shards, due_at, passed)

    def _below_quota(self, now: float, shares: dict[str, Share]) -> frozenset[Term]:
        quotas = balance.quotas(shares, self._member.shards)
        return frozenset(
            (it.holder, it.note.term)
            for it in self._members.alive(now)
            if it.note and it.holder in quotas and shares[it.holder].owned < quotas[it.holder]
        )

    def first_take_at(self, now: float) -> float:
        term = self._election.valid_term(now)
        return math.inf if term is None else term.started_at + FIRST_TAKE_DELAY

    def look_again_times(self, now: float) -> Sequence[float]:
        """When time alone may make something due."""
        return (
            self.first_take_at(now),
            *(max(at, self._open_since) + UNTAKEN_LIMIT for at in self._free_since.values()),
            *(self.end_of(owner).at for owner in self._table.owners),
            *(it.pace.not_before for it in self._passed_over.values()),
        )
