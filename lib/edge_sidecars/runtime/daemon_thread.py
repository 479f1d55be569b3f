"""Work that a disk may hang, in a thread for which nothing waits.

`asyncio.to_thread` uses a pool whose threads are waited for when the process ends: one that hangs
in the disk keeps a terminated process until SIGKILL.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


async def in_daemon_thread(work: Callable[[], T]) -> T:
    """What it returns, or what it raises."""
    return await begin_in_daemon_thread(work)


def begin_in_daemon_thread(work: Callable[[], T]) -> "asyncio.Future[T]":
    """The same, of work that has begun when this returns: it goes on also where the future is
    cancelled."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: Exception | None) -> None:
        if answer.done():
            return
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(result)  # type: ignore[arg-type] # None only where T has it

    def run() -> None:
        result, failure = None, None
        try:
            result = work()
        except Exception as error:  # noqa: BLE001 - passed on to the caller
            failure = error
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(settle, result, failure)

    threading.Thread(target=run, name="beside", daemon=True).start()
    return answer
