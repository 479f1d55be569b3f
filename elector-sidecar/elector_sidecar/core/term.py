"""One term of leadership, and the writes that prove it.

Owns t_send: validity counts from the moment before a write was sent, and only once that write is
known to have been applied (its answer, or a later look at the record that shows its stamp).
Pure. Guarantee: `valid_until` is never later than the sending of an applied write + validity.
"""

import math
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any


class Purpose(Enum):
    ACQUIRE_OR_RENEW = "acquire or renew"  # acquires or renews
    RELEASE = "release"
    CREATE_VACANT = "create vacant"  # creates the Lease without a holder


@dataclass(frozen=True)
class WriteLease:
    """One attempt. `creates`: by POST, else by PUT on exactly `base_version` of the same uid."""

    id: int
    purpose: Purpose
    body: dict[str, Any]
    stamp: str
    sent_at: float
    base_version: int
    creates: bool


@dataclass(frozen=True)
class LeadershipTerm:
    """`started_at`: when 200 began; `fencing_token`: the resourceVersion that began it."""

    started_at: float
    valid_until: float
    acquire_time: str
    fencing_token: int


@dataclass(frozen=True)
class AppliedWrite:
    """An applied write: when it was sent, and the version of the record that showed it."""

    sent_at: float
    resource_version: int
    acquire_time: str


class OpenWrites:
    """Writes whose fate is open: under way, or unanswered for good but possibly applied."""

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
        return bool(self._flying) or any(
            write.base_version == version for write in self._doubtful.values()
        )

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


def extended(
    term: LeadershipTerm | None, now: float, proof: AppliedWrite, *, validity: float
) -> LeadershipTerm | None:
    """The term after a proof: the same one longer, a new one after a lapse, or none if too late."""
    valid_until = proof.sent_at + validity
    if valid_until <= now:
        return term if term is not None and now < term.valid_until else None
    if term is not None and now < term.valid_until:
        return replace(term, valid_until=max(term.valid_until, valid_until))
    return LeadershipTerm(
        started_at=now,
        valid_until=valid_until,
        acquire_time=proof.acquire_time,
        fencing_token=proof.resource_version,
    )


def is_valid(term: LeadershipTerm | None, now: float) -> bool:
    return now < (term.valid_until if term else -math.inf)
