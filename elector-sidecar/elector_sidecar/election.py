"""One candidate in the election for one Lease: what to do next, and what is true now.

Pure: no I/O, clock, chance or log. `advance` returns the commands to perform; every command is
answered by exactly one report (a watch by many). Guarantees, as long as `now` never runs
backwards: `view(now).is_leader` only within the validity of an applied write (P1-P3); every write
carries the uid and resourceVersion of the record that was judged (P4); it never stops trying (P5).

    standby ──free, write applied──► leader ──valid_until passes──► lapsed ──write applied──► leader
       ▲                               │ another holder is seen        │ another holder is seen
       └───────────────────────────────┴───────────────────────────────┘
    Stance says what the caller wants: CONTEND, HOLD (renew, but answer 503), RELEASE, ABSTAIN.
"""

import math
from dataclasses import dataclass
from enum import Enum

from . import lease as wire
from .judgement import Judgement
from .lease import Lease
from .term import Attempts, Proof, Purpose, Term, Write, extended, is_valid
from .timing import (
    HEDGE_DELAY,
    RESERVE_DELAY,
    RETRY_AFTER_LIMIT,
    RETRY_DELAY,
    TAKEOVER_JITTER,
    Timing,
)

# Contract P8: so many renewal periods without an event, and the watch is not believed any more.
SILENT_PERIODS = 2.5
# A standby that cannot read, or whose watch was cut, tries again after this.
STANDBY_RETRY = 1.0
# Nobody renews a free Lease, so silence says little; still the watch is checked so often.
IDLE_PERIOD = 120.0
# So many conflicts in a row are answered at once; then each costs a retry delay.
CONFLICTS_AT_ONCE = 3


class Stance(Enum):
    CONTEND = "contend"
    HOLD = "hold"
    RELEASE = "release"
    ABSTAIN = "abstain"


@dataclass(frozen=True)
class Read:
    """A quorum read of the Lease (no resourceVersion)."""

    id: int
    sent_at: float


@dataclass(frozen=True)
class Watch:
    """Watch the Lease from here (None: from its present state); ends the watch before it."""

    id: int
    resource_version: int | None


Command = Read | Write | Watch


@dataclass(frozen=True)
class Candidate:
    """Who contends for what, and how."""

    identity: str
    namespace: str
    name: str
    timing: Timing
    take_missing: bool = False


@dataclass(frozen=True)
class View:
    """What is true at one moment; times are on the candidate's clock, in seconds."""

    is_leader: bool
    is_contending: bool
    is_lapsed: bool
    holder: str
    is_missing: bool
    valid_until: float | None
    started_at: float | None
    fencing_token: int | None
    acquire_time: str | None
    renew_time: str | None
    lease_transitions: int | None
    last_contact: float | None
    free_at: float
    strategy: str | None
    preferred_holder: str | None
    uid: str | None


class Election:
    def __init__(self, candidate: Candidate, *, now: float) -> None:
        self._candidate = candidate
        self._timing = candidate.timing
        self._judgement = Judgement(
            candidate.identity,
            own_duration=candidate.timing.lease_duration,
            take_missing=candidate.take_missing,
        )
        self._stance = Stance.CONTEND
        self._term: Term | None = None
        self._attempts = Attempts()
        self._last_id = 0
        self._last_stamp = 0.0
        self._last_contact: float | None = None
        # Reading.
        self._reads: dict[int, Read] = {}
        self._read_at = now
        # Watching.
        self._watch_id: int | None = None
        self._watch_at = now
        self._watch_started_at = now
        self._heard_at = now
        self._newest = 0
        self._newest_at = -math.inf
        self._gap = 0.0
        # Writing.
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
    def stance(self) -> Stance:
        return self._stance

    @property
    def holds_record(self) -> bool:
        """Whether the newest known record names this candidate, valid or not."""
        return self._judgement.holder == self._candidate.identity

    @property
    def may_hold(self) -> bool:
        """Whether it does, or a write that is under way may make it so."""
        return self.holds_record or not self._attempts.is_idle

    @property
    def is_released(self) -> bool:
        """Since RELEASE was asked for, a fresh read or our own write showed nothing of ours."""
        return self._is_released

    def set_stance(self, now: float, stance: Stance) -> None:
        """From now on; anything but CONTEND ends the present term at once, for good."""
        if stance is self._stance:
            return
        self._stance = stance
        self._is_released = False  # of an earlier release; this one is still to be shown
        if stance is not Stance.CONTEND:
            self._term = None
        if stance is Stance.RELEASE:
            self._release_asked_at = now
            self._write_at = -math.inf
            self._want_read(now)
        elif stance is Stance.CONTEND:
            self._write_at = -math.inf

    def free_since(self, now: float) -> float | None:
        return self._judgement.free_since(now)

    def view(self, now: float) -> View:
        term = self._term
        leads = self._stance is Stance.CONTEND and is_valid(term, now)
        record = self._judgement.lease
        spec = record.spec if record else None
        return View(
            is_leader=leads,
            is_contending=self._stance is Stance.CONTEND and not self._is_coordinated(),
            is_lapsed=self._stance is Stance.CONTEND and self.holds_record and not leads,
            holder=self._judgement.holder,
            is_missing=self._judgement.is_missing,
            valid_until=term.valid_until if leads and term else None,
            started_at=term.started_at if leads and term else None,
            fencing_token=term.fencing_token if leads and term else None,
            acquire_time=spec.acquire_time if spec else None,
            renew_time=spec.renew_time if spec else None,
            lease_transitions=spec.lease_transitions if spec else None,
            last_contact=self._last_contact,
            free_at=self._judgement.free_at(),
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
            self._watch_id = None
            self._want_read(now)
            self._heard_at = now
        if now >= self._read_due():
            read = Read(self._next_id(), now)
            self._reads[read.id] = read
            commands.append(read)
        if now >= self._write_due(now):
            commands.append(self._write(now, wall))
        if now >= self._watch_due():
            commands.append(self._watch(now))
        return commands

    def wake_at(self, now: float) -> float:
        """When `advance` has something to do next if nothing is reported before."""
        return min(self._silence_due(), self._read_due(), self._write_due(now), self._watch_due())

    def _silence_due(self) -> float:
        if self._watch_id is None:
            return math.inf
        if self._judgement.holder:
            period = max(self._timing.renew_interval, self._gap)
        else:
            period = IDLE_PERIOD / SILENT_PERIODS
        return max(self._heard_at, self._watch_started_at) + SILENT_PERIODS * period

    def _read_due(self) -> float:
        match list(self._reads.values()):
            case []:
                return self._read_at
            case [one]:
                return max(self._read_at, one.sent_at + HEDGE_DELAY)
            case _:
                return math.inf

    def _watch_due(self) -> float:
        wants_read = self._read_at < math.inf and not self.holds_record
        if self._watch_id is not None or not self._judgement.is_known or wants_read:
            return math.inf
        return self._watch_at

    def _write_due(self, now: float) -> float:
        if not self._judgement.is_known or self._refused_version == self._version():
            return math.inf
        due = max(self._write_at, self._permitted_at(now))
        match self._attempts.flying(self._version()):
            case []:
                return due
            case [one]:
                return max(due, one.sent_at + HEDGE_DELAY)
            case _:
                return math.inf

    def _permitted_at(self, now: float) -> float:
        """From when on the stance and the record allow a write; +inf if they do not."""
        match self._stance:
            case Stance.ABSTAIN:
                return math.inf
            case Stance.RELEASE:
                asked = self._read_at == math.inf and not self._is_released
                return -math.inf if asked and self.holds_record else math.inf
            case Stance.HOLD:
                return self._judgement.free_at() if self.holds_record else math.inf
            case Stance.CONTEND:
                return self._contend_at(now)

    def _contend_at(self, now: float) -> float:
        if self.holds_record:
            return self._judgement.free_at()
        if self._is_vacant() and is_valid(self._term, now):
            return -math.inf  # blanked or deleted under a living leader: it writes itself back
        if self._is_coordinated():
            return math.inf
        if self._judgement.must_reserve:
            return self._judgement.missing_since + RESERVE_DELAY + (self._jitter or 0.0)
        free_at = self._judgement.free_at()
        return free_at + (self._jitter or 0.0) if free_at > -math.inf else free_at

    def _write(self, now: float, wall: float) -> Write:
        record = self._judgement.lease
        purpose = self._purpose(now)
        stamp = wire.micro_time(wall)
        if purpose is Purpose.RELEASE and record is not None:
            body = wire.released(record, now=stamp)
        elif purpose is Purpose.RESERVE:
            body = self._reserved_body()
        else:
            stamp = self._stamp(wall)
            body = self._held_body(now, stamp)
        write = Write(
            id=self._next_id(),
            purpose=purpose,
            body=body,
            stamp=stamp,
            sent_at=now,
            base_version=self._version(),
            creates=record is None,
        )
        self._attempts.add(write)
        self._sent_at = now
        return write

    def _purpose(self, now: float) -> Purpose:
        if self._stance is Stance.RELEASE:
            return Purpose.RELEASE
        if self._judgement.must_reserve and not is_valid(self._term, now):
            return Purpose.RESERVE
        return Purpose.HOLD

    def _reserved_body(self) -> dict[str, object]:
        return wire.reserved(
            namespace=self._candidate.namespace,
            name=self._candidate.name,
            holder_identity=self._candidate.identity,
            lease_duration=int(self._timing.lease_duration),
        )

    def _held_body(self, now: float, stamp: str) -> dict[str, object]:
        record, term = self._judgement.lease, self._term
        acquire_time = stamp
        transitions = record.spec.lease_transitions + 1 if record else 0
        if term is not None and is_valid(term, now):
            acquire_time = term.acquire_time
            transitions = record.spec.lease_transitions if record else 0
        elif record is not None and self.holds_record:
            acquire_time = record.spec.acquire_time or stamp
            transitions = record.spec.lease_transitions
        return wire.held(
            record,
            namespace=self._candidate.namespace,
            name=self._candidate.name,
            holder_identity=self._candidate.identity,
            lease_duration=int(self._timing.lease_duration),
            acquire_time=acquire_time,
            renew_time=stamp,
            lease_transitions=transitions,
        )

    def _stamp(self, wall: float) -> str:
        """A renewTime that no open write bears, in a later whole second than the record's (H9)."""
        record = self._judgement.lease
        if self.holds_record or self._term is not None:
            written = wire.wall_seconds(record.spec.renew_time) if record else None
            wall = max(wall, max(self._last_stamp, written or 0.0) + 1.0)
        while self._attempts.has_stamp(wire.micro_time(wall)):
            wall += 1e-6
        return wire.micro_time(wall)

    def _watch(self, now: float) -> Watch:
        self._watch_id = self._next_id()
        self._watch_started_at = now
        return Watch(self._watch_id, self._newest if self._judgement.lease is not None else None)

    # ── what happened ──

    def read_answered(self, read_id: int, now: float, lease: Lease | None) -> None:
        """The record, or None if it does not exist."""
        read = self._reads.pop(read_id, None)
        self._last_contact = now
        if read is None:
            return
        overtaken = self._newest_at >= read.sent_at
        if overtaken and (lease is None or lease.resource_version < self._newest):
            self._want_read(now)
            return
        if read.sent_at >= self._release_asked_at:
            self._read_at = math.inf
        if self._refused_version == self._version():
            self._refused_version = None
        if lease is None:
            self._adopt_missing(now)
        else:
            self._adopt(now, lease, is_continuous=False)
        if self._stance is Stance.RELEASE and self._read_at == math.inf:
            self._judge_release(now)

    def read_failed(self, read_id: int, now: float, *, retry_after: float | None = None) -> None:
        """No usable answer."""
        self._reads.pop(read_id, None)
        if self._read_at < math.inf:
            delay = RETRY_DELAY if self.holds_record else STANDBY_RETRY
            self._read_at = max(self._read_at, now + _delay(retry_after, delay))

    def write_answered(self, write_id: int, now: float, lease: Lease) -> None:
        """A 2xx with the record as it was stored."""
        write = self._attempts.landed(write_id)
        self._last_contact = now
        if write is None:
            return
        if lease.resource_version == write.base_version:
            self._write_at = now + RETRY_DELAY  # a no-op proves nothing (P3)
            return
        self._conflicts = 0
        if lease.resource_version > self._newest:
            self._attempts.forget_doubtful()
            self._adopt(now, lease, is_continuous=False, proof=write)
        elif write.purpose is Purpose.HOLD and self.holds_record:
            self._prove(now, write, self._newest)
        if write.purpose is Purpose.RELEASE:
            self._judge_release(now)

    def write_conflicted(self, write_id: int, now: float) -> None:
        """409, or 404: the judged record is not the stored one any more."""
        self._last_contact = now
        write = self._attempts.landed(write_id)
        if write is None or write.base_version != self._version():
            return
        self._conflicts += 1
        self._refused_version = write.base_version
        self._jitter = None
        if self._conflicts > CONFLICTS_AT_ONCE:
            self._write_at = now + RETRY_DELAY
        # A lost takeover waits for the winner's event, unless it does not come.
        patient = self._watch_id is not None and not self.holds_record and self._term is None
        self._want_read(now + (STANDBY_RETRY if patient else 0.0))

    def write_refused(self, write_id: int, now: float, *, retry_after: float | None = None) -> None:
        """Another 4xx: certainly not applied."""
        self._last_contact = now
        self._attempts.landed(write_id)
        self._after_failure(now, retry_after)

    def write_lost(self, write_id: int, now: float, *, retry_after: float | None = None) -> None:
        """No answer, or a 5xx: it may have been applied, and may still be."""
        self._attempts.lost(write_id)
        self._after_failure(now, retry_after)

    def event_arrived(
        self, watch_id: int, now: float, lease: Lease | None, *, is_deleted: bool = False
    ) -> None:
        """A watch event; `lease` None for one without an object (a bookmark)."""
        if watch_id != self._watch_id:
            return
        self._last_contact = now
        if lease is not None and not is_deleted:
            self._note_gap(now)
        self._heard_at = now
        if lease is None or lease.resource_version <= self._newest:
            return
        if is_deleted:
            self._newest, self._newest_at = lease.resource_version, now
            self._adopt_missing(now)
        else:
            self._adopt(now, lease, is_continuous=True)
        if self._stance is Stance.RELEASE:
            self._judge_release(now)

    def watch_ended(self, watch_id: int, now: float, *, is_orderly: bool) -> None:
        """`is_orderly`: the server closed it after its time; else it failed or expired (410)."""
        if watch_id != self._watch_id:
            return
        self._watch_id = None
        was_short = now - self._watch_started_at < STANDBY_RETRY
        self._watch_at = now + (STANDBY_RETRY if was_short else 0.0)
        if not is_orderly and not is_valid(self._term, now):
            self._want_read(self._watch_at)

    # ── inside ──

    def _after_failure(self, now: float, retry_after: float | None) -> None:
        self._write_at = now + _delay(retry_after, RETRY_DELAY)
        if self._stance is Stance.RELEASE:
            self._want_read(now)

    def _adopt_missing(self, now: float) -> None:
        self._judgement.adopt_missing(now)
        self._refused_version = None
        self._jitter = None
        if is_valid(self._term, now):
            self._write_at = now
        else:
            self._term = None
            self._write_at = min(self._write_at, now)

    def _adopt(
        self, now: float, lease: Lease, *, is_continuous: bool, proof: Write | None = None
    ) -> None:
        before = self._judgement.lease
        was_mine = self.holds_record
        is_news = lease.resource_version != self._newest
        self._newest, self._newest_at = lease.resource_version, now
        changed = self._judgement.adopt(now, lease, is_continuous=is_continuous)
        if is_news:
            self._refused_version = None
            if is_continuous and self._stance is not Stance.RELEASE:
                self._read_at = math.inf  # as good as a read
        if changed and not self.holds_record:
            self._jitter = None
        if lease.spec.holder_identity == self._candidate.identity:
            self._adopt_own(now, before, lease, was_mine=was_mine, proof=proof)
        elif lease.spec.holder_identity or not is_valid(self._term, now):
            self._term = None  # P4: at once
            if was_mine or changed:
                self._write_at = now
        else:
            self._write_at = now

    def _adopt_own(
        self, now: float, before: Lease | None, lease: Lease, *, was_mine: bool, proof: Write | None
    ) -> None:
        write = proof or self._attempts.stamped(lease.spec.renew_time)
        created = before is None or before.uid != lease.uid
        late = write is None or write.sent_at + self._timing.validity <= now
        is_wanted = self._candidate.take_missing and not late
        if created and not is_wanted and not is_valid(self._term, now):
            # A create has no version to compare: what others did meanwhile is unknown, except
            # that nobody took the Lease before our own term was over.
            self._judgement.hold_off(now + self._timing.lease_duration)
        if write is not None:
            self._prove(now, write, lease.resource_version)
        elif not was_mine:
            self._write_at = now
        if write is None and self._is_damaged(lease):
            self._write_at = max(now, self._sent_at + RETRY_DELAY)

    def _prove(self, now: float, write: Write, resource_version: int) -> None:
        """The write was applied: it renews from the moment it was sent."""
        if write.sent_at <= self._proven_at:
            return
        self._proven_at = write.sent_at
        self._write_at = write.sent_at + self._timing.renew_interval
        self._last_stamp = wire.wall_seconds(write.stamp) or 0.0
        self._attempts.forget_doubtful()
        if self._stance is Stance.CONTEND and self._judgement.is_mine(now):
            proof = Proof(write.sent_at, resource_version, write.body["spec"]["acquireTime"])
            self._term = extended(self._term, now, proof, validity=self._timing.validity)

    def _is_damaged(self, lease: Lease) -> bool:
        """Somebody edited what followers judge by: restored by renewing at once."""
        return not lease.is_marked or lease.spec.lease_duration != self._timing.lease_duration

    def _judge_release(self, now: float) -> None:
        if not self.holds_record and self._attempts.is_idle:
            self._is_released = True
        elif not self.holds_record:
            self._want_read(now + RETRY_DELAY)  # an open write of ours may still be applied

    def _is_vacant(self) -> bool:
        return self._judgement.is_known and not self._judgement.holder

    def _is_coordinated(self) -> bool:
        """KEP-4355: with a strategy the API server chooses the holder."""
        record = self._judgement.lease
        return record is not None and record.spec.strategy is not None and not self.holds_record

    def _note_gap(self, now: float) -> None:
        gap = now - max(self._heard_at, self._watch_started_at)
        self._gap = min(gap, self._timing.lease_duration) if self._judgement.holder else 0.0

    def _want_read(self, at: float) -> None:
        self._read_at = min(self._read_at, at)

    def _version(self) -> int:
        record = self._judgement.lease
        return record.resource_version if record else 0

    def _next_id(self) -> int:
        self._last_id += 1
        return self._last_id


def _delay(retry_after: float | None, default: float) -> float:
    return default if retry_after is None else min(retry_after, RETRY_AFTER_LIMIT)
