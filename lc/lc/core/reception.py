"""When a link that ended is to be tried again, and where.

Guarantees: who was served and asked to go is soon elsewhere; all addresses are tried before a wait
grows, for one that is dead says nothing of the others; while a new leader may be on its way nobody
misses it for long; who is turned away again and again comes ever thinner, also where each try
succeeds and fails within seconds (two LCs under one name end each other's streams). Knows no
sockets and no clock; chance is from [0, 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sedna_api.core.redial import FIRST, Redial

# Seconds of service after which what went wrong before is over.
STABLE_AFTER: Final = 5.0
# Seconds of waiting in which a leader that crashed is followed by the next: its Lease is 15 s by
# default, and a busy machine takes its time; and the longest of these waits.
TAKEOVER: Final = 30.0
LONGEST_IN_TAKEOVER: Final = 3.0


class Reception:
    """How GM received this LC. `addresses`: host:port, one at least."""

    def __init__(self, addresses: Sequence[str], *, longest: float) -> None:
        self._addresses = tuple(addresses)
        self._longest = longest
        self._redial = Redial(longest=longest)
        self._last = ""
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

    def ended(self, *, served_for: float | None, is_drained: bool, chance: float) -> float:
        """Seconds to wait. `served_for`: seconds since the snapshot; None without one."""
        if served_for is not None and is_drained:
            self._begin()
            return self._redial.drained(chance)
        if served_for is not None and served_for >= STABLE_AFTER:
            self._begin()
            self._redial.succeeded()
        if self._tried and not self._tried.issuperset(self._addresses):
            return chance * min(FIRST, self._longest)
        self._tried.clear()
        delay = self._redial.failed(chance)
        if self._waited < TAKEOVER:
            delay = min(delay, chance * LONGEST_IN_TAKEOVER)
        self._waited += delay
        return delay

    def _begin(self) -> None:
        """A round in which whoever served last has had its turn."""
        self._tried = {self._last} if self._last else set()
        self._waited = 0.0
