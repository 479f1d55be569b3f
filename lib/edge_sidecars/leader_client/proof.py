"""Until when documents of an elector prove what they say. Pure.

Guarantees: no document proves anything for longer than both bounds. One is `validUntil` on the
clock that all containers of a pod share. The other is the moment before which the document cannot
have been made (the request was sent, or the document before it arrived) plus `remainingSeconds`.
Silence prolongs nothing; without a document nothing is proven. Times are seconds on CLOCK_BOOTTIME,
and come in.
"""

import math


class NotAnElectorDocument(ValueError):
    """The answer is not an elector's."""


class Proof:
    """Built up by `asked` and `heard`; it holds while now is before `deadline`."""

    def __init__(self) -> None:
        self.deadline = -math.inf
        # No document that comes next was made before.
        self._since = math.inf

    def asked(self, now: float) -> None:
        """A request is about to be sent; what it brings was made after this moment."""
        self._since = now

    def heard(self, remaining: float | None, valid_until: float | None, *, now: float) -> None:
        """A document; `remaining` None: it proves nothing."""
        if remaining is None:
            self.deadline = -math.inf
        else:
            bound = math.inf if valid_until is None else valid_until
            self.deadline = min(self._since + remaining, bound)
        self._since = now


def remaining_seconds(value: object) -> float:
    """Of a document that proves something. Raises `NotAnElectorDocument`."""
    if isinstance(value, int | float) and math.isfinite(value) and value >= 0:
        return float(value)
    raise NotAnElectorDocument(f"remainingSeconds is {value!r:.80}")


def number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def text(value: object) -> str:
    return value if isinstance(value, str) else ""
