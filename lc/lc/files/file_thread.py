"""Work on files that a disk may hang, in a thread of its own.

Guarantees: a thread that hangs keeps neither others nor the end of the process waiting (threads of
a pool are waited for when it ends); who waits for one is told once it got on by nothing for as long
as its patience lasts, and the thread is left behind.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from edge_sidecars.runtime.clock import boottime

T = TypeVar("T")

# Seconds between two looks at whether a thread gets on.
LOOK_INTERVAL = 5.0


class Hanging(Exception):
    """The disk has not answered for so many seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the disk has not answered for {seconds:g}s: see whether it is mounted")


@dataclass(slots=True)
class Progress:
    """Of a thread. `steps`: grows while it gets on; `is_left`: nobody waits for it any more;
    `is_over`: it has ended, or was never begun."""

    steps: int = 0
    is_left: bool = False
    is_over: bool = True


async def in_file_thread(work: Callable[[], T], progress: Progress, *, patience: float) -> T:
    """Returns or raises what the work does. Raises `Hanging`. `patience`: seconds without a
    step."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, failure: Exception | None) -> None:
        if answer.done():
            return
        if failure is not None:
            answer.set_exception(failure)
        else:
            answer.set_result(result)  # type: ignore[arg-type] # None only where T has it

    def run() -> None:
        result, failure = None, None
        try:
            result = work()
        except Exception as error:  # noqa: BLE001 - passed on to whoever waits
            failure = error
        finally:
            progress.is_over = True
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(settle, result, failure)

    progress.is_over = False
    threading.Thread(target=run, name="lc-files", daemon=True).start()
    try:
        return await _patiently(answer, progress, patience)
    finally:
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
