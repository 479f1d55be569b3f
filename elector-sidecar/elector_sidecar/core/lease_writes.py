"""What one candidate writes into its Lease, and when: bodies, stamps, versions, the next attempt.

Owns the stamps, by which a later look recognises a write that was never answered. Pure. Guarantees:

- each update carries uid and resourceVersion of the record it was built on (P4);
- renewTime grows by whole seconds within a term (H9);
- no two writes that acquire or renew bear the same stamp;
- a write that failed is followed by the next after `RETRY_DELAY` at the soonest;
- an unanswered one gets a second attempt beside it, never a third;
- a version on which a write was refused is never written on again (P4).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from elector_sidecar.core import lease as wire
from elector_sidecar.core.history import LeaseHistory
from elector_sidecar.core.lease import RESUMED_ANNOTATION, Lease
from elector_sidecar.core.moves.moves import MovePolicy, Moves
from elector_sidecar.core.resume import AnswersAt
from elector_sidecar.core.term import LeadershipTerm
from elector_sidecar.core.timing import (
    HEDGE_DELAY,
    RETRY_AFTER_LIMIT,
    RETRY_DELAY,
    TAKEOVER_JITTER,
    Timing,
)

# int32: one more is refused with 422, for ever.
MAX_TRANSITIONS = 2**31 - 1
# A renewTime so far ahead of our wall clock was edited: it is no floor for ours. Seconds.
EDITED_AHEAD = 86400.0
# So many conflicts in a row are answered at once; then each costs a retry delay.
CONFLICTS_AT_ONCE = 3


@dataclass(frozen=True)
class Candidate:
    """Who contends for what, and how."""

    identity: str
    namespace: str
    name: str
    timing: Timing
    take_missing: bool = False
    # Its events come by a watch that others share, so that each watch begins at the present state.
    shares_watch: bool = False
    # None where no process of the same pod can go on for this one.
    answers_at: AnswersAt | None = None
    # None: switchovers, holds and priorities mean nothing, as for the Lease of one of many members.
    moves: MovePolicy | None = None
    # Whether its writes carry the last terms along.
    keeps_history: bool = False


class Purpose(Enum):
    """What a write is for."""

    ACQUIRE_OR_RENEW = "acquire or renew"
    RELEASE = "release"
    CREATE_VACANT = "create vacant"  # creates the Lease without a holder
    ASK = "ask"  # asks the holder for a switchover to this pod


@dataclass(frozen=True)
class WriteLease:
    """One attempt. `creates`: by POST, else by PUT on exactly `base_version` of the same uid.
    `renews`: the record names this candidate already. `goes_on_as`: the holder that this candidate
    is once it is applied; "" if it stays who it is."""

    id: int
    purpose: Purpose
    body: dict[str, Any]
    stamp: str
    sent_at: float
    base_version: int
    creates: bool
    renews: bool = False
    goes_on_as: str = ""


class OpenWrites:
    """Writes whose outcome is unknown: under way, or unanswered for good but possibly applied,
    which their stamp in the record proves (hazards H8, H10)."""

    def __init__(self) -> None:
        self._flying: dict[int, WriteLease] = {}
        self._doubtful: dict[str, WriteLease] = {}

    def add(self, write: WriteLease) -> None:
        self._flying[write.id] = write

    def flying(self, base_version: int) -> list[WriteLease]:
        """Those under way that could still apply to this version of the record."""
        return [write for write in self._flying.values() if write.base_version == base_version]

    def may_apply(self, version: int) -> bool:
        """Whether one that is under way, or was given up, could still be applied."""
        is_flying = any(write.purpose is not Purpose.ASK for write in self._flying.values())
        return is_flying or any(it.base_version == version for it in self._doubtful.values())

    def landed(self, write_id: int) -> WriteLease | None:
        """The answer came: the write is settled."""
        return self._flying.pop(write_id, None)

    def lost(self, write_id: int, *, forget_before: float) -> None:
        """No answer: it may have been applied, and its stamp would show that.

        Those sent before `forget_before` prove nothing any more; an outage may last for days.
        """
        write = self._flying.pop(write_id, None)
        if write is not None and write.purpose is Purpose.ACQUIRE_OR_RENEW:
            self._doubtful[write.stamp] = write
        self._doubtful = {
            stamp: doubtful
            for stamp, doubtful in self._doubtful.items()
            if doubtful.sent_at >= forget_before
        }

    def stamped(self, stamp: str | None) -> WriteLease | None:
        """The open write that bears this stamp, if any."""
        if stamp is None:
            return None
        for write in self._flying.values():
            if write.stamp == stamp and write.purpose is Purpose.ACQUIRE_OR_RENEW:
                return write
        return self._doubtful.get(stamp)

    def forget_doubtful(self) -> None:
        """A newer version of the record was written since: none of them can apply any more."""
        self._doubtful.clear()


class LeaseWrites:
    def __init__(
        self, candidate: Candidate, moves: Moves, history: LeaseHistory | None = None
    ) -> None:
        self._candidate = candidate
        self.identity = candidate.identity
        self._moves = moves
        self._history = history
        self._last_micros = 0
        self._proven_wall = 0.0
        self.open_writes = OpenWrites()

    def has_proven(self, write: WriteLease) -> None:
        """It was applied: later stamps come after its own."""
        self._proven_wall = wire.wall_seconds(write.stamp) or 0.0
        self.open_writes.forget_doubtful()

    def write(
        self,
        write_id: int,
        now: float,
        *,
        wall: float,
        purpose: Purpose,
        record: Lease | None,
        term: LeadershipTerm | None,
        resumes: bool = False,
        keeps_holder: bool = False,
        is_contending: bool = True,
    ) -> WriteLease:
        """An attempt on exactly this record (None: a create), sent at `now`; `term` is valid.
        `resumes`: takes over from a process of this pod that died, and goes on under its identity
        if it `keeps_holder`; `is_contending`: it does not give up."""
        stamp = wire.micro_time(wall)
        goes_on_as = record.spec.holder_identity if record and resumes and keeps_holder else ""
        if purpose is Purpose.RELEASE and record is not None:
            more = self._moves.on_release(record, stamp=stamp)
            if self._history is not None:
                more = {**more, **self._history.on_release(stamp)}
            body = wire.released(record, now=stamp, more=more)
        elif purpose is Purpose.ASK and record is not None:
            body = wire.annotated(record, self._moves.ask(now, record, wall=wall, number=write_id))
        elif purpose is Purpose.CREATE_VACANT:
            body = self._vacant_body()
        else:
            stamp = self._stamp(wall, record, term, is_same=bool(goes_on_as))
            resumed = f"{wall:.3f}" if resumes else self._resumed(record)
            more = self._moves.on_hold(
                now,
                record,
                is_mine=self._is_mine(record),
                is_contending=is_contending,
                wall=wall,
            )
            body = self._held_body(
                stamp,
                record,
                term,
                holder=goes_on_as or self.identity,
                now=now,
                resumed=resumed,
                more=more,
            )
        write = WriteLease(
            id=write_id,
            purpose=purpose,
            body=body,
            stamp=stamp,
            sent_at=now,
            base_version=record.resource_version if record else 0,
            creates=record is None,
            renews=purpose is Purpose.ACQUIRE_OR_RENEW and self._is_mine(record),
            goes_on_as=goes_on_as,
        )
        self.open_writes.add(write)
        return write

    def _is_mine(self, record: Lease | None) -> bool:
        return record is not None and record.spec.holder_identity == self.identity

    def _vacant_body(self) -> dict[str, object]:
        return wire.vacant(
            namespace=self._candidate.namespace,
            name=self._candidate.name,
            holder_identity=self.identity,
            lease_duration=int(self._candidate.timing.lease_duration),
        )

    def _resumed(self, record: Lease | None) -> str | None:
        """Of the present term, however often it is renewed."""
        is_mine = record is not None and self._is_mine(record)
        return record.annotation(RESUMED_ANNOTATION) if record is not None and is_mine else None

    def _held_body(
        self,
        stamp: str,
        record: Lease | None,
        term: LeadershipTerm | None,
        *,
        holder: str,
        now: float,
        resumed: str | None,
        more: Mapping[str, str | None],
    ) -> dict[str, object]:
        """Of a running term acquireTime and transitions are kept, whatever became of the record."""
        answers_at = self._candidate.answers_at
        acquire_time = stamp
        transitions = record.spec.lease_transitions if record else 0
        if term is not None:
            acquire_time = term.acquire_time
        elif record is not None and self._is_mine(record):
            acquire_time = record.spec.acquire_time or stamp
        elif record is not None:
            transitions = min(transitions + 1, MAX_TRANSITIONS)
        if self._history is not None:
            resumes = resumed is not None and not self._is_mine(record)
            more = {**more, **self._history.on_hold(acquire_time, resumes=resumes)}
        return wire.held(
            record,
            namespace=self._candidate.namespace,
            name=self._candidate.name,
            holder_identity=holder,
            lease_duration=int(self._candidate.timing.lease_duration),
            acquire_time=acquire_time,
            renew_time=stamp,
            lease_transitions=transitions,
            answers_at=None if answers_at is None else answers_at.annotation(holder, now),
            resumed=resumed,
            more=more,
        )

    def _stamp(
        self, wall: float, record: Lease | None, term: LeadershipTerm | None, *, is_same: bool
    ) -> str:
        """A renewTime that no write of ours ever bore, whatever the wall clock does.

        Of the same holder (`is_same`: also after this write) it is in a later whole second than
        the record's: client-go followers see no less (H9).
        """
        earliest = wall
        if self._is_mine(record) or term is not None or is_same:
            written = wire.wall_seconds(record.spec.renew_time) if record else None
            if written is None or written > wall + EDITED_AHEAD:
                written = 0.0
            earliest = max(earliest, max(self._proven_wall, written) + 1.0)
        self._last_micros = max(round(earliest * 1e6), self._last_micros + 1)
        return wire.micro_time(self._last_micros / 1e6)


class WriteSchedule:
    def __init__(self) -> None:
        self._not_before = -math.inf
        self._sent_at = -math.inf
        self._refused_version: int | None = None
        self._conflicts = 0
        self._jitter: float | None = None

    @property
    def jitter(self) -> float:
        """Seconds by which this candidate comes later than another for the same vacancy."""
        return self._jitter or 0.0

    def draw_jitter(self, chance: float) -> None:
        """Once for each vacancy: drawn at every look, the shortest one would win in the end."""
        if self._jitter is None:
            self._jitter = chance * TAKEOVER_JITTER

    def renew_jitter(self) -> None:
        """The next vacancy is another: who lost this one by its jitter may win that one."""
        self._jitter = None

    def due(self, version: int, permitted_at: float, open_writes: list[WriteLease]) -> float:
        """When to write on this version of the record; `open_writes` are those that could still
        apply to it."""
        if self._refused_version == version:
            return math.inf
        due = max(self._not_before, permitted_at)
        match open_writes:
            case []:
                return due
            case [one]:
                return max(due, one.sent_at + HEDGE_DELAY)
            case _:
                return math.inf

    def sent(self, now: float) -> None:
        self._sent_at = now

    def set_due(self, at: float) -> None:
        self._not_before = at

    def set_due_at_once(self) -> None:
        self._not_before = -math.inf

    def put_off(self, until: float) -> None:
        self._not_before = max(self._not_before, until)

    def repair(self, now: float) -> None:
        """Somebody edited what followers depend on: restored at once, but an endless duel with
        another writer costs no more than any failure."""
        self._not_before = max(now, self._sent_at + RETRY_DELAY)

    def conflicted(self, now: float, version: int) -> None:
        self._conflicts += 1
        self._refused_version = version
        self.renew_jitter()
        if self._conflicts > CONFLICTS_AT_ONCE:
            self._not_before = now + RETRY_DELAY

    def succeeded(self) -> None:
        self._conflicts = 0

    def allow_again(self, version: int | None = None) -> None:
        """The record was looked at anew, or (without a version) is another one."""
        if version is None or self._refused_version == version:
            self._refused_version = None


def delay(retry_after: float | None, default: float) -> float:
    """Seconds: `default`, or the server's Retry-After where that is longer, within a limit, because
    the lead does not wait for it."""
    return max(default, min(retry_after or 0.0, RETRY_AFTER_LIMIT))
