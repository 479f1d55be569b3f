"""One candidate in the election for one Lease: what to do next, and what is true now.

Pure: no I/O, clock, chance or log. `advance` returns the commands to perform; every command is
answered by exactly one report (a watch by many). Guarantees, as long as `now` never runs
backwards: `view(now).is_leader` only within the validity of an applied write (P1-P3); every write
carries the uid and resourceVersion of the record that was judged (P4); it never stops trying (P5).

    standby ──free, write applied──► leader ──valid_until passes──► lapsed ──write applied──► leader
       ▲                               │ another holder is seen        │ another holder is seen
       └───────────────────────────────┴───────────────────────────────┘

`candidacy` knows what is true and permitted; here is when to ask and what an answer means.
"""

import math
from collections.abc import Callable

from edge_sidecars.runtime.backoff import exponential
from elector_sidecar.core.candidacy import Candidacy, ElectionView
from elector_sidecar.core.handover import Cause, Intent
from elector_sidecar.core.history import Terms
from elector_sidecar.core.lease import Lease
from elector_sidecar.core.lease_watch import STANDBY_RETRY, ReadLease, WatchLease
from elector_sidecar.core.lease_writes import Candidate, Purpose, WriteLease, delay
from elector_sidecar.core.moves.annotations import Switchover
from elector_sidecar.core.term import LeadershipTerm
from elector_sidecar.core.timing import LONGEST_RETRY, RETRY_DELAY

# The shell performs each once and reports once how it ended; each event of a watch besides.
Command = ReadLease | WriteLease | WatchLease


class Election:
    def __init__(self, candidate: Candidate, *, now: float) -> None:
        self._timing = candidate.timing
        self._candidacy = Candidacy(candidate, now=now)
        self._observed = self._candidacy.observed
        self._leadership = self._candidacy.leadership
        self._schedule = self._candidacy.schedule
        self._lease_watch = self._candidacy.lease_watch
        self._lease_writes = self._candidacy.lease_writes
        self._open_writes = self._lease_writes.open_writes
        self._last_id = 0
        self._last_contact: float | None = None
        # In a row, of requests that nothing came of.
        self._failures = 0

    # ── what the caller wants ──

    @property
    def intent(self) -> Intent:
        return self._candidacy.intent

    @property
    def terms(self) -> int:
        """Terms begun so far."""
        return self._leadership.terms

    @property
    def identity(self) -> str:
        """Its own, or that of the process for which it goes on under the same one."""
        return self._candidacy.identity

    def keep_holder(self, why_not: Callable[[Lease], str]) -> None:
        """Who resumes goes on under the identity of the one before, if `why_not` says "" of the
        record."""
        self._candidacy.why_not_the_same = why_not

    @property
    def went_on_by(self) -> WriteLease | None:
        """The write by which it became the holder before; None: it did not."""
        return self._candidacy.went_on_by

    @property
    def has_resumed(self) -> bool:
        """Whether it went on for a process of its pod that died, and whose main may be at work."""
        return self._candidacy.has_resumed

    def why_not_resumed(self, now: float) -> str | None:
        return self._candidacy.why_not_resumed(now)

    @property
    def holder(self) -> str:
        """By the newest known record; "" if none."""
        return self._observed.holder

    @property
    def holds_record(self) -> bool:
        """Whether the newest known record names this candidate, valid or not."""
        return self._candidacy.holds_record

    @property
    def may_hold(self) -> bool:
        """Whether it does, or a write that is under way or unanswered may make it so."""
        return self._candidacy.may_hold

    @property
    def is_released(self) -> bool:
        """Since RELEASE was asked for, a fresh read or our own write showed nothing of ours."""
        return self._candidacy.is_released

    def held_until(self, now: float) -> float:
        return self._candidacy.held_until(now)

    def set_intent(self, now: float, intent: Intent) -> None:
        """From now on; anything but CONTEND ends the present term at once, for good."""
        self._candidacy.set_intent(now, intent)

    @property
    def history(self) -> Terms | None:
        """The last terms that are known, oldest first; None where none are recorded."""
        history = self._candidacy.history
        return None if history is None else history.terms

    def note_cause(self, why: str) -> None:
        """Why this candidate gives up, for the history."""
        if self._candidacy.history is not None:
            self._candidacy.history.cause = why

    @property
    def record(self) -> Lease | None:
        """The newest version of the Lease that was seen."""
        return self._observed.lease

    def valid_term(self, now: float) -> LeadershipTerm | None:
        """The present term, if it is valid at this moment."""
        return self._leadership.valid_term(now) if self.intent is Intent.CONTEND else None

    def renew_soon(self, now: float) -> None:
        """What the next renewal says is news to others; never sooner than a retry."""
        if self.holds_record:
            self._schedule.repair(now)

    def asked(self, now: float) -> Cause | None:
        """Why the Lease asks this candidate, its holder, to give up: a hold, or a switchover."""
        return self._candidacy.asked(now)

    def problem(self, now: float) -> str:
        """What the Lease asks that is not done, and why, in words; "" for nothing."""
        return self._candidacy.problem(now)

    def asks_at(self, now: float) -> float | None:
        """When this candidate asks for the lead by its priority, as far as it is known; None: it
        does not."""
        found = self._candidacy.ask_at(now)
        return found if self.intent is Intent.CONTEND and found < math.inf else None

    def name_successor(self, switchover: Switchover) -> None:
        """The next release leaves the Lease to that pod first."""
        self._candidacy.moves.name_successor(switchover)

    def end_term(self) -> None:
        """The next write that is proven begins another one."""
        self._leadership.end()

    def look_again(self, now: float) -> None:
        """The record is in doubt: read at once."""
        self._lease_watch.want_read(now)

    def free_since(self, now: float) -> float | None:
        return self._observed.free_since(now)

    def view(self, now: float) -> ElectionView:
        return self._candidacy.view(now, last_contact=self._last_contact)

    # ── what to do ──

    def advance(self, now: float, *, wall: float, chance: float) -> list[Command]:
        """The commands that are due. `wall`: epoch seconds for stamps; `chance`: in [0, 1)."""
        self._schedule.draw_jitter(chance)
        self._candidacy.note_wall(now, wall)
        commands: list[Command] = []
        if now >= self._silence_due():
            self._lease_watch.distrust_watch(now)
        if now >= self._lease_watch.read_due():
            commands.append(self._lease_watch.start_read(self._next_id(), now))
        if now >= self._write_due(now):
            commands.append(self._write(now, wall))
        if now >= self._watch_due():
            exists = self._observed.lease is not None
            commands.append(self._lease_watch.start_watch(self._next_id(), now, exists=exists))
        return commands

    def wake_at(self, now: float) -> float:
        """When `advance` has something to do next if nothing is reported before."""
        reads_at = min(self._silence_due(), self._lease_watch.read_due(), self._watch_due())
        return min(reads_at, self._write_due(now))

    def _silence_due(self) -> float:
        is_held = self._observed.holder != ""
        return self._lease_watch.silence_due(self._timing.renew_interval if is_held else None)

    def _watch_due(self) -> float:
        # A standby that wants a read gets it first, so that the watch begins at what it knows. The
        # leader does not wait: its next renewal compares versions anyway.
        reads_first = self._lease_watch.wants_read and not self.holds_record
        if not self._observed.is_known or reads_first:
            return math.inf
        return self._lease_watch.watch_due()

    def _write_due(self, now: float) -> float:
        if not self._observed.is_known:
            return math.inf
        version = self._candidacy.version
        flying = self._open_writes.flying(version)
        return self._schedule.due(version, self._candidacy.permitted_at(now), flying)

    def _write(self, now: float, wall: float) -> WriteLease:
        self._schedule.sent(now)
        return self._lease_writes.write(
            self._next_id(),
            now,
            wall=wall,
            purpose=self._candidacy.purpose(now),
            record=self._observed.lease,
            term=self._leadership.valid_term(now),
            resumes=self._candidacy.resumes(now),
            keeps_holder=self._candidacy.why_not_the_same is not None,
            is_contending=self.intent is Intent.CONTEND,
        )

    def _next_id(self) -> int:
        self._last_id += 1
        return self._last_id

    # ── what a read found ──

    def read_answered(self, read_id: int, now: float, lease: Lease | None) -> None:
        """The record, or None if it does not exist."""
        read = self._lease_watch.end_read(read_id)
        self._note_contact(now)
        if read is None:
            return
        if self._lease_watch.is_overtaken(read, lease.resource_version if lease else None):
            # An event that came since it was sent may be newer than the answer: asked again.
            self._lease_watch.want_read(now)
            return
        if self._candidacy.shows_release(read.sent_at):
            self._lease_watch.has_read()
        # A fresh look allows another write on the version on which one was refused.
        self._schedule.allow_again(self._candidacy.version)
        if lease is None:
            self._candidacy.adopt_missing(now)
        else:
            self._candidacy.adopt(now, lease, is_continuous=False)
        if self.intent is Intent.RELEASE and not self._lease_watch.wants_read:
            self._candidacy.judge_release(now)

    def read_failed(self, read_id: int, now: float, *, retry_after: float | None = None) -> None:
        """No usable answer."""
        self._lease_watch.end_read(read_id)
        # A leader needs to know soon whether it still is one; a standby is in no hurry (P8).
        first = RETRY_DELAY if self.holds_record else STANDBY_RETRY
        self._lease_watch.delay_read(now + delay(retry_after, self._retry_delay(now, first)))

    # ── what became of a write ──

    def write_answered(self, write_id: int, now: float, lease: Lease) -> None:
        """A 2xx with the record as it was stored."""
        write = self._open_writes.landed(write_id)
        self._note_contact(now)
        if write is None:
            return
        is_asking = write.purpose is Purpose.ASK
        if not is_asking and not self._leadership.is_proven_since(write.sent_at):
            # Until it proves more: what does not do what was asked for, as a no-op (P3), is not to
            # be repeated as fast as it is answered.
            self._schedule.put_off(now + RETRY_DELAY)
        if lease.resource_version == write.base_version:
            return  # an identical body is a no-op of the API server: no follower saw a renewal (P3)
        self._schedule.succeeded()
        if lease.resource_version > self._lease_watch.newest:
            self._open_writes.forget_doubtful()
            proof = None if is_asking else write
            self._candidacy.adopt(now, lease, is_continuous=False, proof=proof)
        elif write.purpose is Purpose.ACQUIRE_OR_RENEW and self.holds_record:
            # An event was faster than the answer: the record is known, the write is proven.
            self._candidacy.prove(now, write, self._lease_watch.newest)
        if write.purpose is Purpose.RELEASE:
            self._candidacy.judge_release(now)

    def write_conflicted(self, write_id: int, now: float) -> None:
        """409, or 404: the judged record is not the stored one any more."""
        self._note_contact(now)
        write = self._open_writes.landed(write_id)
        if write is None or write.base_version != self._candidacy.version:
            return  # a newer version was adopted meanwhile, and judged
        if write.purpose is Purpose.ASK:
            self._candidacy.moves.ask_conflicted()
        self._schedule.conflicted(now, write.base_version)
        # A lost takeover waits for the winner's event, unless it does not come.
        has_lost_takeover = not self.holds_record and self._leadership.term is None
        is_patient = self._lease_watch.is_watching and has_lost_takeover
        self._lease_watch.want_read(now + (STANDBY_RETRY if is_patient else 0.0))

    def write_refused(self, write_id: int, now: float, *, retry_after: float | None = None) -> None:
        """Another 4xx: certainly not applied."""
        self._last_contact = now
        self._open_writes.landed(write_id)
        self._after_failure(now, retry_after)

    def write_lost(self, write_id: int, now: float, *, retry_after: float | None = None) -> None:
        """No answer, or a 5xx: it may have been applied, and may still be."""
        self._open_writes.lost(write_id, forget_before=now - self._timing.validity)
        self._after_failure(now, retry_after)

    def _note_contact(self, now: float) -> None:
        self._last_contact, self._failures = now, 0

    def _retry_delay(self, now: float, first: float) -> float:
        """After a failure: longer from one to the next, unless a lead or a release is at stake."""
        failures, self._failures = self._failures, self._failures + 1
        if self._leadership.is_valid(now) or self.intent is not Intent.CONTEND:
            return first
        return exponential(failures, first=first, longest=LONGEST_RETRY)

    def _after_failure(self, now: float, retry_after: float | None) -> None:
        self._schedule.set_due(now + delay(retry_after, self._retry_delay(now, RETRY_DELAY)))
        if self.intent is Intent.RELEASE:
            # Whether it released is what kubelet waits for: looked at now, not at the next write.
            self._lease_watch.want_read(now)

    # ── what the watch brought ──

    def event_arrived(
        self, watch_id: int, now: float, lease: Lease | None, *, is_deleted: bool = False
    ) -> bool:
        """A watch event; `lease` None for one without an object (a bookmark).

        False where there is nothing to do that was not there before: the echo of our own renewal.
        """
        if not self._lease_watch.is_watched_by(watch_id):
            return False
        self._note_contact(now)
        if lease is not None and not is_deleted:
            # Not of a Lease without a holder: it may be silent for any time.
            limit = self._timing.lease_duration if self._observed.holder else 0.0
            self._lease_watch.note_gap(now, limit=limit)
        is_continuous = self._lease_watch.heard(now) and not self._observed.is_missing
        if lease is None or lease.resource_version <= self._lease_watch.newest:
            return False  # a lagging watch is no news
        if is_deleted:
            self._lease_watch.note_version(now, lease.resource_version)
            self._candidacy.adopt_missing(now)
        else:
            self._candidacy.adopt(now, lease, is_continuous=is_continuous)
            if self.intent is not Intent.RELEASE:
                self._lease_watch.has_read()  # as good as a read
        if self.intent is Intent.RELEASE:
            self._candidacy.judge_release(now)
        return True

    def watch_ended(self, watch_id: int, now: float, *, is_orderly: bool) -> None:
        """`is_orderly`: the server closed it after its time; else it failed or expired (410)."""
        if not self._lease_watch.is_watched_by(watch_id):
            return
        pause = STANDBY_RETRY if is_orderly else self._retry_delay(now, STANDBY_RETRY)
        again_at = self._lease_watch.end_watch(now, is_orderly=is_orderly, pause=pause)
        # A valid leader needs no read: its next renewal compares versions.
        if not is_orderly and not self._leadership.is_valid(now):
            self._lease_watch.want_read(again_at)
