"""One candidate in the election for one Lease: what to do next, and what is true now.

Pure: no I/O, clock, chance or log. `advance` returns the commands to perform; every command is
answered by exactly one report (a watch by many). Guarantees, as long as `now` never runs
backwards: `view(now).is_leader` only within the validity of an applied write (P1-P3); every write
carries the uid and resourceVersion of the record that was judged (P4); it never stops trying (P5).

    standby ──free, write applied──► leader ──valid_until passes──► lapsed ──write applied──► leader
       ▲                               │ another holder is seen        │ another holder is seen
       └───────────────────────────────┴───────────────────────────────┘
    Intent says what the caller wants: CONTEND, HOLD (renew, but answer 503), RELEASE, ABSTAIN.
"""

import math
from enum import Enum

from elector_sidecar.core.lease import Lease
from elector_sidecar.core.lease_watch import STANDBY_RETRY, LeaseWatch, ReadLease, WatchLease
from elector_sidecar.core.lease_writes import Candidate, LeaseWrites
from elector_sidecar.core.observed_lease import Holder, ObservedLease
from elector_sidecar.core.term import (
    AppliedWrite,
    LeadershipTerm,
    Purpose,
    WriteLease,
    extended,
    is_valid,
)
from elector_sidecar.core.timing import (
    CREATE_VACANT_DELAY,
    HEDGE_DELAY,
    RETRY_AFTER_LIMIT,
    RETRY_DELAY,
    TAKEOVER_JITTER,
)
from elector_sidecar.core.view import ElectionView

__all__ = ["Candidate", "Command", "Election", "ElectionView", "Intent", "ReadLease", "WatchLease"]

# So many conflicts in a row are answered at once; then each costs a retry delay.
CONFLICTS_AT_ONCE = 3


class Intent(Enum):
    CONTEND = "contend"
    HOLD = "hold"
    RELEASE = "release"
    ABSTAIN = "abstain"


Command = ReadLease | WriteLease | WatchLease


class Election:
    def __init__(self, candidate: Candidate, *, now: float) -> None:
        self._candidate = candidate
        self._timing = candidate.timing
        self._observed = ObservedLease(
            candidate.identity,
            own_duration=candidate.timing.lease_duration,
            take_missing=candidate.take_missing,
        )
        self._intent = Intent.CONTEND
        self._term: LeadershipTerm | None = None
        # Terms begun so far: a 200 may have been answered in each.
        self.terms = 0
        self._lease_watch = LeaseWatch(now)
        self._lease_writes = LeaseWrites(candidate)
        self._open_writes = self._lease_writes.open_writes
        self._last_id = 0
        self._last_contact: float | None = None
        self._write_at = -math.inf
        self._sent_at = -math.inf
        self._proven_at = -math.inf
        self._refused_version: int | None = None
        self._conflicts = 0
        self._jitter: float | None = None
        # Releasing.
        self._release_asked_at = -math.inf
        self._is_released = False

    # ── what the caller wants ──

    @property
    def intent(self) -> Intent:
        return self._intent

    @property
    def holds_record(self) -> bool:
        """Whether the newest known record names this candidate, valid or not."""
        return self._observed.holder == self._candidate.identity

    @property
    def may_hold(self) -> bool:
        """Whether it does, or a write that is under way or unanswered may make it so."""
        return self.holds_record or self._open_writes.may_apply(self._version())

    @property
    def is_released(self) -> bool:
        """Since RELEASE was asked for, a fresh read or our own write showed nothing of ours."""
        return self._is_released

    def set_intent(self, now: float, intent: Intent) -> None:
        """From now on; anything but CONTEND ends the present term at once, for good."""
        if intent is self._intent:
            return
        self._intent = intent
        self._is_released = False  # of an earlier release; this one is still to be shown
        if intent is not Intent.CONTEND:
            self._term = None
        if intent is Intent.RELEASE:
            self._release_asked_at = now
            self._write_at = -math.inf
            self._lease_watch.want_read(now)
        elif intent is Intent.CONTEND:
            self._write_at = -math.inf

    def free_since(self, now: float) -> float | None:
        return self._observed.free_since(now)

    def view(self, now: float) -> ElectionView:
        term = self._term
        leads = self._intent is Intent.CONTEND and is_valid(term, now)
        record = self._observed.lease
        spec = record.spec if record else None
        return ElectionView(
            is_leader=leads,
            is_contending=self._intent is Intent.CONTEND and not self._is_coordinated(),
            is_lapsed=self._intent is Intent.CONTEND and self.holds_record and not leads,
            holder=self._observed.holder,
            is_missing=self._observed.is_missing,
            valid_until=term.valid_until if leads and term else None,
            started_at=term.started_at if leads and term else None,
            fencing_token=term.fencing_token if leads and term else None,
            acquire_time=spec.acquire_time if spec else None,
            renew_time=spec.renew_time if spec else None,
            lease_transitions=spec.lease_transitions if spec else None,
            last_contact=self._last_contact,
            free_at=self._observed.free_at(),
            strategy=spec.strategy if spec else None,
            preferred_holder=spec.preferred_holder if spec else None,
            uid=record.uid if record else None,
        )

    # ── what to do ──

    def advance(self, now: float, *, wall: float, chance: float) -> list[Command]:
        """The commands that are due. `wall`: epoch seconds for stamps; `chance`: in [0, 1)."""
        if self._jitter is None:
            self._jitter = chance * TAKEOVER_JITTER
        commands: list[Command] = []
        if now >= self._silence_due():
            self._lease_watch.distrust_watch(now)
        if now >= self._lease_watch.read_due():
            commands.append(self._lease_watch.start_read(self._next_id(), now))
        if now >= self._write_due(now):
            commands.append(self._write(now, wall))
        if now >= self._watch_due():
            commands.append(self._watch(now))
        return commands

    def wake_at(self, now: float) -> float:
        """When `advance` has something to do next if nothing is reported before."""
        reads_at = min(self._silence_due(), self._lease_watch.read_due(), self._watch_due())
        return min(reads_at, self._write_due(now))

    def _silence_due(self) -> float:
        is_held = self._observed.holder != ""
        return self._lease_watch.silence_due(self._timing.renew_interval if is_held else None)

    def _watch_due(self) -> float:
        reads_first = self._lease_watch.wants_read and not self.holds_record
        if not self._observed.is_known or reads_first:
            return math.inf
        return self._lease_watch.watch_due()

    def _write_due(self, now: float) -> float:
        if not self._observed.is_known or self._refused_version == self._version():
            return math.inf
        due = max(self._write_at, self._permitted_at(now))
        match self._open_writes.flying(self._version()):
            case []:
                return due
            case [one]:
                return max(due, one.sent_at + HEDGE_DELAY)
            case _:
                return math.inf

    def _permitted_at(self, now: float) -> float:
        """From when on the intent and the record allow a write; +inf if they do not."""
        match self._intent:
            case Intent.ABSTAIN:
                return math.inf
            case Intent.RELEASE:
                asked = not self._lease_watch.wants_read and not self._is_released
                return -math.inf if asked and self.holds_record else math.inf
            case Intent.HOLD:
                return self._observed.free_at() if self.holds_record else math.inf
            case Intent.CONTEND:
                return self._contend_at(now)

    def _contend_at(self, now: float) -> float:
        if self.holds_record:
            return self._observed.free_at()
        if self._is_vacant() and is_valid(self._term, now):
            return -math.inf  # blanked or deleted under a living leader: it writes itself back
        if self._is_coordinated():
            return math.inf
        if self._observed.must_create_vacant:
            return self._observed.missing_since + CREATE_VACANT_DELAY + (self._jitter or 0.0)
        free_at = self._observed.free_at()
        return free_at + (self._jitter or 0.0) if free_at > -math.inf else free_at

    def _write(self, now: float, wall: float) -> WriteLease:
        self._sent_at = now
        return self._lease_writes.write(
            self._next_id(),
            now,
            wall=wall,
            purpose=self._purpose(now),
            record=self._observed.lease,
            term=self._term if is_valid(self._term, now) else None,
        )

    def _purpose(self, now: float) -> Purpose:
        if self._intent is Intent.RELEASE:
            return Purpose.RELEASE
        if self._observed.must_create_vacant and not is_valid(self._term, now):
            return Purpose.CREATE_VACANT
        return Purpose.ACQUIRE_OR_RENEW

    def _watch(self, now: float) -> WatchLease:
        exists = self._observed.lease is not None
        return self._lease_watch.start_watch(self._next_id(), now, exists=exists)

    # ── what happened ──

    def read_answered(self, read_id: int, now: float, lease: Lease | None) -> None:
        """The record, or None if it does not exist."""
        read = self._lease_watch.end_read(read_id)
        self._last_contact = now
        if read is None:
            return
        if self._lease_watch.is_overtaken(read, lease.resource_version if lease else None):
            self._lease_watch.want_read(now)
            return
        if read.sent_at >= self._release_asked_at:
            self._lease_watch.has_read()
        if self._refused_version == self._version():
            self._refused_version = None
        if lease is None:
            self._adopt_missing(now)
        else:
            self._adopt(now, lease, is_continuous=False)
        if self._intent is Intent.RELEASE and not self._lease_watch.wants_read:
            self._judge_release(now)

    def read_failed(self, read_id: int, now: float, *, retry_after: float | None = None) -> None:
        """No usable answer."""
        self._lease_watch.end_read(read_id)
        delay = RETRY_DELAY if self.holds_record else STANDBY_RETRY
        self._lease_watch.delay_read(now + _delay(retry_after, delay))

    def write_answered(self, write_id: int, now: float, lease: Lease) -> None:
        """A 2xx with the record as it was stored."""
        write = self._open_writes.landed(write_id)
        self._last_contact = now
        if write is None:
            return
        if write.sent_at > self._proven_at:
            # Until it proves more: what does not do what was asked for, as a no-op (P3), is not to
            # be repeated as fast as it is answered.
            self._write_at = max(self._write_at, now + RETRY_DELAY)
        if lease.resource_version == write.base_version:
            return
        self._conflicts = 0
        if lease.resource_version > self._lease_watch.newest:
            self._open_writes.forget_doubtful()
            self._adopt(now, lease, is_continuous=False, proof=write)
        elif write.purpose is Purpose.ACQUIRE_OR_RENEW and self.holds_record:
            self._prove(now, write, self._lease_watch.newest)
        if write.purpose is Purpose.RELEASE:
            self._judge_release(now)

    def write_conflicted(self, write_id: int, now: float) -> None:
        """409, or 404: the judged record is not the stored one any more."""
        self._last_contact = now
        write = self._open_writes.landed(write_id)
        if write is None or write.base_version != self._version():
            return
        self._conflicts += 1
        self._refused_version = write.base_version
        self._jitter = None
        if self._conflicts > CONFLICTS_AT_ONCE:
            self._write_at = now + RETRY_DELAY
        # A lost takeover waits for the winner's event, unless it does not come.
        patient = self._lease_watch.is_watching and not self.holds_record and self._term is None
        self._lease_watch.want_read(now + (STANDBY_RETRY if patient else 0.0))

    def write_refused(self, write_id: int, now: float, *, retry_after: float | None = None) -> None:
        """Another 4xx: certainly not applied."""
        self._last_contact = now
        self._open_writes.landed(write_id)
        self._after_failure(now, retry_after)

    def write_lost(self, write_id: int, now: float, *, retry_after: float | None = None) -> None:
        """No answer, or a 5xx: it may have been applied, and may still be."""
        self._open_writes.lost(write_id, forget_before=now - self._timing.validity)
        self._after_failure(now, retry_after)

    def event_arrived(
        self, watch_id: int, now: float, lease: Lease | None, *, is_deleted: bool = False
    ) -> bool:
        """A watch event; `lease` None for one without an object (a bookmark).

        False where there is nothing to do that was not there before: the echo of our own renewal.
        """
        if not self._lease_watch.is_watched_by(watch_id):
            return False
        self._last_contact = now
        if lease is not None and not is_deleted:
            # Not of a Lease that nobody holds: it may be silent for any time.
            limit = self._timing.lease_duration if self._observed.holder else 0.0
            self._lease_watch.note_gap(now, limit=limit)
        is_continuous = self._lease_watch.heard(now) and not self._observed.is_missing
        if lease is None or lease.resource_version <= self._lease_watch.newest:
            return False
        if is_deleted:
            self._lease_watch.note_version(now, lease.resource_version)
            self._adopt_missing(now)
        else:
            self._adopt(now, lease, is_continuous=is_continuous)
            if self._intent is not Intent.RELEASE:
                self._lease_watch.has_read()  # as good as a read
        if self._intent is Intent.RELEASE:
            self._judge_release(now)
        return True

    def watch_ended(self, watch_id: int, now: float, *, is_orderly: bool) -> None:
        """`is_orderly`: the server closed it after its time; else it failed or expired (410)."""
        if not self._lease_watch.is_watched_by(watch_id):
            return
        again_at = self._lease_watch.end_watch(now, is_orderly=is_orderly)
        if not is_orderly and not is_valid(self._term, now):
            self._lease_watch.want_read(again_at)

    # ── inside ──

    def _after_failure(self, now: float, retry_after: float | None) -> None:
        self._write_at = now + _delay(retry_after, RETRY_DELAY)
        if self._intent is Intent.RELEASE:
            self._lease_watch.want_read(now)

    def _adopt_missing(self, now: float) -> None:
        was_missing = self._observed.is_missing
        self._observed.adopt_missing(now)
        self._refused_version = None
        self._jitter = None
        if not is_valid(self._term, now):
            self._term = None
        if not was_missing:
            self._write_at = now

    def _adopt(
        self, now: float, lease: Lease, *, is_continuous: bool, proof: WriteLease | None = None
    ) -> None:
        before = self._observed.lease
        was_mine = self.holds_record
        known = self._observed.last_holder
        is_news = self._lease_watch.note_version(now, lease.resource_version)
        changed = self._observed.adopt(now, lease, is_continuous=is_continuous)
        if is_news:
            self._refused_version = None
        if changed and not self.holds_record:
            self._jitter = None
        if lease.spec.holder_identity == self._candidate.identity:
            if not was_mine and before is not None and before.spec.holder_identity and known:
                self._wait_out_overwritten_holder(now, lease, known, proof=proof)
            self._adopt_own(now, before, lease, was_mine=was_mine, proof=proof)
        elif lease.spec.holder_identity or not is_valid(self._term, now):
            self._term = None  # P4: at once
            if was_mine or changed:
                self._write_at = now
        else:
            self._write_at = now

    def _wait_out_overwritten_holder(
        self, now: float, lease: Lease, last_holder: Holder, *, proof: WriteLease | None
    ) -> None:
        """An edit, not a write of ours, put us in another's place, who may not know it yet."""
        if proof is None and self._open_writes.stamped(lease.spec.renew_time) is None:
            self._observed.not_before(now + last_holder.wait(self._timing.lease_duration))

    def _adopt_own(
        self,
        now: float,
        before: Lease | None,
        lease: Lease,
        *,
        was_mine: bool,
        proof: WriteLease | None,
    ) -> None:
        write = proof or self._open_writes.stamped(lease.spec.renew_time)
        created = before is None or before.uid != lease.uid
        late = write is None or write.sent_at + self._timing.validity <= now
        is_wanted = self._candidate.take_missing and not late
        if created and not is_wanted and not is_valid(self._term, now):
            # A create has no version to compare: what others did meanwhile is unknown, except
            # that nobody took the Lease before our own term was over.
            self._observed.not_before(now + self._timing.lease_duration)
        if write is not None:
            self._prove(now, write, lease.resource_version)
        elif not was_mine:
            self._write_at = now
        if write is None and self._is_damaged(lease):
            self._write_at = max(now, self._sent_at + RETRY_DELAY)

    def _prove(self, now: float, write: WriteLease, resource_version: int) -> None:
        """The write was applied: it renews from the moment it was sent."""
        if write.sent_at <= self._proven_at:
            return
        self._proven_at = write.sent_at
        self._write_at = write.sent_at + self._timing.renew_interval
        self._lease_writes.has_proven(write)
        if self._intent is Intent.CONTEND and self._observed.is_mine(now):
            proof = AppliedWrite(write.sent_at, resource_version, write.body["spec"]["acquireTime"])
            before = self._term
            self._term = extended(before, now, proof, validity=self._timing.validity)
            if self._term is not None and (
                before is None or before.fencing_token != self._term.fencing_token
            ):
                self.terms += 1

    def _is_damaged(self, lease: Lease) -> bool:
        """Somebody edited what followers judge by: restored by renewing at once."""
        return not lease.is_marked or lease.spec.lease_duration != self._timing.lease_duration

    def _judge_release(self, now: float) -> None:
        if self.holds_record:
            return
        if self._open_writes.may_apply(self._version()):
            self._lease_watch.want_read(now + RETRY_DELAY)
        else:
            self._is_released = True

    def _is_vacant(self) -> bool:
        return self._observed.is_known and not self._observed.holder

    def _is_coordinated(self) -> bool:
        """KEP-4355: with a strategy the API server chooses the holder."""
        record = self._observed.lease
        return record is not None and record.spec.strategy is not None and not self.holds_record

    def _version(self) -> int:
        record = self._observed.lease
        return record.resource_version if record else 0

    def _next_id(self) -> int:
        self._last_id += 1
        return self._last_id


def _delay(retry_after: float | None, default: float) -> float:
    if retry_after is None:
        return default
    return min(max(retry_after, RETRY_DELAY), RETRY_AFTER_LIMIT)
