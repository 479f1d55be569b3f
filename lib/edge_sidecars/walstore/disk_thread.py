"""The one thread that touches a database, whatever the disk does meanwhile.

Guarantees: works are done one at a time, in the order in which they were put; the event loop never
waits; a disk that hangs does not keep the process from ending. Entries that wait for the disk go
to it together, in one transaction: in the order in which they were added, each once; `written` is
called on the event loop in that order too.
"""

import asyncio
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

T = TypeVar("T")
P = TypeVar("P")
R = TypeVar("R")

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
                self.post(_settle, answer, None, error)
            else:
                self.post(_settle, answer, result)

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
            _settle(answer, None, self.ended)
        for callback in self.on_death:
            callback()


@dataclass(eq=False, slots=True)
class Commit(Generic[P]):
    """`done`: what its caller awaits; None where it does not wait."""

    payload: P
    done: asyncio.Future[None] | None

    def settle(self, error: Exception | None = None) -> None:
        if self.done is not None:
            _settle(self.done, None, error)


class GroupCommit(Generic[P, R]):
    """`pending`: entries that are not `written` yet, whose owner settles them."""

    def __init__(
        self,
        thread: DiskThread,
        write: Callable[[Sequence[Commit[P]]], R],
        written: Callable[[Sequence[Commit[P]], R], None],
        *,
        limit: int = sys.maxsize,
    ) -> None:
        """`write` is called on the thread with at most `limit` entries; `written` gets them and
        what it returned."""
        self.pending: set[Commit[P]] = set()
        self._thread = thread
        self._write = write
        self._written = written
        self._limit = limit
        self._lock = threading.Lock()
        # Those that the thread has not begun with, for which it was asked already.
        self._group: list[Commit[P]] = []
        thread.on_death.append(self._died)

    def add(self, entry: Commit[P]) -> None:
        with self._lock:
            is_begun = 0 < len(self._group) < self._limit
            if not is_begun:
                self._group = []
            group = self._group
            group.append(entry)
        self.pending.add(entry)
        if not is_begun:
            self._thread.put(lambda: self._flush(group))

    def add_alone(self, entry: Commit[P], work: Callable[[], R]) -> None:
        """`work` instead of `write`: after the entries that were added, before all others."""
        with self._lock:
            self._group = []
        self.pending.add(entry)
        self._thread.put(lambda: self._finish([entry], work()))

    def _flush(self, group: Sequence[Commit[P]]) -> None:
        with self._lock:
            if self._group is group:
                self._group = []
        self._finish(group, self._write(group))

    def _finish(self, group: Sequence[Commit[P]], result: R) -> None:
        self._thread.post(self._heard, group, result)

    def _heard(self, group: Sequence[Commit[P]], result: R) -> None:
        self.pending.difference_update(group)
        self._written(group, result)

    def _died(self) -> None:
        for entry in self.pending:
            entry.settle(self._thread.ended)


def _settle(future: asyncio.Future[T], result: T, error: Exception | None = None) -> None:
    """Unless the caller has stopped waiting."""
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
