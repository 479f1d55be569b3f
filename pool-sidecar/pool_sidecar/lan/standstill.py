"""An event loop that notices, before it reads a byte, that it did not run for a while.

A process that was frozen (SIGSTOP, a suspended machine, a starved container) finds bytes that are
as old as the freeze. Guarantee: `on_gap` is called with the seconds by CLOCK_BOOTTIME after the
selector returns and before any of its events is handled, as long as something wakes the loop more
often than the gap that matters; `keep_waking` does.
"""

import asyncio
import selectors
from collections.abc import Callable
from typing import Final

from edge_sidecars.runtime.clock import boottime

# Seconds; far below each gap that matters.
TICK: Final = 0.5
# Seconds: what a busy machine may take.
ORDINARY: Final = 1.0


class GapSelector(selectors.EpollSelector):
    """Also measures what passes between two of its returns."""

    def __init__(self) -> None:
        super().__init__()
        self.on_gap: Callable[[float], None] = lambda seconds: None
        self._returned_at = boottime()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = super().select(timeout)
        now = boottime()
        gap, self._returned_at = now - self._returned_at, now
        if gap > ORDINARY:
            self.on_gap(gap)
        return found


def keep_waking(loop: asyncio.AbstractEventLoop) -> None:
    """For as long as the loop runs."""
    loop.call_later(TICK, keep_waking, loop)
