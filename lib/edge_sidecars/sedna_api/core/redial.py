"""How long to wait before the next attempt to reach a server that did not answer.

Full jitter (AWS Architecture Blog, "Exponential Backoff And Jitter"): after a failure that all
clients see together, no two come back at one moment, and the longer it lasts the thinner they come.
Knows no clock and makes no chance of its own.
"""

from typing import Final

# Seconds: a restart of the other side costs no more than this at first.
FIRST: Final = 0.2
LONGEST: Final = 8.0
# After the other side asked to redial elsewhere, which is there already.
AFTER_DRAIN: Final = 0.5
# Beyond it every delay is the longest.
_MAX_DOUBLINGS: Final = 32


def spread(failures: int, *, first: float, longest: float, chance: float) -> float:
    """Seconds to wait, with so many failures before this one; `chance` is from [0, 1)."""
    return chance * min(longest, first * 2.0 ** min(failures, _MAX_DOUBLINGS))


class Redial:
    """The delays of one client towards one server."""

    def __init__(self, *, first: float = FIRST, longest: float = LONGEST) -> None:
        self._first = first
        self._longest = longest
        self._failures = 0

    def failed(self, chance: float) -> float:
        """Seconds to wait now; `chance` is from [0, 1)."""
        delay = spread(self._failures, first=self._first, longest=self._longest, chance=chance)
        self._failures += 1
        return delay

    def succeeded(self) -> None:
        """The server proved to be of use."""
        self._failures = 0

    def drained(self, chance: float) -> float:
        """Seconds to wait after the server asked to go elsewhere: no failure."""
        self._failures = 0
        return chance * min(AFTER_DRAIN, self._longest)
