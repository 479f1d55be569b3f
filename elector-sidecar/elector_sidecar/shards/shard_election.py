"""One member of an election for shards: what to ask and to write, and which shards are its own.

Pure: no I/O, clock, chance or log, like `Election`, whose reports for the own Lease it passes on.
Guarantees, as long as `now` never runs backwards and P1 holds for the member Leases: `owns` is
true only for one member at a time (S1); what is given up becomes free in order (S6).

    table_state  which table this member goes by     members     whose term has ended
    membership   the own Lease and its term          ownership   shards owned and handed over
    table_plan   what to write into the table        lease_stream  what to list, watch and read
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from elector_sidecar.core.candidacy import ElectionView
from elector_sidecar.core.election import Election
from elector_sidecar.core.handover import Intent
from elector_sidecar.core.lease import Lease, micro_time
from elector_sidecar.core.lease_watch import ReadLease, WatchLease
from elector_sidecar.core.lease_writes import WriteLease
from elector_sidecar.core.timing import MAX_LEASE_DURATION, RETRY_DELAY
from elector_sidecar.shards.lease_stream import LeaseStream, ListLeases, StreamCommand
from elector_sidecar.shards.members.membership import Membership, ShardMember
from elector_sidecar.shards.members.observed_members import Members
from elector_sidecar.shards.members.succession import Succession
from elector_sidecar.shards.ownership import Ownership
from elector_sidecar.shards.pace import Pace
from elector_sidecar.shards.shard_moves import ShardMoves
from elector_sidecar.shards.shard_view import ShardsView, ShardViews
from elector_sidecar.shards.table.shard_table import Owner
from elector_sidecar.shards.table.table_plan import PlannedWrite, TablePlan
from elector_sidecar.shards.table.table_state import TableState
from elector_sidecar.shards.table.table_writes import WriteNamed

Command = ReadLease | WriteLease | StreamCommand | WriteNamed

# After a conflict the newer version comes by the watch; if it does not, it is read. Seconds.
CONFLICT_PATIENCE = 0.3
# Between two lists that show that the API server's history was put back. Seconds.
RESTORED_RECHECK = 1.0


@dataclass(frozen=True)
class _TableWrite:
    """One whose outcome is not known yet; `takes` are acquired when it is seen applied."""

    write: WriteNamed
    digest: str | None
    takes: frozenset[int]
    fences: Owner | None


class ShardElection:
    def __init__(self, member: ShardMember, *, now: float) -> None:
        candidate = member.candidate
        self._member = member
        timing = candidate.timing
        self.election = Election(candidate, now=now)
        self.ownership = Ownership()
        self.members = Members(
            me=candidate.identity,
            own_duration=timing.lease_duration,
            renew_interval=timing.renew_interval,
        )
        self.table = TableState(
            me=candidate.identity,
            name=member.table,
            own_duration=timing.lease_duration,
            validity=timing.validity,
        )
        succession = Succession(member.shards, self.table)
        self.election.keep_holder(succession.why_not)
        self.membership = Membership(member, self.election, succession)
        self._stream = LeaseStream(now)
        moves = ShardMoves(
            member, self.election, self.membership, self.ownership, self.members, self.table
        )
        self._plan = TablePlan(
            member, self.membership, self.ownership, self.members, self.table, moves
        )
        self._views = ShardViews(member.shards, self.ownership, self.table, moves)
        self._number: int | None = None
        self._own_watch: int | None = None
        self._heard_at: dict[str, float] = {}
        self._table_read_at = -math.inf
        # A note that was written and is not found again: somebody takes it off.
        self._note_pace = Pace(RETRY_DELAY)
        self._open: dict[int, _TableWrite] = {}
        # Without an answer: seen applied by the digest, or not at all.
        self._doubtful: list[_TableWrite] = []
        self._write_id = 0
        # What was known when the last list was sent: by version, the newest of all and of each.
        self._before_list: tuple[int, dict[str, int]] = (0, {})
        # When a list first showed older versions than were known; -inf: the last one did not.
        self._regressed_at = -math.inf
        self._due_at = now
        self._stream.want(member.table, now)

    # ── what is true ──

    def valid_until(self, now: float) -> float | None:
        """Until when what is owned is owned; None if this member can own nothing now."""
        term = self.election.valid_term(now)
        if term is None or self.membership.terms != self._number or self.table.known is None:
            return None
        until = min(term.valid_until, self.table.fresh_until, self.table.renewed_until)
        return until if now < until else None

    def owned(self, now: float) -> list[int]:
        """The shards that are this member's at this moment."""
        return self.ownership.owned if self.valid_until(now) is not None else []

    def owns(self, now: float, shard: int) -> bool:
        owned = self.ownership.shards.get(shard)
        if owned is None or not owned.is_owned:
            return False
        return self.valid_until(now) is not None

    def tell(self, now: float, shards: Sequence[int], until: float) -> None:
        """The main was promised that it may act on these until then (S6)."""
        for shard in shards:
            if self.owns(now, shard):
                self.ownership.promise(shard, until)

    def confirm(self, now: float, shard: int, token: int) -> bool:
        """The main has stopped working on it; False if it is owned and not handed over."""
        is_owned = self.valid_until(now) is not None
        return self.ownership.confirm(now, shard, token) or not is_owned

    def view(self, now: float) -> ShardsView:
        return self._views.view(
            now,
            owned=self.owned(now),
            valid_until=self.valid_until(now),
            reason=self.reason(now),
        )

    def leader_view(self, now: float, view: ElectionView) -> ElectionView:
        """The election's view as of shard 0, which is what /leader and /readyz answer."""
        is_contending = view.is_contending and not self.reason(now)
        shard = self.ownership.shards[0] if self.owns(now, 0) else None
        until = self.valid_until(now)
        view = replace(view, is_contending=is_contending)
        return self._views.leader_view(view, shard, valid_until=until)

    def reason(self, now: float) -> str:
        """What keeps this member from owning anything, or is wrong with the table; "" if nothing
        that the election for the own Lease does not tell."""
        return self._plan.reason(now)

    def owner(self, shard: int) -> str:
        """The identity that the known table names for it; "" if none."""
        return self._views.owner(shard)

    # ── what the caller wants ──

    def set_intent(self, now: float, intent: Intent) -> None:
        if intent is not Intent.CONTEND and self.election.intent is Intent.CONTEND:
            if self.valid_until(now) is not None and self._number is not None:
                self.membership.protect(self._number)
                self.ownership.relinquish(now)
            elif self._number is not None:
                self._lose_term(now, self._number)
            self._number = None
        if intent is Intent.RELEASE:
            # A release is planned only when the main has stopped (S6).
            self.ownership.main_stopped()
        self.election.set_intent(now, intent)

    def is_settled(self, now: float) -> bool:
        """Whether no work can still run of a term that was given up, or on what was lost before."""
        is_bound = now < max(self.membership.silent_until, self.membership.bound_until)
        return self.ownership.is_settled(now) and not is_bound

    # ── what to do ──

    def advance(self, now: float, *, wall: float, chance: float) -> list[Command]:
        """The commands that are due; `wall` and `chance` as for `Election.advance`."""
        self._follow_term(now)
        commands: list[Command] = []
        while own := self.election.advance(now, wall=wall, chance=chance):
            for command in own:
                if isinstance(command, WatchLease):
                    self._subscribe(now, command)
                    continue
                if isinstance(command, WriteLease):
                    self.membership.dress(command, now, self.table)
                commands.append(command)
            self._follow_term(now)
        self._read_silent(now)
        if now >= self._refresh_at() and not self._stream.is_asking(self._member.table):
            self._stream.want(self._member.table, now)
        asked = self._stream.due(now)
        if any(isinstance(command, ListLeases) for command in asked):
            self._before_list = (self._stream.version, self._newest())
        commands += asked
        self.members.arrived(self._stream.version)
        planned = None if self._is_writing() else self._plan.next(now, stamp=micro_time(wall))
        if planned is not None and planned.due_at <= now:
            commands.append(self._write(now, planned))
        self._plan_wake(now, planned)
        return commands

    def wake_at(self, now: float) -> float:
        return min(self.election.wake_at(now), self._due_at)

    def _plan_wake(self, now: float, planned: PlannedWrite | None) -> None:
        settles_at = self.membership.settles_at(now) or math.inf
        until = self.valid_until(now) or math.inf
        later = [
            self.membership.silent_until,
            self.membership.bound_until,
            self._note_pace.not_before,
        ]
        later += [settles_at, until, self.ownership.ready_at(now), self.ownership.settled_at()]
        later += [member.silence_due() for member in self.members]
        later += [self._refresh_at(), self._stream.wake_at(), self._plan.look_again_at(now)]
        if planned is not None and not self._is_writing():
            later.append(planned.due_at)
        self._due_at = min(at for at in (*later, math.inf) if at > now)

    def _refresh_at(self) -> float:
        """When to read the table because the watch does not show that it is the known one, or
        what became of a Lease that is none yet."""
        timing = self._member.candidate.timing
        if self.table.lease is not None and not self.table.is_labelled:
            return self._table_read_at + timing.renew_interval
        if not self.ownership.shards or self._number is None:
            return math.inf
        aged_at = self.table.fresh_until - timing.validity / 2
        return max(aged_at, self._table_read_at + timing.renew_interval)

    def _follow_term(self, now: float) -> None:
        """What follows from the own Lease: a term that began or ended, a word to be written."""
        self._go_on(now)
        number = self.membership.number(now)
        if number != self._number:
            if self._number is not None:
                self._lose_term(now, self._number)
            self._number = number
            self.membership.begin_term()
            self._doubtful.clear()
            self._plan.begin_term()
            if number is not None:
                self.table.forget(now)
                self._keep(now, self._named() & set(self.ownership.shards), self._named())
        if self.membership.protected_term is not None and self.ownership.is_settled(now):
            self.membership.unprotect()
            if self.election.intent is not Intent.HOLD:
                self.ownership.main_stopped()
        self._say_soon(now)

    def _go_on(self, now: float) -> None:
        """A write was applied by which this process is the member that another one of its pod was:
        what that one has promised binds this one."""
        before = self.membership.go_on()
        if before is None:
            return
        self.members.go_on_as(self.election.identity)
        self.ownership.inherit(now, before.shards, before.promised_until)
        if self.membership.number(now) is None:
            self._lose_term(now, before.term)

    def _keep(self, now: float, shards: set[int], named: set[int]) -> None:
        """The known table gives this member no others; of those that it names, what the process
        before had is inherited, as long as the main may work by what that one has promised."""
        if self.table.known is None:
            return
        self.membership.keep_silent(self.ownership.keep_only(shards))
        before = self.membership.predecessor
        if before is not None and before.term == self._number and now < before.promised_until:
            more = named - set(self.ownership.shards)
            self.ownership.inherit(now, more, before.promised_until)

    def _lose_term(self, now: float, number: int) -> None:
        """It ended without being asked to: by its validity, or because the Lease was stolen. Then
        the main may work on for a while, and so long no other term is written."""
        if self.ownership.lapse(now):
            self.membership.protect(number)

    def _say_soon(self, now: float) -> None:
        """Others wait for it: a term, that this member is settled, which new table it goes by."""
        if self.election.intent is not Intent.CONTEND:
            return
        written = self.membership.note()
        if written is None:
            if self._number is not None and now >= self._note_pace.not_before:
                self.election.renew_soon(now)
                self._note_pace.failed(now, is_refused=True)
            return
        self._note_pace.succeeded()
        wanted = self.membership.wanted_note(now, self.table)
        is_news = (written.term, written.is_settled) != (wanted.term, wanted.is_settled)
        is_silent = now < self.membership.silent_until
        if is_news or (not is_silent and self.table.is_unsaid(written.seen, written.seen_at)):
            self.election.renew_soon(now)

    # ── the table's writes ──

    def _is_writing(self) -> bool:
        return bool(self._open)

    def _write(self, now: float, planned: PlannedWrite) -> WriteNamed:
        self._write_id += 1
        write = WriteNamed(
            id=self._write_id,
            name=planned.name,
            body=planned.body,
            base_version=planned.base_version,
            creates=planned.base_version == 0,
            sent_at=now,
            is_table=planned.fences is None,
        )
        takes = frozenset(planned.moves.shards)
        self._open[write.id] = _TableWrite(write, planned.digest, takes, planned.fences)
        self._plan.sent(now, planned)
        return write

    def write_answered(self, write_id: int, now: float, lease: Lease) -> None:
        """A 2xx with the record as it was stored."""
        open_ = self._open.pop(write_id, None)
        if open_ is None:
            return
        self._plan.succeeded(open_.write)
        if open_.fences is not None:
            self.members.member(open_.write.name).adopt(now, lease, is_continuous=True)
            self.members.fenced(open_.fences)
            return
        self._doubtful.append(open_)
        self._adopt_table(now, lease, is_continuous=True)
        if lease.resource_version != open_.write.base_version:
            self.table.renewed_by(open_.write.sent_at)
        if self.table.version == lease.resource_version:
            self.table.written_at(open_.write.sent_at)

    def write_rejected(self, write_id: int, now: float) -> None:
        """The judged record is not the stored one any more. Not applied."""
        open_ = self._open.pop(write_id, None)
        if open_ is None:
            return
        self._plan.conflicted(now, open_.write)
        self._stream.want(open_.write.name, now + CONFLICT_PATIENCE)

    def write_failed(
        self,
        write_id: int,
        now: float,
        *,
        is_refused: bool = False,
        retry_after: float | None = None,
    ) -> None:
        """No usable answer; unless `is_refused`, it may have been applied, and may still be."""
        open_ = self._open.pop(write_id, None)
        if open_ is None:
            return
        if not is_refused and open_.fences is None:
            self._doubtful.append(open_)
        self._plan.failed(now, open_.write, is_refused=is_refused, retry_after=retry_after)
        self._stream.want(open_.write.name, now + RETRY_DELAY)

    # ── what the stream brought ──

    def list_answered(
        self, list_id: int, now: float, leases: Sequence[Lease], resource_version: int
    ) -> None:
        listing = self._stream.listed(list_id, now, resource_version)
        if listing is None:
            return
        if self._is_restored(now, leases, resource_version):
            return
        found = {_name(lease) for lease in leases}
        for lease in leases:
            self._adopt(now, lease, is_continuous=False)
            if _name(lease) != self._member.table:
                self.members.member(_name(lease)).looked(listing.sent_at)
        for name in {self._member.table, *self.members.names} - found:
            # Without its label it is in no list: asked by name before it is taken for deleted.
            self._stream.want(name, now)
        if self._member.table in found:
            self.table.shown_at(listing.sent_at)
        self._deliver_own(now)

    # ── a history that was restored ──

    def _newest(self) -> dict[str, int]:
        newest = {member.name: member.newest for member in self.members}
        return newest | {self._member.table: self.table.newest}

    def _is_restored(self, now: float, leases: Sequence[Lease], version: int) -> bool:
        """Whether this list shows versions that are older than known ones, for the first time. A
        second one, a second later, is believed: the API server's history was put back."""
        known, newest = self._before_list
        is_older = version < known or any(
            lease.resource_version < newest.get(_name(lease), 0) for lease in leases
        )
        if not is_older:
            self._regressed_at = -math.inf
            return False
        if self._regressed_at > -math.inf:
            self._begin_anew(now, version)
            return False
        self._regressed_at = now
        self._stream.list_again(now + RESTORED_RECHECK)
        return True

    def _begin_anew(self, now: float, version: int) -> None:
        """As a member that has just started: what it knew is of a history that is lost. Somebody
        whose Lease went with that may own shards for as long as its validity lasts."""
        durations = [it.duration for it in self.members]
        durations += [it.lease_duration for it in self.table.owners]
        own = self._member.candidate.timing.lease_duration
        wait = min(max([own, *durations]), MAX_LEASE_DURATION)
        until = self._regressed_at + wait
        self.election.end_term()
        self._follow_term(now)
        self.members.begin_anew()
        self.table.begin_anew(until)
        self._stream.begin_anew(version)
        self._heard_at.clear()
        self._open.clear()
        self._doubtful.clear()
        self._regressed_at = -math.inf
        self.membership.keep_silent(until)
        self.election.renew_soon(now)

    def list_failed(
        self,
        list_id: int,
        now: float,
        *,
        is_refused: bool = False,
        retry_after: float | None = None,
    ) -> None:
        self._stream.list_failed(list_id, now, is_refused=is_refused, retry_after=retry_after)

    def event_arrived(self, watch_id: int, now: float, lease: Lease, *, is_deleted: bool) -> bool:
        """False where there is nothing to do that was not there before."""
        if not self._stream.is_watched_by(watch_id):
            return False
        name = _name(lease)
        self._heard_at[name] = now
        if is_deleted:
            # Or its label was: asked by name.
            self._stream.want(name, now)
            if name == self._member.candidate.name:
                self.election.look_again(now)
            self._stream.heard(lease.resource_version)
            return True
        self._stream.drop_wish(name)
        is_news = self._adopt(now, lease, is_continuous=True)
        self._stream.heard(lease.resource_version)
        if name != self._member.candidate.name:
            return is_news
        sent_at = self.membership.sent_at(lease.spec.renew_time)
        if sent_at is not None and not self._stream.is_asking(self._member.table):
            # Everything older than this write has arrived, and the write came after `sent_at`.
            self.table.shown_at(sent_at)
        if self._own_watch is None:
            return is_news
        return self.election.event_arrived(self._own_watch, now, lease) or is_news

    def watch_ended(self, watch_id: int, now: float, *, is_orderly: bool) -> None:
        if self._stream.watch_ended(watch_id, now, is_orderly=is_orderly):
            self._end_subscription(now, is_orderly=is_orderly)

    def named_answered(self, read_id: int, now: float, lease: Lease | None) -> None:
        read = self._stream.read_answered(read_id)
        if read is None:
            return
        is_table = read.name == self._member.table
        if is_table:
            self._table_read_at = now
        if lease is not None:
            self._adopt(now, lease, is_continuous=False)
            if not is_table:
                self.members.member(read.name).looked(read.sent_at)
            elif self.table.version == lease.resource_version:
                self.table.written_at(read.sent_at)
        elif self._heard_at.get(read.name, -math.inf) <= read.sent_at:
            if is_table:
                self.table.adopt_missing(now)
            else:
                self.members.member(read.name).adopt_missing(now)
        self._plan.looked(read.name)

    def named_failed(
        self,
        read_id: int,
        now: float,
        *,
        is_refused: bool = False,
        retry_after: float | None = None,
    ) -> None:
        self._stream.read_failed(read_id, now, is_refused=is_refused, retry_after=retry_after)

    def _adopt(self, now: float, lease: Lease, *, is_continuous: bool) -> bool:
        name = _name(lease)
        if name == self._member.table:
            return self._adopt_table(now, lease, is_continuous=is_continuous)
        return self.members.member(name).adopt(now, lease, is_continuous=is_continuous)

    def _adopt_table(self, now: float, lease: Lease, *, is_continuous: bool) -> bool:
        # Of a table that changed while nothing was owned, others may have taken what was.
        has_lapsed = self.table.is_lapsed(now)
        if not self.table.adopt(now, lease, is_continuous=is_continuous):
            return False
        known = self.table.known
        applied: set[int] = set()
        if is_continuous:  # else it may have been freed, taken, and put back from a copy since
            for open_ in (*self._open.values(), *self._doubtful):
                if known is not None and open_.digest == known.version.digest:
                    applied |= open_.takes
        self._doubtful = [
            it for it in self._doubtful if it.write.base_version >= lease.resource_version
        ]
        # Nothing was owned yet of what is inherited, and all of it is still to be confirmed.
        inherited = set(self.ownership.inherited)
        kept = inherited if has_lapsed else set(self.ownership.shards)
        named = self._named()
        self._keep(now, named & (applied | kept), named - applied)
        new = (named & applied) - (set(self.ownership.shards) - inherited)
        self.ownership.take(now, new, lease.resource_version)
        self.members.forget(self.table.owners, now)
        self._heard_at = {
            name: at
            for name, at in self._heard_at.items()
            if name == self._member.table or name in self.members.names
        }
        for owner in self.table.owners:
            if not self.members.member(owner.lease).is_known:
                # Its event comes in a moment, or its Lease is gone.
                self._stream.want(owner.lease, now + CONFLICT_PATIENCE)
        return True

    def _named(self) -> set[int]:
        """The shards that the known table gives the present term."""
        known = self.table.known
        if known is None or self._number is None:
            return set()
        return {
            shard
            for shard, owner in enumerate(known.table.owners)
            if owner and (owner.identity, owner.term) == (self.election.identity, self._number)
        }

    def _read_silent(self, now: float) -> None:
        shown = self._newest().get(self._member.candidate.name, 0)
        record = self.election.record
        if record is not None and record.resource_version < shown and self._stream.is_open:
            # The election has read an older version than the watch has shown: was it put back?
            self._stream.distrust(now)
        for member in self.members:
            if now >= member.silence_due():
                member.ask()
                self._stream.want(member.name, now)
        for owner in self.table.owners:
            end = self.members.end_of(owner, table_version=self.table.version)
            if end.needs_look and end.at <= now and not self._stream.is_asking(owner.lease):
                self._stream.want(owner.lease, now)

    # ── the own Lease comes by the same watch ──

    def _subscribe(self, now: float, watch: WatchLease) -> None:
        if self._own_watch is not None and self._stream.is_open:
            # The election does not believe the watch any more.
            self._stream.distrust(now)
            self._own_watch = watch.id
            return
        self._own_watch = watch.id
        if self._stream.is_open:
            self._deliver_own(now)

    def _deliver_own(self, now: float) -> None:
        """A watch from the present state begins with it."""
        own = self.members.member(self._member.candidate.name).lease
        if self._own_watch is not None and own is not None:
            self.election.event_arrived(self._own_watch, now, own)

    def _end_subscription(self, now: float, *, is_orderly: bool) -> None:
        if self._own_watch is not None:
            own, self._own_watch = self._own_watch, None
            self.election.watch_ended(own, now, is_orderly=is_orderly)


def _name(lease: Lease) -> str:
    return str(lease.raw["metadata"].get("name", ""))
