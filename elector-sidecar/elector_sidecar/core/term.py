"""One term of leadership, and the writes that prove it.

Owns t_send: validity counts from the moment before a write was sent, and only once that write is
known to have been applied (its answer, or a later look at the record that shows its stamp).
Pure. Guarantee: `valid_until` is never later than the sending of an applied write + validity (P2).

    none ──proof──► term ──another proof before valid_until──► the same term, longer
      ▲               │
      └─── end(): ────┴──valid_until passes──► lapsed ──proof──► another term, another token
     another holder
"""

import math
from dataclasses import dataclass, replace


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


class Leadership:
    """The present term of one candidate; it may have lapsed."""

    def __init__(self, validity: float) -> None:
        self._validity = validity
        self._proven_at = -math.inf
        # Until when no other candidate may lead: `valid_until` that giving up does not end.
        self.held_until = -math.inf
        self.term: LeadershipTerm | None = None
        # Terms begun so far: a 200 may have been answered in each.
        self.terms = 0

    def is_valid(self, now: float) -> bool:
        return is_valid(self.term, now)

    def valid_term(self, now: float) -> LeadershipTerm | None:
        return self.term if self.is_valid(now) else None

    def is_proven_since(self, sent_at: float) -> bool:
        """Whether a write that was sent then, or later, was proven already."""
        return sent_at <= self._proven_at

    def note_proof(self, sent_at: float) -> None:
        self._proven_at = sent_at

    def note_hold(self, sent_at: float) -> None:
        self.held_until = max(self.held_until, sent_at + self._validity)

    def extend(self, now: float, proof: AppliedWrite) -> None:
        before = self.term
        self.term = extended(before, now, proof, validity=self._validity)
        if self.term is not None and (
            before is None or before.fencing_token != self.term.fencing_token
        ):
            self.terms += 1

    def end(self) -> None:
        """At once, however long it is still valid."""
        self.term = None


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
