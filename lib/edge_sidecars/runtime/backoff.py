"""How long to wait before the next attempt to reach what did not answer: exponential, with a cap.

Pure: `chance`, from [0, 1), comes in. Full jitter (AWS Architecture Blog, "Exponential Backoff And
Jitter"): after a failure that all clients see together, no two come back at one moment, and the
longer it lasts the thinner they come. Half jitter keeps at least half of each delay, where a short
one would cost the other side a request for nothing.
"""

from typing import Final

# Seconds: a restart of the other side costs no more than this at first.
FIRST: Final = 0.2
LONGEST: Final = 8.0
# Beyond it every delay is the longest.
_MAX_DOUBLINGS: Final = 32


def exponential(failures: int, *, first: float, longest: float) -> float:
    """Seconds without jitter, after so many failures before this one."""
    return min(longest, first * 2.0 ** min(failures, _MAX_DOUBLINGS))


def half_jitter(delay: float, chance: float) -> float:
    return delay * (1 - chance / 2)


class Backoff:
    """The delays of one client towards one server."""

    def __init__(self, *, first: float = FIRST, longest: float = LONGEST) -> None:
        self._first = first
        self._longest = longest
        self._failures = 0

    @property
    def bound(self) -> float:
        """The longest that the next delay can be."""
        return exponential(self._failures, first=self._first, longest=self._longest)

    def failed(self, chance: float = 1.0) -> float:
        """Seconds to wait now, with full jitter; 1.0 is the whole delay."""
        delay = chance * self.bound
        self._failures += 1
        return delay

    def succeeded(self) -> None:
        """The server proved to be of use."""
        self._failures = 0
