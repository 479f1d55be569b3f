"""Work on files that a disk may hang, in a thread of its own.

Guarantees: a thread that hangs keeps neither others nor the end of the process waiting; its caller
gets `Hanging` once the work has made no step for as long as the caller's patience lasts, and the
thread is left behind.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.daemon_thread import begin_in_daemon_thread

T = TypeVar("T")

# Seconds between two looks at whether a thread gets on.
LOOK_INTERVAL = 5.0


class Hanging(Exception):
    """The disk has not answered for so many seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the disk has not answered for {seconds:g}s: see whether it is mounted")


@dataclass(slots=True)
class Progress:
    """Of a thread. `steps`: grows while it works; `is_left`: its caller has given it up; `is_over`:
    it has ended, or was never begun."""

    steps: int = 0
    is_left: bool = False
    is_over: bool = True


async def in_file_thread(work: Callable[[], T], progress: Progress, *, patience: float) -> T:
    """Returns or raises what the work does. Raises `Hanging`. `patience`: seconds without a
    step."""

    def run() -> T:
        try:
            return work()
        finally:
            progress.is_over = True

    progress.is_over = False
    answer = begin_in_daemon_thread(run)
    try:
        return await _patiently(answer, progress, patience)
    finally:
        answer.cancel()
        progress.is_left = True


async def _patiently(answer: "asyncio.Future[T]", progress: Progress, patience: float) -> T:
    steps, moved_at = progress.steps, boottime()
    while True:
        await asyncio.wait({answer}, timeout=min(LOOK_INTERVAL, patience))
        if answer.done():
            return answer.result()
        if progress.steps != steps:
            steps, moved_at = progress.steps, boottime()
        elif boottime() - moved_at >= patience:
            raise Hanging(patience)
