"""Which objects are to be worked on next: each at most once at a time, none forgotten.

Owns client-go's rules (util/workqueue): a key that is added while it is worked on comes again
afterwards; one that waits is not added twice. Those that failed wait in a lane of their own, and
a worker of both serves them in turns: however many fail, and however slowly, others go on.
Knows nothing of what the work is.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")


class WorkQueue(Generic[K]):
    def __init__(self) -> None:
        self._waiting: deque[K] = deque()
        self._failed: deque[K] = deque()
        self._is_failed_next = False
        self._dirty: set[K] = set()
        self._busy: set[K] = set()
        # When, on the loop's clock: uvloop's handles of what is due at once do not know it.
        self._later: dict[K, tuple[float, asyncio.Handle]] = {}
        # Those of them that failed.
        self._retries: set[K] = set()
        self._ready = asyncio.Event()

    def __len__(self) -> int:
        """Those that wait for nothing but their turn, and those that are worked on."""
        return len(self._dirty | self._busy)

    @property
    def retries(self) -> int:
        """Those that failed and wait for their moment."""
        return len(self._retries)

    def add(self, key: K) -> None:
        if key in self._dirty:
            return
        self._dirty.add(key)
        if key not in self._busy:
            self._waiting.append(key)
            self._ready.set()

    def retry_after(self, key: K, delay: float) -> None:
        """It failed: in `delay` seconds, behind those that failed before."""
        self.add_after(key, delay)
        self._retries.add(key)

    def add_after(self, key: K, delay: float) -> None:
        """In `delay` seconds, unless an earlier moment is planned already."""
        loop = asyncio.get_running_loop()
        due_at = loop.time() + delay
        planned = self._later.get(key)
        if planned is not None:
            planned_at, handle = planned
            if planned_at <= due_at:
                return
            handle.cancel()
        self._later[key] = (due_at, loop.call_later(delay, self._due, key))

    async def get(self, *, failed_too: bool = True) -> K:
        """The next one, which is to be given to `done`."""
        while not (self._waiting or (failed_too and self._failed)):
            self._ready.clear()
            await self._ready.wait()
        key = self._next(failed_too=failed_too)
        self._dirty.discard(key)
        self._busy.add(key)
        return key

    def done(self, key: K) -> None:
        self._busy.discard(key)
        if key in self._dirty:
            self._waiting.append(key)
            self._ready.set()

    def discard(self, is_meant: Callable[[K], bool]) -> None:
        """Of these none waits any more; what is worked on ends as it does."""
        gone = {key for key in (*self._dirty, *self._later) if is_meant(key)}
        self._waiting = deque(key for key in self._waiting if key not in gone)
        self._failed = deque(key for key in self._failed if key not in gone)
        self._dirty -= gone
        self._retries -= gone
        for key in gone & self._later.keys():
            self._later.pop(key)[1].cancel()

    def _next(self, *, failed_too: bool) -> K:
        if not failed_too or not self._failed:
            return self._waiting.popleft()
        self._is_failed_next = not self._is_failed_next
        return (
            self._failed if self._is_failed_next or not self._waiting else self._waiting
        ).popleft()

    def _due(self, key: K) -> None:
        del self._later[key]
        if key in self._retries:
            self._retries.discard(key)
            if key not in self._dirty and key not in self._busy:
                self._dirty.add(key)
                self._failed.append(key)
                self._ready.set()
                return
        self.add(key)
