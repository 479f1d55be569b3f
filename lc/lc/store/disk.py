"""The one thread that touches the database, whatever the disk does meanwhile.

Guarantees: works are done one at a time, in order; the event loop never waits; a disk that hangs
does not keep the process from ending.
"""

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import TypeVar

from lc.store.failures import Damaged, DirectoryInUse, NewerSchema, StoreUnavailable

T = TypeVar("T")

# What a disk may do to whoever uses it; told to whoever waits.
_FAILURES = (Damaged, DirectoryInUse, NewerSchema, StoreUnavailable)


class Disk:
    def __init__(self) -> None:
        self._queue: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        threading.Thread(target=self._work, name="lc-store", daemon=True).start()

    async def run(self, work: Callable[[], T]) -> T:
        """Its result, or what it raised. Who stops waiting does not stop the work."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def told(result: T | None, error: Exception | None) -> None:
            if future.cancelled():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)  # type: ignore[arg-type]

        def attempt() -> None:
            result = None
            # Of what nobody foresaw the thread dies, with a traceback.
            failure: Exception | None = Damaged("the store's thread has ended")
            try:
                result, failure = work(), None
            except _FAILURES as error:
                failure = error
            finally:
                # A loop that is closed has nobody who waits.
                if not loop.is_closed():
                    loop.call_soon_threadsafe(told, result, failure)

        self._queue.put(attempt)
        return await future

    def end(self) -> None:
        """After all that was asked before."""
        self._queue.put(None)

    def _work(self) -> None:
        while (work := self._queue.get()) is not None:
            work()
