"""How many streams begin something upstream at a time, and which ones first.

When the link comes back, all streams want to open their watches at the same moment. On a busy
machine hundreds of TLS handshakes at once end none of them in time, and the relay's own clients
wait meanwhile. So each beginning takes a turn; the streams for which a reader waits come first,
then those that are watched.

A turn that lasts for some ticks of the event loop's clock lets the next one begin: over a slow link
beginnings take long without costing anything. A loop that is busy ticks late, and so waits longer.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, Protocol

# Seconds between two ticks.
TICK: Final = 0.05
# Ticks after which the next one may begin beside.
PATIENCE: Final = 2


class Reader(Protocol):
    """As of now: whether a reader waits for a state, and whether there are readers at all."""

    @property
    def is_waited_for(self) -> bool: ...

    @property
    def is_read(self) -> bool: ...


class Turn:
    """Of one stream; ended once it has begun, or failed, or was given up."""

    def __init__(self, turns: "Turns") -> None:
        self.ticks = 0
        self._turns = turns

    def end(self) -> None:
        """May be called again."""
        self._turns.ended(self)


class Turns:
    """`limit` at a time, but for those that take long."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: set[Turn] = set()
        # In the order in which they came.
        self._waiting: dict[asyncio.Future[Turn], Reader] = {}
        self._ticking: asyncio.TimerHandle | None = None

    @asynccontextmanager
    async def turn(self, stream: Reader) -> AsyncIterator[Turn]:
        """Waits for it; ended at the end of the block at the latest."""
        turn = await self._take(stream)
        try:
            yield turn
        finally:
            turn.end()

    def ended(self, turn: Turn) -> None:
        self._held.discard(turn)
        self._next()

    async def _take(self, stream: Reader) -> Turn:
        granted: asyncio.Future[Turn] = asyncio.get_running_loop().create_future()
        self._waiting[granted] = stream
        self._next()
        try:
            return await granted
        except asyncio.CancelledError:
            if granted.done() and not granted.cancelled():
                granted.result().end()
            raise
        finally:
            self._waiting.pop(granted, None)

    def _next(self) -> None:
        while self._waiting and len(self._held) < self._limit:
            best = self._most_urgent()
            del self._waiting[best]
            if best.cancelled():
                continue
            turn = Turn(self)
            self._held.add(turn)
            best.set_result(turn)
        if self._waiting and self._ticking is None:
            self._ticking = asyncio.get_running_loop().call_later(TICK, self._tick)

    def _most_urgent(self) -> asyncio.Future[Turn]:
        """Of equal ones the first. Hundreds may wait: of most only one thing is asked."""
        first_read: asyncio.Future[Turn] | None = None
        for granted, stream in self._waiting.items():
            if stream.is_waited_for:
                return granted
            if first_read is None and stream.is_read:
                first_read = granted
        return first_read or next(iter(self._waiting))

    def _tick(self) -> None:
        self._ticking = None
        for turn in tuple(self._held):
            turn.ticks += 1
            if turn.ticks >= PATIENCE:
                self._held.discard(turn)
        self._next()
