"""Until when this process may act as the leader, from the documents of its elector. Pure.

Guarantees: no document proves the lead for longer than both bounds: `validUntil` on the clock that
all containers of a pod share, and the moment before which the document cannot have been made (the
request was sent, or the document before it arrived) plus `remainingSeconds`. Silence prolongs
nothing; without a document there is no lead. Times are seconds on CLOCK_BOOTTIME, and come in.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

# Seconds; a leader that lives is seen to renew each second, or two with an elector's defaults. A
# wait for one that lives after all ends as soon as it is seen.
SILENT_AFTER = 1.2


class NotAnElectorDocument(ValueError):
    """The answer is not an elector's."""


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
        valid_until = document.get("validUntil")
        term = document.get("fencingToken")
        if is_leader and not _is_seconds(remaining):
            raise NotAnElectorDocument(f"remainingSeconds of a leader is {remaining!r:.80}")
        return cls(
            is_leader=is_leader,
            holder=_text(document.get("holderPod")) or _text(document.get("holder")),
            remaining=float(remaining) if isinstance(remaining, int | float) else 0.0,
            valid_until=float(valid_until) if isinstance(valid_until, int | float) else None,
            term=term if isinstance(term, int) and is_leader else None,
            reason=_text(document.get("reason")),
            renewed=_text(document.get("renewTime")),
        )


class Lead:
    """Built up by `asked` and `heard`; everything else is a function of now."""

    def __init__(self) -> None:
        self.document: LeaderDocument | None = None
        self.heard_at: float | None = None
        self.deadline = -math.inf
        # When a holder was last seen to renew.
        self._renewed_at = -math.inf
        # No document that comes next was made before.
        self._since = math.inf

    def asked(self, now: float) -> None:
        """A request is about to be sent; what it brings was made after this moment."""
        self._since = now

    def heard(self, document: LeaderDocument, now: float) -> bool:
        """Whether anything changed but the time."""
        before = self.document
        self.document = document
        self.heard_at = now
        if document.is_leader:
            bounds = [self._since + document.remaining]
            if document.valid_until is not None:
                bounds.append(document.valid_until)
            self.deadline = min(bounds)
        else:
            self.deadline = -math.inf
        self._since = now
        if document.holder and (before is None or _sign_of_life(before) != _sign_of_life(document)):
            self._renewed_at = now
        return before is None or _state(before) != _state(document)

    def is_leader(self, now: float) -> bool:
        return now < self.deadline

    def is_vacant(self, now: float) -> bool:
        """Whether no leader is known to be alive: no holder, or one that has not renewed for
        `SILENT_AFTER` seconds. A first sight of a holder counts as its renewal."""
        if self.document is None or not self.document.holder:
            return True
        return now - self._renewed_at >= SILENT_AFTER

    def may_act(self, now: float, within: float) -> bool:
        """Whether something that takes `within` seconds at most ends while the lead is proven."""
        return now + within < self.deadline

    def term(self, now: float) -> int | None:
        """Which term of this process it is; None unless it leads."""
        return self.document.term if self.document is not None and self.is_leader(now) else None


def _state(document: LeaderDocument) -> tuple[object, ...]:
    return document.is_leader, document.holder, document.term


def _sign_of_life(document: LeaderDocument) -> tuple[str, str]:
    return document.holder, document.renewed


def _is_seconds(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and value >= 0


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
