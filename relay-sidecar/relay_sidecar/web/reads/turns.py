"""Questions to upstream that nobody waits for: one after the other, over one connection.

Guarantees: never more than `at_once` are under way; while one is, another one waits for it for
`patience` seconds at most, so that one that hangs holds up nobody for longer.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Turns:
    def __init__(self, *, at_once: int, patience: float) -> None:
        self._places = asyncio.Semaphore(at_once)
        self._turn = asyncio.Lock()
        self._patience = patience

    @asynccontextmanager
    async def next(self) -> AsyncIterator[None]:
        """For one question."""
        async with self._places:
            has_turn = await self._waited()
            try:
                yield
            finally:
                if has_turn:
                    self._turn.release()

    async def _waited(self) -> bool:
        """Whether it is this one's turn; else it goes on without."""
        try:
            async with asyncio.timeout(self._patience):
                return await self._turn.acquire()
        except TimeoutError:
            return False
