"""When a link that ended is to be tried again, and where.

Guarantees: Who was served and asked to go is soon elsewhere. All addresses are tried before a wait
grows, for one that is dead is no sign of the others. While a new leader may be on its way no LC
misses it for long. Who is turned away again and again comes ever thinner, also where each try
succeeds and fails within seconds (two LCs under one name end each other's streams). All of it is
full jitter; where GM announced that a crowd would come along, over as long as that needs. Knows no
sockets and no clock; chance is from [0, 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from edge_sidecars.runtime.backoff import FIRST, Backoff

# Seconds to another GM, which is there already, when one asks to go.
AFTER_DRAIN: Final = 0.5
# Seconds of service after which what went wrong before is over.
STABLE_AFTER: Final = 5.0
# Seconds of waiting in which a leader that crashed is followed by the next: its Lease is 15 s by
# default, and a busy machine takes its time; and the longest of these waits.
TAKEOVER: Final = 30.0
LONGEST_IN_TAKEOVER: Final = 3.0
# Windows, in paces of those that GM asks for: for the first dial when GM is gone, and for the wait
# between two rounds. Second rounds begin while the first window is open: the most that one GM takes
# is (1 + GONE / ROUND) / GONE times the pace's 370 a second: 500. A wider ROUND would miss the
# next leader for longer than a failover may take.
GONE: Final = 1.25
ROUND: Final = 1.8


class DialPolicy:
    """How GM received this LC. `addresses`: host:port, one at least."""

    def __init__(self, addresses: Sequence[str], *, longest: float) -> None:
        self._addresses = tuple(addresses)
        self._longest = longest
        self._backoff = Backoff(longest=longest)
        self._last = ""
        # Seconds over which GM wants dials to be spread.
        self._pace = 0.0
        # In this round.
        self._tried: set[str] = set()
        # Seconds since the last service, or the beginning.
        self._waited = 0.0

    def address(self, chance: float) -> str:
        """One that was not tried in this round, and any but the last, where there are others."""
        others = [each for each in self._addresses if each != self._last] or [self._last]
        untried = [each for each in others if each not in self._tried] or others
        self._last = untried[int(chance * len(untried))]
        self._tried.add(self._last)
        return self._last

    def paced(self, seconds: float) -> None:
        """GM's last word counts; no GM keeps an LC away for longer than its own cap."""
        self._pace = min(max(seconds, 0.0), self._longest)

    def ended(self, *, served_for: float | None, is_drained: bool, chance: float) -> float:
        """Seconds to wait. `served_for`: seconds since the snapshot; None without one."""
        if served_for is not None and (is_drained or served_for >= STABLE_AFTER):
            self._begin()
        if served_for is not None and is_drained:
            return chance * max(min(AFTER_DRAIN, self._longest), self._pace)
        if is_drained:
            spread = chance * self._pace
        elif served_for is not None:
            spread = chance * min(self._pace * GONE, self._longest)
        elif len(self._tried) == len(self._addresses):
            spread = chance * min(self._pace * ROUND, self._longest)
        else:
            spread = 0.0
        if self._tried and not self._tried.issuperset(self._addresses):
            return max(chance * min(FIRST, self._longest), spread)
        self._tried.clear()
        delay = self._backoff.failed(chance)
        if self._waited < TAKEOVER:
            delay = min(delay, chance * LONGEST_IN_TAKEOVER)
        delay = max(delay, spread)
        self._waited += delay
        return delay

    def _begin(self) -> None:
        """A round in which the GM that served last has had its turn."""
        self._tried = {self._last} if self._last else set()
        self._waited = 0.0
        self._backoff.succeeded()
