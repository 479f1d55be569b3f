"""Until when this process may act as the leader, from the documents of its elector. Pure.

Guarantees: those of `proof`; without a document there is no lead. Times are seconds on
CLOCK_BOOTTIME, and come in.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from edge_sidecars.leader_client.proof import (
    NotAnElectorDocument,
    Proof,
    number,
    remaining_seconds,
    text,
)

# Seconds; a leader that lives is seen to renew each second, or two with an elector's defaults. A
# wait for one that lives after all ends as soon as it is seen.
SILENT_AFTER = 1.2


@dataclass(frozen=True, slots=True)
class LeaderDocument:
    """The fields of `GET /leader` that a main needs. `term` grows with each term, None unless
    leader; `renewed`: `renewTime` as the holder wrote it."""

    is_leader: bool
    holder: str
    remaining: float
    valid_until: float | None
    term: int | None
    reason: str
    renewed: str = ""

    @classmethod
    def parse(cls, document: Mapping[str, object]) -> Self:
        """Raises `NotAnElectorDocument`."""
        is_leader = document.get("isLeader")
        if not isinstance(is_leader, bool):
            raise NotAnElectorDocument("isLeader is missing")
        remaining = document.get("remainingSeconds")
        term = document.get("fencingToken")
        return cls(
            is_leader=is_leader,
            holder=text(document.get("holderPod")) or text(document.get("holder")),
            remaining=remaining_seconds(remaining) if is_leader else number(remaining) or 0.0,
            valid_until=number(document.get("validUntil")),
            term=term if isinstance(term, int) and is_leader else None,
            reason=text(document.get("reason")),
            renewed=text(document.get("renewTime")),
        )


class Lead:
    """Built up by `heard`, and `asked` of its `proof`; everything else is a function of now."""

    def __init__(self) -> None:
        self.document: LeaderDocument | None = None
        self.proof = Proof()
        # When a holder was last seen to renew.
        self._renewed_at = -math.inf

    def heard(self, document: LeaderDocument, now: float) -> bool:
        """Whether anything changed but the time."""
        before = self.document
        self.document = document
        proven = document.remaining if document.is_leader else None
        self.proof.heard(proven, document.valid_until, now=now)
        if document.holder and (before is None or _sign_of_life(before) != _sign_of_life(document)):
            self._renewed_at = now
        return before is None or _state(before) != _state(document)

    def is_leader(self, now: float) -> bool:
        return now < self.proof.deadline

    def is_vacant(self, now: float) -> bool:
        """Whether no leader is known to be alive: no holder, or one that has not renewed for
        `SILENT_AFTER` seconds. A first sight of a holder counts as its renewal."""
        if self.document is None or not self.document.holder:
            return True
        return now - self._renewed_at >= SILENT_AFTER

    def may_act(self, now: float, within: float) -> bool:
        """Whether something that takes `within` seconds at most ends while the lead is proven."""
        return now + within < self.proof.deadline

    def term(self, now: float) -> int | None:
        """Which term of this process it is; None unless it leads."""
        return self.document.term if self.document is not None and self.is_leader(now) else None


def _state(document: LeaderDocument) -> tuple[object, ...]:
    return document.is_leader, document.holder, document.term


def _sign_of_life(document: LeaderDocument) -> tuple[str, str]:
    return document.holder, document.renewed
