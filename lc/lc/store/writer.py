"""The asyncio side of writing: what is asked for goes to disk in groups, in order.

Guarantees: Memory, listeners and callers learn of a change when it is on disk. One group is on its
way at a time, so that memory and disk never differ but by it. Of a group that the disk did not take
nothing has happened.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from functools import partial
from typing import Any, Protocol, TypeVar

import msgspec

from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.log import fields, logger
from edge_sidecars.sedna_api.core.api_object import Document
from edge_sidecars.sedna_api.core.report import Report
from edge_sidecars.walstore.disk_thread import DiskThread
from lc.store.contents import StoreContents
from lc.store.database import StoreDatabase
from lc.store.failures import OutboxFull, StoreUnavailable
from lc.store.transaction import Change, Notification, Transaction

# Seconds for which what was learnt of an object outlives it (G4): it may only have left the node.
NOTES_KEPT = 24 * 3600.0
# Seconds between two looks for what is older.
AGEING_INTERVAL = 600.0
# So much is asked for at a time at most, so that no group keeps others waiting for long.
MAX_GROUP = 500

T = TypeVar("T")


class StoreListener(Protocol):
    """Called when a change is durable, in order; returns soon, awaits nothing."""

    def object_changed(self, document: Document, change: Change) -> None: ...
    def object_gone(self, document: Document) -> None: ...
    def report_enqueued(self, report: Report) -> None: ...


class _WriteEntry(msgspec.Struct, frozen=True):
    """`uid`: whose queue it needs, "" for none. `answer` is given what `work` returned."""

    work: Callable[[Transaction], Any]
    answer: asyncio.Future[Any]
    uid: str = ""


class StoreWriter:
    """`failure`: why the disk did not take the last changes, "" when it did."""

    def __init__(
        self, database: StoreDatabase, thread: DiskThread, contents: StoreContents
    ) -> None:
        self.failure = ""
        self.failures = 0
        self.listeners: list[StoreListener] = []
        self._database = database
        self._thread = thread
        self._contents = contents
        self._entries: list[_WriteEntry] = []
        self._wanted = asyncio.Event()
        self._is_stopping = False

    def ask(self, work: Callable[[Transaction], T], *, uid: str = "") -> Awaitable[T]:
        """Its place in the order is taken now; `uid`: whose queue it needs."""
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        # A caller that was cancelled does not look at the error.
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._entries.append(_WriteEntry(work, answer, uid))
        self._wanted.set()
        return answer

    async def run(self) -> None:
        """Until `stop`, and then what is left. Raises `Damaged`."""
        aged_at = boottime()
        while not self._is_stopping or self._entries:
            with suppress(TimeoutError):
                async with asyncio.timeout(AGEING_INTERVAL):
                    await self._wanted.wait()
            if self._entries:
                await self._write_group()
            now = boottime()
            if now - aged_at >= AGEING_INTERVAL:
                await self._age(now - aged_at)
                aged_at = now

    def stop(self) -> None:
        """A group that is on its way is not broken off: somebody waits for the answer."""
        self._is_stopping = True
        self._wanted.set()

    async def _write_group(self) -> None:
        entries, self._entries = self._entries[:MAX_GROUP], self._entries[MAX_GROUP:]
        if not self._entries and not self._is_stopping:
            self._wanted.clear()
        try:
            await self._load_queues({entry.uid for entry in entries if entry.uid})
            transaction = Transaction(self._contents, now=time.time())
            answers = [_answer(entry, transaction) for entry in entries]
            await self._write(transaction)
        except StoreUnavailable as error:
            self._failed(entries, error)
            return
        transaction.apply()
        self._forget_queues(entries)
        for notification in transaction.notifications:
            self._notify(notification)
        for entry, answer in zip(entries, answers, strict=True):
            if entry.answer.done():
                continue
            if isinstance(answer, StoreUnavailable):
                entry.answer.set_exception(answer)
            else:
                entry.answer.set_result(answer)

    async def _write(self, transaction: Transaction) -> None:
        if not transaction.statements:
            return
        statements, is_synced = transaction.statements, transaction.is_synced
        await self._thread.run(partial(self._database.write, statements, is_synced=is_synced))
        if self.failure:
            logger.info("the disk takes changes again")
            self.failure = ""

    def _notify(self, it: Notification) -> None:
        for listener in tuple(self.listeners):
            if it.gone is not None:
                listener.object_gone(it.gone)
            if it.document is not None and it.change is not None:
                listener.object_changed(it.document, it.change)
            if it.report is not None:
                listener.report_enqueued(it.report)

    def _failed(self, entries: Collection[_WriteEntry], error: StoreUnavailable) -> None:
        if not self.failure:
            logger.warning("the disk takes no changes", extra=fields(error=error))
        self.failure = str(error)
        self.failures += 1
        for entry in entries:
            if not entry.answer.done():
                entry.answer.set_exception(error)

    async def _load_queues(self, uids: Collection[str]) -> None:
        """Of objects that are not here; their numbers go on."""
        missing = [uid for uid in uids if uid not in self._contents.queues]
        if missing:
            store_id = self._contents.store_id
            read = partial(self._database.read_queues, missing, store_id=store_id)
            self._contents.queues.update(await self._thread.run(read))

    def _forget_queues(self, entries: Collection[_WriteEntry]) -> None:
        """Of objects that are not here, and for which nothing waits: they are on disk."""
        contents = self._contents
        for entry in entries:
            queue = contents.queues.get(entry.uid)
            if queue is not None and not queue.waiting and entry.uid not in contents.uids:
                del contents.queues[entry.uid]

    async def _age(self, elapsed: float) -> None:
        """The wall clock of an edge node may jump by years: time is what passes while LC runs."""
        expire = partial(self._database.expire_notes, elapsed, limit=NOTES_KEPT)
        try:
            gone = await self._thread.run(expire)
        except StoreUnavailable as error:
            self._failed((), error)
            return
        for key in gone:
            self._contents.notes.pop(key, None)


def _answer(entry: _WriteEntry, transaction: Transaction) -> object:
    """What its work returned, or why it was refused."""
    try:
        return entry.work(transaction)
    except OutboxFull as refusal:
        return refusal
