"""The phases of a pod's lead, each with the data that it has and no other, and their intents.

Pure values: a deadline exists only while something is waited for, a cause only while the lead is
given up or was. `lifecycle` says which phase follows which.
"""

import math
from dataclasses import dataclass
from enum import Enum


class Intent(Enum):
    """What the candidate is to do about the Lease."""

    CONTEND = "contend"
    HOLD = "hold"  # go on renewing, but answer 503: the main is stopping
    RELEASE = "release"
    ABSTAIN = "abstain"


# Seconds for which a release is left to the successor that it names; the former leader stays out
# for as long.
SUCCESSION = 3.0


class HandoverCause(Enum):
    """Why the lead was given up."""

    TERMINATION = "the sidecar is terminating"
    RESIGNATION = "resigned by request"
    UNHEALTHY = "the main is unhealthy"
    GONE = "the main is gone"
    LISTENER_UNRESPONSIVE = "the sidecar's own HTTP listener does not answer"
    UNPREFERRED = "another holder is preferred by the Lease's strategy"
    HOLD = "a hold on the Lease"


@dataclass(frozen=True)
class SwitchoverTo:
    """A cause too: the lead is asked for, for pod `to`, or for any other where that is ""."""

    to: str

    @property
    def value(self) -> str:
        return f"switchover to {self.to or 'any other pod'}"


Cause = HandoverCause | SwitchoverTo


@dataclass(frozen=True)
class Handover:
    """How the last giving up ended; `number` counts them."""

    number: int
    cause: Cause | None
    was_released: bool


@dataclass(frozen=True)
class Gated:
    """The main is not healthy."""


@dataclass(frozen=True)
class Contending:
    """`led_at`: since when it leads, +inf if it does not. `is_probation`: the gate is closed, and
    leading may be what the main needs to become healthy."""

    led_at: float = math.inf
    is_probation: bool = False


@dataclass(frozen=True)
class Draining:
    """Renewing, while the main stops. `cooldown`: the backoff that a resignation asked for."""

    cause: Cause
    deadline: float
    is_main_stopped: bool
    cooldown: float | None = None


@dataclass(frozen=True)
class Releasing:
    cause: Cause
    deadline: float
    cooldown: float | None = None


@dataclass(frozen=True)
class TermBackoff:
    """An ex-leader leaves the Lease to others. `may_end_early`: once no other pod has taken it."""

    cause: Cause
    until: float
    may_end_early: bool


@dataclass(frozen=True)
class Stopped:
    cause: Cause


Phase = Gated | Contending | Draining | Releasing | TermBackoff | Stopped


def intent_in(phase: Phase) -> Intent:
    match phase:
        case Contending():
            return Intent.CONTEND
        case Draining():
            # Until the main has stopped, no other pod may begin (H3).
            return Intent.HOLD
        case Releasing():
            return Intent.RELEASE
        case Gated() | TermBackoff() | Stopped():
            return Intent.ABSTAIN
