"""When the events of a watch came, at the earliest.

While the reflector is at work on some events, those that come next wait in the kernel, which does
not say since when. Guarantee: no event came before the moment that is given for it. Pure.
"""

from typing import Final

# Seconds; what is there so soon after it is asked for was waiting.
AT_ONCE: Final = 0.001


class Arrivals:
    """Of one watch, whose reader asks for the first batch at `now` (monotonic clock)."""

    def __init__(self, now: float) -> None:
        self._asked_at = self._read_at = now

    def asks(self, now: float) -> None:
        """The reader is done with a batch, and waits for the next one."""
        self._asked_at = now

    def came(self, now: float) -> float:
        """A batch was read: since when it may have been there."""
        was_waiting = now - self._asked_at < AT_ONCE
        came_at = self._read_at if was_waiting else now
        self._read_at = now
        return came_at
