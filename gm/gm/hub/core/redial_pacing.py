"""Over how many seconds LCs are to spread their next dial, so that a crowd does not come at once.

A GM takes a connection in about a millisecond; 1000 LCs that lost it at one moment and dial within
a tenth of a second would keep it from everything else. Pure.
"""

from __future__ import annotations

from typing import Final

from edge_sidecars.runtime.backoff import FIRST

# Connections a second that a GM is to take from all that come back; jitter is never quite even.
COMING_BACK: Final = 370.0
# The number of LCs has to change by so much to be told anew.
_STEP: Final = 1.25


def pace(lcs: int) -> float:
    """Seconds; 0 for so few that LC's own jitter is enough."""
    seconds = lcs / COMING_BACK
    return seconds if seconds > FIRST else 0.0


def is_news(told: float, now: float) -> bool:
    """Whether LCs that were told the one should hear the other."""
    low, high = sorted((told, now))
    return high > low * _STEP
