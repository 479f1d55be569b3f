"""One question at a time for all who want its answer (singleflight, as in golang.org/x/sync)."""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any


class SingleFlight:
    def __init__(self) -> None:
        self._tasks: dict[Hashable, asyncio.Task[None]] = {}

    async def once(self, key: Hashable, ask: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """A caller that leaves does not end the question."""
        await asyncio.shield(self.begin(key, ask))

    def begin(
        self, key: Hashable, ask: Callable[[], Coroutine[Any, Any, None]]
    ) -> asyncio.Task[None]:
        task = self._tasks.get(key)
        if task is None:
            task = self._tasks[key] = asyncio.ensure_future(ask())
            task.add_done_callback(lambda done: self._ended(key, done))
        return task

    async def close(self) -> None:
        """Ends the questions that are open."""
        tasks = tuple(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, key: Hashable, task: asyncio.Task[None]) -> None:
        del self._tasks[key]
        if not task.cancelled():
            task.exception()  # callers that still wait get it; without any it is dropped
