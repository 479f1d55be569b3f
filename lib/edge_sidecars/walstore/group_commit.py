"""Entries that wait for the disk go to it together, in one transaction.

Guarantees: entries are written in the order in which they were added, each once; `written` is
called on the event loop in that order too.
"""

import asyncio
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from edge_sidecars.walstore.disk_thread import DiskThread

P = TypeVar("P")
R = TypeVar("R")


@dataclass(eq=False, slots=True)
class Commit(Generic[P]):
    """`done`: what its caller awaits; None where it does not wait."""

    payload: P
    done: asyncio.Future[None] | None

    def settle(self, error: Exception | None = None) -> None:
        if self.done is None or self.done.done():
            return
        if error is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(error)


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
