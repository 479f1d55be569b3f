"""What one member writes next: into the table, or into the Lease of a member that is waited out.

Pure. Guarantees: no shard is taken but one whose last owner has ended for good, by a member whose
present term others can read, from a table that all living members go by; whoever is not the first
in order waits its turn, so that few of those who want the same write at the same time.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from elector_sidecar.core.election import Election
from elector_sidecar.core.timing import CREATE_VACANT_DELAY
from elector_sidecar.shards import balance
from elector_sidecar.shards.balance import TAKER_SPACING, UNTAKEN_LIMIT, Share
from elector_sidecar.shards.members import ENDED, End, Members, ObservedMember
from elector_sidecar.shards.membership import Membership, ShardMember
from elector_sidecar.shards.ownership import Ownership
from elector_sidecar.shards.table import (
    TABLE_ANNOTATION,
    Owner,
    Table,
    TableVersion,
    decode,
)
from elector_sidecar.shards.table_state import TableState
from elector_sidecar.shards.table_writes import (
    LeaseName,
    WriteNamed,
    fence_body,
    found_instead,
    table_body,
    vacant_table_body,
)

# Who finds nothing owned lets others arrive before it takes anything. Seconds of membership.
FIRST_TAKE_DELAY = 1.0


@dataclass(frozen=True)
class PlannedWrite:
    """Due at a time. `takes`: the shards that it acquires; `fences`: the term that ends by it."""

    due_at: float
    name: str
    body: dict[str, Any]
    base_version: int
    digest: str | None = None
    takes: frozenset[int] = frozenset()
    fences: Owner | None = None


class TablePlan:
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
        self._me = member.candidate.identity
        self._election = election
        self._membership = membership
        self._ownership = ownership
        self._members = members
        self._table = table
        self._duration = member.candidate.timing.lease_duration
        self._where = LeaseName(member.candidate.namespace, member.table, member.table)
        self._not_before = -math.inf
        self._refused: tuple[str, int] | None = None
        self._free_since: dict[int, float] = {}
        # Since when this member may take what is free.
        self._open_since = math.inf
        self._noticed: tuple[tuple[str, int], float] = (("", 0), 0.0)
        # Who was a member when nothing was owned counts as settled.
        self._founders: frozenset[tuple[str, int]] = frozenset()

    def begin_term(self, now: float) -> None:
        self._free_since = {}
        self._open_since = math.inf
        self._founders = frozenset()

    def put_off(self, until: float) -> None:
        self._not_before = max(self._not_before, until)

    def conflicted(self, now: float, write: WriteNamed) -> None:
        """That version is never written on again (P4)."""
        self._refused = (write.name, write.base_version)

    # ── who takes part ──

    def shares(self, now: float) -> dict[str, Share]:
        """The living members with this number of shards, and what the table gives each."""
        counts: dict[tuple[str, int], int] = {}
        for owner in self._table.known.table.owners if self._table.known else ():
            if owner is not None:
                key = (owner.identity, owner.term)
                counts[key] = counts.get(key, 0) + 1
        shares = {}
        for member in self._living(now):
            note = member.note
            if note is None or note.shards != self._member.shards:
                continue
            key = (member.holder, note.term)
            is_settled = note.is_settled or key in self._founders
            shares[member.holder] = Share(counts.get(key, 0), is_settled, note.is_leaving)
        return shares

    def _living(self, now: float) -> list[ObservedMember]:
        return self._members.alive(now)

    def _rank(self, now: float) -> int:
        """This member's turn among those that could do what anybody can."""
        shares = balance.participants(self.shares(now))
        order = sorted(shares, key=lambda identity: (shares[identity].owned, identity))
        return order.index(self._me) if self._me in order else len(order)

    # ── what is due ──

    def next(self, now: float, *, stamp: str) -> PlannedWrite | None:
        number = self._membership.number(now)
        if number is None or not self._membership.is_registered(now):
            return None
        planned = self._planned(now, number, stamp)
        if planned is None or self._refused == (planned.name, planned.base_version):
            return None
        return replace(planned, due_at=max(planned.due_at, self._not_before))

    def _planned(self, now: float, number: int, stamp: str) -> PlannedWrite | None:
        table = self._table
        if not table.observed.is_known or table.newer_format:
            return None
        if table.known is not None and table.problem:
            if now >= table.problem_since + self._duration:
                # Nobody could write it back: whatever this member knew is older than what is.
                self._ownership.end_term(now, by_itself=False)
                table.forget(now)
            else:
                return self._write_back(now, stamp)
        if table.known is None:
            return self._begin(now, stamp)
        if not table.is_labelled:
            return self._repair(now, stamp)
        self._note_free(now, number)
        wanted = [it for it in (self._change(now, number, stamp), self._fence(now, stamp)) if it]
        return min(wanted, key=lambda it: it.due_at, default=None)

    def _begin(self, now: float, stamp: str) -> PlannedWrite:
        """The table begins where no single leader can lead any more, with what is written in it."""
        table = self._table
        rank = self._rank(now) * TAKER_SPACING
        if table.observed.must_create_vacant:
            body = vacant_table_body(
                self._where, identity=self._me, lease_duration=int(self._duration)
            )
            due_at = table.observed.missing_since + CREATE_VACANT_DELAY + rank
            return PlannedWrite(due_at, self._where.name, body, 0)
        stored = table.stored
        if stored is None:
            new = Table(1, 0, None, (None,) * self._member.shards)
        else:
            new = stored.table.changed(stored.version, stored.table.owners)
            new = replace(new, restored=new.restored + 1)
        return self._table_write(table.rebuild_at() + rank, new, stamp, set_aside=stored is None)

    def _write_back(self, now: float, stamp: str) -> PlannedWrite | None:
        """Edited, restored or deleted by somebody else: what this member knows is stored again."""
        known, stored = self._table.known, self._table.stored
        if known is None:
            return None
        if stored == known:
            return self._repair(now, stamp)
        sequence, restored = known.table.sequence, known.table.restored
        if stored is not None:
            sequence = max(sequence, stored.table.sequence)
            restored = max(restored, stored.table.restored)
        new = replace(
            known.table, sequence=sequence + 1, restored=restored + 1, follows=known.version
        )
        due_at = self._table.problem_since + self._rank(now) * TAKER_SPACING
        return self._table_write(due_at, new, stamp, set_aside=True)

    def _repair(self, now: float, stamp: str) -> PlannedWrite | None:
        """The table is whole, but not what is around it: its holder or its label."""
        if self._table.known is None:
            return None
        due_at = self._since("repair", now) + self._rank(now) * TAKER_SPACING
        return self._table_write(due_at, self._table.known.table, stamp)

    def _since(self, what: str, now: float) -> float:
        """When it was first wanted on the present version of the table."""
        key = (what, self._table.version)
        if self._noticed[0] != key:
            self._noticed = (key, now)
        return self._noticed[1]

    def _table_write(
        self,
        due_at: float,
        new: Table,
        stamp: str,
        *,
        takes: Iterable[int] = (),
        set_aside: bool = False,
    ) -> PlannedWrite:
        base = self._table.lease
        found = found_instead(base) if set_aside and base is not None else None
        if found is not None and base is not None and not base.spec.holder_identity:
            found = None  # an empty Lease, as the manifests ship it
        body = table_body(base, self._where, new, now=stamp, set_aside=found)
        digest = decode(body["metadata"]["annotations"][TABLE_ANNOTATION])[1]
        return PlannedWrite(
            due_at, self._where.name, body, self._table.version, digest, frozenset(takes)
        )

    # ── changes by the rules ──

    def _note_free(self, now: float, number: int) -> None:
        """Since when each shard is seen free; who may found the ring; what is over the quota."""
        known = self._table.known
        if known is None:
            return
        ended = {owner for owner in self._table.owners if self._is_over(owner, number, now)}
        free = {s for s, it in enumerate(known.table.owners) if it is None or it in ended}
        self._free_since = {s: self._free_since.get(s, now) for s in sorted(free)}
        if self._is_unowned(now):
            self._membership.is_founder = True
            self._founders = frozenset(
                (member.holder, member.note.term) for member in self._living(now) if member.note
            )
        if not self._may_take(now) or known.table.shards != self._member.shards:
            return
        shares = self.shares(now)
        handing_over = sum(it.is_handing_over for it in self._ownership.shards.values())
        if self._me in shares and not self._is_unowned(now):
            count = balance.excess(self._me, shares, known.table.shards) - handing_over
            if count > 0:
                self._ownership.give_up(now, count)

    def _is_over(self, owner: Owner, number: int, now: float) -> bool:
        if owner.identity == self._me:
            return owner.term < number
        return self._end_of(owner, now) == ENDED

    def _end_of(self, owner: Owner, now: float) -> End:
        return self._members.end_of(owner, now, table_version=self._table.version)

    def _is_unowned(self, now: float) -> bool:
        return not any(share.owned for share in self.shares(now).values())

    def _first_take_at(self, now: float) -> float:
        term = self._election.valid_term(now)
        return math.inf if term is None else term.started_at + FIRST_TAKE_DELAY

    def _may_take(self, now: float) -> bool:
        """Whether all living members go by this table, so that what is free in it is free."""
        others = [it for it in self._living(now) if it.holder != self._me]
        seen: list[TableVersion | None] = [it.note.seen if it.note else None for it in others]
        durations = [owner.lease_duration for owner in self._table.owners]
        durations += [it.duration for it in others]
        return self._table.is_confirmed(
            now,
            seen=seen,
            stream_version=self._members.version,
            wait=max([self._duration, *durations]),
        )

    def _change(self, now: float, number: int, stamp: str) -> PlannedWrite | None:
        known, me = self._table.known, self._membership.owner(number)
        if known is None or me is None:
            return None
        if known.table.shards != self._member.shards:
            return self._resize(now, stamp)
        owners = list(known.table.owners)
        for shard, owner in enumerate(owners):
            if owner is not None and (owner.identity, owner.term) == (me.identity, me.term):
                # Not written by this member: it is no ownership, and nobody else may clear it.
                owners[shard] = me if shard in self._ownership.shards else None
        for shard in self._ownership.ready(now):
            owners[shard] = None
        takes, due_at = self._takes(now)
        if tuple(owners) != known.table.owners:
            takes, due_at = (takes, now) if due_at <= now else ((), now)
        for shard in takes:
            owners[shard] = me
        if tuple(owners) == known.table.owners:
            return None
        new = known.table.changed(known.version, tuple(owners))
        return self._table_write(due_at, new, stamp, takes=takes)

    def _takes(self, now: float) -> tuple[tuple[int, ...], float]:
        if not self._may_take(now):
            self._open_since = math.inf
            return (), math.inf
        if self._membership.is_founder and now < self._first_take_at(now):
            return (), self._first_take_at(now)
        self._open_since = min(self._open_since, now)
        free = {shard: max(at, self._open_since) for shard, at in self._free_since.items()}
        shares = self.shares(now)
        late = [shard for shard, since in free.items() if now >= since + UNTAKEN_LIMIT]
        shards = self._member.shards
        mine, waited = balance.taking(self._me, shares, list(free), [], shards), 0.0
        if not mine.shards and late:
            mine, waited = balance.taking(self._me, shares, [], late, shards), UNTAKEN_LIMIT
        if not mine.shards:
            return (), math.inf
        return mine.shards, max(free[shard] for shard in mine.shards) + waited + mine.delay

    def _resize(self, now: float, stamp: str) -> PlannedWrite | None:
        """Another number of shards, once nobody goes by the old one."""
        known = self._table.known
        if known is None or not self._may_take(now):
            return None
        number = known.table.shards
        if any(it.note and it.note.shards == number for it in self._living(now)):
            return None
        owners = [owner for owner in self._table.owners if owner.identity != self._me]
        if any(self._end_of(owner, now) != ENDED for owner in owners):
            return self._fence(now, stamp)
        new = replace(
            known.table.changed(known.version, (None,) * self._member.shards),
            restored=known.table.restored + 1,
        )
        due_at = self._since("resize", now) + self._rank(now) * TAKER_SPACING
        return self._table_write(due_at, new, stamp)

    def _fence(self, now: float, stamp: str) -> PlannedWrite | None:
        """The Lease of an owner that is waited out is emptied first."""
        if not self._may_take(now):
            return None
        waiting = [(self._end_of(owner, now), owner) for owner in self._table.owners]
        due = [(end.at, owner.identity, owner) for end, owner in waiting if end.needs_fence]
        for at, _, owner in sorted(due, key=lambda it: it[:2]):
            base = self._members.member(owner.lease).lease
            if at == math.inf or self._refused == (
                owner.lease,
                base.resource_version if base else 0,
            ):
                continue
            where = LeaseName(self._where.namespace, owner.lease, self._where.name)
            return PlannedWrite(
                at + self._rank(now) * TAKER_SPACING,
                owner.lease,
                fence_body(base, where, now=stamp),
                base.resource_version if base else 0,
                fences=owner,
            )
        return None

    def look_again_at(self, now: float) -> float:
        """When time alone makes something due that `next` does not name yet."""
        later = [
            self._table.confirmed_at,
            self._first_take_at(now),
            self._table.problem_since + self._duration,
            self._not_before,
            *(max(at, self._open_since) + UNTAKEN_LIMIT for at in self._free_since.values()),
            *(self._end_of(owner, now).at for owner in self._table.owners),
        ]
        return min((at for at in later if at > now), default=math.inf)

    # ── in words ──

    def reason(self, now: float) -> str:
        """Why nothing is owned, or what is wrong; "" if nothing is."""
        table = self._table
        if table.newer_format:
            return f"{table.newer_format}: update this elector"
        if self._membership.number(now) is None or not table.observed.is_known:
            return ""
        if table.known is None:
            holder = table.observed.holder
            what = f"a single leader, {holder}, holds the Lease" if holder else table.problem
            return f"{what}; the table begins in {max(table.rebuild_at() - now, 0.0):.1f}s"
        if table.problem:
            return f"set aside and written back: {table.problem}"
        if table.known.table.shards != self._member.shards:
            return (
                f"the table has {table.known.table.shards} shards, --shards is "
                f"{self._member.shards}: pending until its members have left"
            )
        return ""
