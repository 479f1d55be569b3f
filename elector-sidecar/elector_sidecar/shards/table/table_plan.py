"""What one member writes next: into the table, or into the Lease of a member that is waited out.

Pure. Guarantees: A table is begun, written back and changed on exactly the version that was judged,
by a member whose present term others can read. A member that is not the first waits its turn, so
that few of those who want the same write at the same time. What is refused is tried ever later.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

from elector_sidecar.core.lease_writes import CONFLICTS_AT_ONCE
from elector_sidecar.core.timing import CREATE_VACANT_DELAY, RETRY_DELAY
from elector_sidecar.shards.balance import TAKER_SPACING
from elector_sidecar.shards.members.membership import Membership, ShardMember
from elector_sidecar.shards.members.observed_members import ENDED, Members
from elector_sidecar.shards.ownership import Ownership
from elector_sidecar.shards.pace import Pace
from elector_sidecar.shards.shard_moves import NO_MOVES, Moves, ShardMoves
from elector_sidecar.shards.table.shard_table import (
    TABLE_ANNOTATION,
    Owner,
    Table,
    decode,
    next_sequence,
)
from elector_sidecar.shards.table.table_state import TableState
from elector_sidecar.shards.table.table_writes import (
    LeaseName,
    WriteNamed,
    fence_body,
    found_instead,
    next_second,
    table_body,
    vacant_table_body,
)

# Who writes back what another writer edits again at once leaves ever more time, up to this part
# of the lease duration, and begins anew after a quiet minute.
LONGEST_DUEL = 0.25
DUEL_OVER = 60.0
# The owner of shard 0 renews the table so often, at the latest: client-go up to 0.26 takes a Lease
# that has not been renewed for its own LeaseDuration, 15 s by default, and ignores the record's.
LONGEST_RENEWAL = 2.0
# Members in whose view it is overdue by so much of that renew it too, one after the other.
OVERDUE = 0.5
STAND_IN_SPACING = 0.1
# An owner whose renewal is older than this part of the validity renews the table by itself.
AGED = 0.6


@dataclass(frozen=True)
class PlannedWrite:
    """Due at a time. `moves.shards` are acquired by it; `fences`: the term that ends by it;
    `restores`: it puts right what somebody else wrote."""

    due_at: float
    name: str
    body: dict[str, Any]
    base_version: int
    digest: str | None = None
    moves: Moves = NO_MOVES
    fences: Owner | None = None
    restores: bool = False


class TablePlan:
    def __init__(
        self,
        member: ShardMember,
        membership: Membership,
        ownership: Ownership,
        members: Members,
        table: TableState,
        moves: ShardMoves,
    ) -> None:
        self._member = member
        self._membership = membership
        self._ownership = ownership
        self._members = members
        self._table = table
        self._moves = moves
        timing = member.candidate.timing
        self._duration, self._validity = timing.lease_duration, timing.validity
        self._renew_interval = min(timing.renew_interval, LONGEST_RENEWAL)
        self._where = LeaseName(member.candidate.namespace, member.table, member.table)
        self._pace = Pace(RETRY_DELAY)
        self._fence_paces: dict[str, Pace] = {}
        self._duel = Pace(RETRY_DELAY, longest=LONGEST_DUEL * self._duration)
        self._restored_at = -math.inf
        # By name: the version that a write was a conflict on, and how often in a row; and those
        # that were not looked at anew since.
        self._conflicts: dict[str, tuple[int, int]] = {}
        self._refused: dict[str, int] = {}
        self._noticed: tuple[tuple[str, int], float] = (("", 0), 0.0)

    @property
    def _me(self) -> str:
        return self._membership.identity

    def begin_term(self) -> None:
        self._pace.succeeded()
        self._moves.begin_term()

    # ── what became of it ──

    def sent(self, now: float, planned: PlannedWrite) -> None:
        if planned.restores:
            if now > self._restored_at + DUEL_OVER:
                self._duel.succeeded()
            self._duel.failed(now, is_refused=True)
            self._restored_at = now
        if planned.moves.passed_over:
            self._moves.passed_over(now, planned.moves.passed_over, planned.base_version)

    def succeeded(self, write: WriteNamed) -> None:
        self._conflicts.pop(write.name, None)
        self._pace_of(write).succeeded()

    def failed(
        self, now: float, write: WriteNamed, *, is_refused: bool, retry_after: float | None
    ) -> None:
        self._pace_of(write).failed(now, is_refused=is_refused, retry_after=retry_after)

    def conflicted(self, now: float, write: WriteNamed) -> None:
        """That version is not written on again before it was looked at anew (P4)."""
        name, version = write.name, write.base_version
        # A conflict with somebody else's write shows another version; one without is a refusal.
        before, count = self._conflicts.get(name, (version, 0))
        count = count + 1 if before == version else 1
        self._conflicts[name] = (version, count)
        self._refused[name] = version
        if count > CONFLICTS_AT_ONCE:
            self._pace_of(write).failed(now, is_refused=True)

    def _pace_of(self, write: WriteNamed) -> Pace:
        """The table's, or of the Lease that is to be emptied: one that no member may write keeps no
        other write back."""
        if write.is_table:
            return self._pace
        return self._fence_paces.setdefault(write.name, Pace(RETRY_DELAY))

    def looked(self, name: str) -> None:
        """It was read: what is known of it is what is stored."""
        self._refused.pop(name, None)

    def _is_refused(self, planned: PlannedWrite) -> bool:
        return self._refused.get(planned.name) == planned.base_version

    # ── what is due ──

    def next(self, now: float, *, stamp: str) -> PlannedWrite | None:
        number = self._membership.number(now)
        if number is None or not self._membership.is_registered(now):
            return None
        planned = self._planned(now, number, stamp)
        if planned is None or self._is_refused(planned):
            return None
        if planned.fences is not None:
            return planned
        not_before = self._pace.not_before
        if planned.restores:
            not_before = max(not_before, self._duel.not_before)
        return replace(planned, due_at=max(planned.due_at, not_before))

    def _planned(self, now: float, number: int, stamp: str) -> PlannedWrite | None:
        table = self._table
        if not table.observed.is_known or table.newer_format:
            return None
        if table.known is not None and table.problem:
            is_taken = table.is_let_go and now >= table.renewed_until
            if is_taken or now >= table.problem_since + self._duration:
                # No member renewed it for so long that another candidate may lead by the rules, or
                # none could write it back: what this member knew is older than what is.
                self._ownership.lose()
                table.forget(now)
            else:
                return self._write_back(now, stamp)
        if table.known is None:
            return self._begin(now, stamp)
        if not table.is_labelled:
            return self._repair(now, stamp)
        self._moves.note_free(now, number)
        wanted = (
            self._change(now, number, stamp),
            self._fence(now, stamp),
            self._renewal(now, stamp),
        )
        possible = (it for it in wanted if it and not self._is_refused(it))
        return min(possible, key=lambda it: it.due_at, default=None)

    def _renewal(self, now: float, stamp: str) -> PlannedWrite | None:
        """The table as it is, so that other candidates see that it is in use."""
        known, base = self._table.known, self._table.lease
        if known is None or base is None:
            return None
        owned, place = self._ownership.shards, self._moves.place(now)
        seen_at = self._table.renewal_seen_at
        due_at = seen_at + self._renew_interval
        if 0 not in owned:
            due_at += OVERDUE * self._renew_interval + place * STAND_IN_SPACING
        if any(not it.is_inherited for it in owned.values()):
            aged_at = self._table.renewed_until - (1 - AGED) * self._validity
            due_at = min(due_at, aged_at + place * TAKER_SPACING)
        return self._lease_write(
            due_at, known.table, next_second(stamp, after=base.spec.renew_time)
        )

    def _begin(self, now: float, stamp: str) -> PlannedWrite:
        """The table begins where no single leader can lead any more, with what is written in it."""
        table = self._table
        rank = self._moves.place(now) * TAKER_SPACING
        if table.observed.must_create_vacant:
            body = vacant_table_body(
                self._where, identity=self._me, lease_duration=int(self._duration)
            )
            due_at = table.observed.missing_since + CREATE_VACANT_DELAY + rank
            return PlannedWrite(due_at, self._where.name, body, 0)
        stored = table.stored
        if stored is None:
            new = Table(1, 0, 0, None, (None,) * self._member.shards)
        else:
            new = stored.table.changed(stored.version, stored.table.owners)
            new = replace(new, restored=next_sequence(new.restored))
        return self._table_write(table.rebuild_at() + rank, new, stamp, set_aside=stored is None)

    def _write_back(self, now: float, stamp: str) -> PlannedWrite | None:
        """Edited, restored or deleted by somebody else: what this member knows is stored again."""
        known, stored = self._table.known, self._table.stored
        if known is None:
            return None
        if stored == known:
            return self._repair(now, stamp)
        tables = [known.table] if stored is None else [known.table, stored.table]
        new = replace(
            known.table,
            sequence=next_sequence(*(it.sequence for it in tables)),
            restored=next_sequence(*(it.restored for it in tables)),
            follows=known.version,
        )
        due_at = self._table.problem_since + self._moves.place(now) * TAKER_SPACING
        planned = self._table_write(due_at, new, stamp, set_aside=True)
        return replace(planned, restores=True)

    def _repair(self, now: float, stamp: str) -> PlannedWrite | None:
        """The table is whole, but not what is around it: its holder or its label."""
        if self._table.known is None:
            return None
        due_at = self._since("repair", now) + self._moves.place(now) * TAKER_SPACING
        return replace(self._lease_write(due_at, self._table.known.table, stamp), restores=True)

    def _since(self, what: str, now: float) -> float:
        """When it was first wanted on the present version of the table."""
        key = (what, self._table.version)
        if self._noticed[0] != key:
            self._noticed = (key, now)
        return self._noticed[1]

    def _table_write(
        self, due_at: float, new: Table, stamp: str, *, set_aside: bool = False
    ) -> PlannedWrite:
        """A new table, on the stored version."""
        return self._lease_write(
            due_at, replace(new, base=self._table.version), stamp, set_aside=set_aside
        )

    def _lease_write(
        self, due_at: float, table: Table, stamp: str, *, set_aside: bool = False
    ) -> PlannedWrite:
        base = self._table.lease
        found = found_instead(base) if set_aside and base is not None else None
        if found is not None and base is not None and not base.spec.holder_identity:
            found = None  # an empty Lease, as the manifests ship it
        body = table_body(base, self._where, table, now=stamp, set_aside=found)
        digest = decode(body["metadata"]["annotations"][TABLE_ANNOTATION])[1]
        return PlannedWrite(due_at, self._where.name, body, self._table.version, digest)

    # ── changes by the rules ──

    def _change(self, now: float, number: int, stamp: str) -> PlannedWrite | None:
        known, me = self._table.known, self._membership.owner(number)
        if known is None or me is None:
            return None
        if known.table.shards != self._member.shards:
            return self._resize(now, stamp)
        owners = list(known.table.owners)
        for shard, owner in enumerate(owners):
            if owner is not None and (owner.identity, owner.term) == (me.identity, me.term):
                # Not written by this member: it is no ownership, and no other may clear it.
                owners[shard] = me if shard in self._ownership.shards else None
        for shard in self._ownership.ready(now):
            owners[shard] = None
        moves = self._moves.takes(now)
        due_at = moves.due_at
        # As any other taking, in a table that all who may work go by.
        again = self._ownership.inherited if self._moves.may_take(now) else []
        if again or tuple(owners) != known.table.owners:
            # What becomes free does not wait for what is taken.
            moves, due_at = (moves if due_at <= now else NO_MOVES), now
            moves = replace(moves, shards=(*moves.shards, *again))
        for shard in moves.shards:
            owners[shard] = me
        if not again and tuple(owners) == known.table.owners:
            return None
        new = known.table.changed(known.version, tuple(owners))
        return replace(self._table_write(due_at, new, stamp), moves=moves)

    def _resize(self, now: float, stamp: str) -> PlannedWrite | None:
        """Another number of shards, once no member goes by the old one."""
        known = self._table.known
        if known is None or not self._moves.may_take(now):
            return None
        number = known.table.shards
        if any(it.note and it.note.shards == number for it in self._members.alive(now)):
            return None
        owners = [owner for owner in self._table.owners if owner.identity != self._me]
        if any(self._moves.end_of(owner) != ENDED for owner in owners):
            return self._fence(now, stamp)
        new = replace(
            known.table.changed(known.version, (None,) * self._member.shards),
            restored=next_sequence(known.table.restored),
        )
        due_at = self._since("resize", now) + self._moves.place(now) * TAKER_SPACING
        return self._table_write(due_at, new, stamp)

    def _fence(self, now: float, stamp: str) -> PlannedWrite | None:
        """The Lease of an owner that is waited out is emptied first."""
        if not self._moves.may_take(now):
            return None
        waiting = [(self._moves.end_of(owner), owner) for owner in self._table.owners]
        due = [(end.at, owner.identity, owner) for end, owner in waiting if end.needs_fence]
        due += [(at, owner.identity, owner) for at, owner in self._members.left_over(now)]
        for at, _, owner in sorted(due, key=lambda it: it[:2]):
            base = self._members.member(owner.lease).lease
            version = base.resource_version if base else 0
            pace = self._fence_paces.get(owner.lease)
            if at == math.inf or self._refused.get(owner.lease) == version:
                continue
            if pace is not None and now < pace.not_before:
                continue
            where = LeaseName(self._where.namespace, owner.lease, self._where.name)
            return PlannedWrite(
                at + self._moves.place(now) * TAKER_SPACING,
                owner.lease,
                fence_body(base, where, now=stamp),
                version,
                fences=owner,
            )
        return None

    def look_again_at(self, now: float) -> float:
        """When time alone makes something due that `next` does not name yet."""
        later = [
            self._table.confirmed_at,
            self._table.problem_since + self._duration,
            self._pace.not_before,
            self._duel.not_before,
            *(pace.not_before for pace in self._fence_paces.values()),
            *self._moves.look_again_times(now),
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
        if inherited := self._ownership.inherited:
            return (
                f"goes on for a process of this pod that ended: {len(inherited)} shards are its "
                "own again once all members go by this table"
            )
        return ""
