"""When a link that ended is to be tried again, and where.

Guarantees: who was served and asked to go is soon elsewhere; who is turned away again and again
comes ever thinner, also where each try succeeds and fails within seconds (two LCs under one name
end each other's streams). Knows no sockets and no clock; chance is from [0, 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sedna_api.core.redial import Redial

# Seconds of service after which what went wrong before is over.
STABLE_AFTER: Final = 5.0


class Reception:
    """How GM received this LC. `addresses`: host:port, one at least."""

    def __init__(self, addresses: Sequence[str], *, longest: float) -> None:
        self._addresses = tuple(addresses)
        self._redial = Redial(longest=longest)
        self._last = ""

    def address(self, chance: float) -> str:
        """Any but the last, where there are others."""
        others = [each for each in self._addresses if each != self._last] or [self._last]
        self._last = others[int(chance * len(others))]
        return self._last

    def ended(self, *, served_for: float | None, is_drained: bool, chance: float) -> float:
        """Seconds to wait. `served_for`: seconds since the snapshot; None without one."""
        if served_for is not None and is_drained:
            return self._redial.drained(chance)
        if served_for is not None and served_for >= STABLE_AFTER:
            self._redial.succeeded()
        return self._redial.failed(chance)
