"""Tasks of one TaskGroup that are begun one by one and ended together."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

# Runs a coroutine whose failure ends the process.
Spawn = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]


class Tasks:
    """`group`: in which they run, and whose other tasks are left alone."""

    def __init__(self, group: asyncio.TaskGroup) -> None:
        self._group = group
        self._running: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._group.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    def cancel(self) -> None:
        """All that still run."""
        for task in tuple(self._running):
            task.cancel()
