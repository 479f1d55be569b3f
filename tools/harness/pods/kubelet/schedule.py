"""What is to be done later, by one thread that looks now and then."""

import heapq
import itertools
import time
from collections.abc import Callable


class Schedule:
    def __init__(self) -> None:
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()

    def later(self, seconds: float, work: Callable[[], None]) -> None:
        """What is due at the same time is done in the order in which it was said."""
        heapq.heappush(self._due, (time.monotonic() + seconds, next(self._numbers), work))

    def patience(self, limit: float) -> float:
        """Seconds until something is due, `limit` at most."""
        if not self._due:
            return limit
        return min(limit, max(0.0, self._due[0][0] - time.monotonic()))

    def do_what_is_due(self) -> None:
        """What it puts on the schedule for now included."""
        while self._due and self._due[0][0] <= time.monotonic():
            heapq.heappop(self._due)[2]()
