"""The one thread that touches a database, whatever the disk does meanwhile.

Guarantees: works are done one at a time, in the order in which they were put; the event loop never
waits; a disk that hangs does not keep the process from ending.
"""

import asyncio
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")

Work = Callable[[], object]

# Seconds without work, after which there is time for idle work.
IDLE = 0.1


class DiskThread:
    """`failures`: errors of a disk, which the caller that waits for the work gets. Any other error
    ends the thread, with a traceback; all that wait then get `ended`."""

    def __init__(
        self,
        name: str,
        *,
        failures: tuple[type[Exception], ...],
        ended: Exception,
        idle_work: Callable[[], Work | None] | None = None,
    ) -> None:
        """`idle_work`: asked on the thread for what to do when nothing else is."""
        self.on_death: list[Callable[[], None]] = []
        self.ended = ended
        # Known on the event loop, so that each work is either answered by `_died` or not put.
        self._is_dead = False
        self._failures = failures
        self._idle_work = idle_work
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[Work | None] = SimpleQueue()
        self._answers: set[asyncio.Future[Any]] = set()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def put(self, work: Work) -> None:
        """Without waiting; `work` must not raise. Raises `ended`."""
        if self._is_dead:
            raise self.ended
        self._queue.put(work)

    async def run(self, work: Callable[[], T]) -> T:
        """Its result, or what it raised. A caller that is cancelled does not stop the work."""
        answer: asyncio.Future[T] = self._loop.create_future()

        def attempt() -> None:
            try:
                result = work()
            except self._failures as error:
                self.post(settle, answer, error)
            else:
                self.post(_answer, answer, result)

        self.put(attempt)
        self._answers.add(answer)
        try:
            return await answer
        finally:
            self._answers.discard(answer)

    def post(self, callback: Callable[..., object], *arguments: object) -> None:
        """Calls it on the event loop."""
        try:
            self._loop.call_soon_threadsafe(callback, *arguments)
        except RuntimeError:
            # The loop was closed without waiting for the disk.
            return

    def end(self) -> None:
        """After all that was put before."""
        self._queue.put(None)

    def join(self) -> None:
        self._thread.join()

    def _run(self) -> None:
        is_ended = False
        try:
            while (work := self._take()) is not None:
                work()
            is_ended = True
        finally:
            if not is_ended:
                self.post(self._died)

    def _take(self) -> Work | None:
        while self._idle_work is not None and (work := self._idle_work()) is not None:
            try:
                return self._queue.get(timeout=IDLE)
            except Empty:
                work()
        return self._queue.get()

    def _died(self) -> None:
        self._is_dead = True
        for answer in tuple(self._answers):
            settle(answer, self.ended)
        for callback in self.on_death:
            callback()


def settle(future: asyncio.Future[T], error: Exception) -> None:
    """Unless the caller has stopped waiting."""
    if not future.done():
        future.set_exception(error)


def _answer(future: asyncio.Future[T], result: T) -> None:
    if not future.done():
        future.set_result(result)
