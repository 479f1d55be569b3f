"""Cores of the single election that break one rule each: an exploration must see what it is for."""

import math
from dataclasses import replace
from typing import Any

from elector_sidecar.core.election import Election
from elector_sidecar.core.handover import Intent
from elector_sidecar.core.lease import Lease
from elector_sidecar.core.lease_writes import WriteLease
from elector_sidecar.core.moves.annotations import HOLD_ANNOTATION
from elector_sidecar.core.timing import FOREIGN_FACTOR


class TakesEarly(Election):
    """A holder is taken for dead after 0.6 of its lease duration."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._ends_at = self._observed._holder_ends_at
        self._observed._holder_ends_at = self._early  # type: ignore[method-assign]

    def _early(self) -> float:
        return self._ends_at() - 0.4 * self._timing.lease_duration


class WorksForTheWholeLease(Election):
    """Clocks are taken to run at one rate."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._leadership._validity = self._timing.lease_duration


class CountsFromTheAnswer(Election):
    """Validity begins when the answer comes, not when the write was sent (P2)."""

    def write_answered(self, write_id: int, now: float, lease: Lease) -> None:
        super().write_answered(write_id, now, lease)
        present = self._leadership.term
        if present is not None:
            until = now + self._timing.validity
            self._leadership.term = replace(present, valid_until=until)


class BelievesUnanswered(Election):
    """A renewal counts when it is sent (P3)."""

    def _write(self, now: float, wall: float) -> WriteLease:
        write = super()._write(now, wall)
        present = self._leadership.valid_term(now)
        if present is not None:
            until = now + self._timing.validity
            self._leadership.term = replace(present, valid_until=until)
        return write


class ReleasesBeforeTheMainStops(Election):
    """Giving up is releasing (P6)."""

    def set_intent(self, now: float, intent: Intent) -> None:
        super().set_intent(now, Intent.RELEASE if intent is Intent.HOLD else intent)


class TakesForeignLeasesInTime(Election):
    """client-go is taken to stop when its lease ends (H1)."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._ends_at = self._observed._holder_ends_at
        self._observed._holder_ends_at = self._in_time  # type: ignore[method-assign]

    def _in_time(self) -> float:
        known = self._observed.last_holder
        is_foreign = known is not None and not known.is_marked
        share = FOREIGN_FACTOR - 1.0 if is_foreign else 0.0
        return self._ends_at() - share * self._timing.lease_duration


class NeverContendsAgain(Election):
    """It ends with its first term (P5)."""

    def set_intent(self, now: float, intent: Intent) -> None:
        has_led = self._leadership.terms > 0
        super().set_intent(now, Intent.ABSTAIN if has_led and intent is Intent.CONTEND else intent)


class TakesWhatIsHeld(Election):
    """A hold is not looked at."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._candidacy.moves.held_back_until = _never  # type: ignore[method-assign]


class TakesWhatIsForAnother(Election):
    """A release that names a successor is one for all."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._candidacy.moves._adopt_release = _ignored  # type: ignore[method-assign]


class GoesOnWhateverIsHeld(Election):
    """A process that starts goes on for the one before it, whatever is asked of the Lease."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._contends_at = self._candidacy._contend_at
        self._candidacy._contend_at = self._at_once  # type: ignore[method-assign]

    def _at_once(self, now: float) -> float:
        candidacy = self._candidacy
        resumes = not candidacy.holds_record and candidacy.resumes(now)
        return candidacy.observed.own_from if resumes else self._contends_at(now)


class HoldsForEver(Election):
    """A hold has no end."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._candidacy.moves.held_back_until = _for_ever  # type: ignore[method-assign]


def _never(now: float, lease: Lease | None, *, wall: float) -> float:
    return -math.inf


def _for_ever(now: float, lease: Lease | None, *, wall: float) -> float:
    is_held = lease is not None and lease.annotation(HOLD_ANNOTATION) is not None
    return math.inf if is_held else -math.inf


def _ignored(now: float, lease: Lease) -> None:
    """What is released is free."""
