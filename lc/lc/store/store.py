"""The store as the rest of LC sees it: objects, reports that wait for GM, what is learnt.

Guarantees: whatever is awaited here is on disk when it returns, and until then nobody sees it;
changes take effect in the order in which they were asked for, as many in one transaction as wait.
Where the disk does not take them, each raises `StoreUnavailable` and nothing has changed. Who stops
waiting does not undo what it asked for.
"""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from lc.core import outbox
from lc.core.holding import Change
from lc.core.outbox import Said
from lc.log import fields, logger
from lc.store.database import Database
from lc.store.disk import Disk
from lc.store.failures import OutboxFull, StoreUnavailable
from lc.store.memory import Draft, Memory, Told
from lc.store.tables import Refusal
from sedna_api.core.document import Document, ObjectKey
from sedna_api.core.report import Report, check_body
from sidecar.clock import boottime

# Seconds for which what was learnt of an object outlives it (G4): it may only have left the node.
NOTES_KEPT = 24 * 3600.0
# Seconds between two looks for what is older.
AGEING_INTERVAL = 600.0
# So much is asked for at a time at most, so that no group keeps others waiting for long.
MAX_GROUP = 500

LEARNING = "learning"
POSITION = "position"

T = TypeVar("T")


class Listener(Protocol):
    """Told when it is durable, in order; returns soon, awaits nothing."""

    def object_changed(self, document: Document, change: Change) -> None: ...
    def object_gone(self, document: Document) -> None: ...
    def report_enqueued(self, report: Report) -> None: ...


@dataclass(frozen=True, slots=True)
class _Entry:
    """`uid`: whose queue it needs, "" for none. `answer` is given what `work` returned."""

    work: Callable[[Draft], Any]
    answer: asyncio.Future[Any]
    uid: str = ""


class Store:
    """`note`: what was set aside at the start, and why; "" for nothing."""

    def __init__(self, database: Database, disk: Disk, memory: Memory) -> None:
        self.note = database.note
        # Why the disk did not take the last changes; "" when it did.
        self.failure = ""
        self.failures = 0
        self._database = database
        self._disk = disk
        self._memory = memory
        self._entries: list[_Entry] = []
        self._wanted = asyncio.Event()
        self._listeners: list[Listener] = []
        self._is_stopping = False

    # ── what is known ──

    @property
    def store_id(self) -> str:
        """Changes only when the database is lost."""
        return self._memory.store_id

    def objects(self, kind: str) -> tuple[Document, ...]:
        """Those of one kind, singular."""
        return tuple(self._memory.objects.get(kind, {}).values())

    def kinds(self) -> tuple[str, ...]:
        """Of which there is an object."""
        return tuple(kind for kind, objects in sorted(self._memory.objects.items()) if objects)

    def get(self, key: ObjectKey) -> Document | None:
        return self._memory.get(key)

    def known(self) -> dict[str, int]:
        """By kind: the highest resourceVersion that is here."""
        return {
            kind: max(each.resource_version for each in objects.values())
            for kind, objects in self._memory.objects.items()
            if objects
        }

    def pending(self) -> Iterator[Report]:
        """What waits for GM, in order for each object."""
        for queue in tuple(self._memory.queues.values()):
            yield from outbox.in_line(queue)

    def pending_of(self, uid: str) -> tuple[Report, ...]:
        """What waits of one object, in order."""
        queue = self._memory.queues.get(uid)
        return () if queue is None else tuple(outbox.in_line(queue))

    def backlog(self) -> tuple[int, float | None]:
        """How many reports wait, and since when the oldest does, in seconds of the wall clock."""
        ages = [each.queued_at for queue in self._memory.queues.values() for each in queue.waiting]
        return len(ages), min(ages, default=None)

    def refusals(self) -> tuple[int, tuple[Refusal, ...]]:
        """How many reports GM ever refused, and the newest of them."""
        return self._memory.refusals_ever, tuple(self._memory.refusals)

    def learning_state(self, uid: str) -> bytes | None:
        """Stays for 24 hours after its object has left."""
        return self._memory.notes.get((LEARNING, uid))

    def position(self, uid: str) -> bytes | None:
        """How far the dataset of this uid was counted."""
        return self._memory.notes.get((POSITION, uid))

    def subscribe(self, listener: Listener) -> None:
        self._listeners.append(listener)

    def unsubscribe(self, listener: Listener) -> None:
        self._listeners.remove(listener)

    # ── what changes it; each is asked for when called and durable when awaited ──

    def put(self, document: Document) -> Awaitable[Change]:
        """Takes it as it is: whether it is late, the caller knows (G4)."""
        return self._ask(lambda draft: draft.put(document))

    def delete(self, key: ObjectKey, uid: str) -> Awaitable[bool]:
        """False where no such object of that uid is here."""
        return self._ask(lambda draft: draft.delete(key, uid))

    def keep_only(
        self,
        kept: Collection[tuple[ObjectKey, str]],
        *,
        kinds: Collection[str] | None = None,
    ) -> Awaitable[int]:
        """Drops whatever else is here, of these kinds only; returns how many went."""
        return self._ask(lambda draft: draft.keep_only(kept, kinds))

    def become(self, kind: str, documents: Collection[Document]) -> Awaitable[int]:
        """Exactly these are there of a kind, in one transaction; returns how many went."""

        def work(draft: Draft) -> int:
            for document in documents:
                draft.put(document)
            return draft.keep_only({(each.key, each.uid) for each in documents}, {kind})

        return self._ask(work)

    def enqueue(
        self, document: Document, *, is_event: bool, worker: str, body: bytes
    ) -> Awaitable[Report]:
        """The report as it stands in the outbox; the same words again are the same report.

        `body` is a JSON object. Raises `OutboxFull`; at once `Malformed` for an impossible body.
        """
        said = _said(document, is_event=is_event, worker=worker, body=body)
        return self._ask(lambda draft: draft.enqueue(document.uid, said), uid=document.uid)

    def save_learning_state(
        self,
        document: Document,
        state: bytes,
        *,
        is_event: bool = False,
        worker: str = "",
        report: bytes | None = None,
    ) -> Awaitable[Report | None]:
        """What was learnt, and the report that tells of it, both or neither."""
        return self._save(
            LEARNING, document, state, is_event=is_event, worker=worker, report=report
        )

    def save_position(
        self, document: Document, position: bytes, *, report: bytes | None = None
    ) -> Awaitable[Report | None]:
        """How far a dataset was counted, and the report that tells of it, both or neither."""
        return self._save(POSITION, document, position, is_event=False, worker="", report=report)

    def acked(self, uid: str, seq: int) -> Awaitable[int]:
        """This report and those before it are safe elsewhere; returns how many waited here."""
        return self._ask(lambda draft: draft.acked(uid, seq), uid=uid)

    def refused(self, uid: str, seq: int, reason: str) -> Awaitable[int]:
        """This report will never be taken: it is dropped, counted and shown."""
        return self._ask(lambda draft: draft.refused(uid, seq, reason), uid=uid)

    def renew(self, reason: str) -> Awaitable[None]:
        """Another store id, because this one was retired elsewhere; what waits goes on under it."""
        store_id = str(uuid.uuid4())
        logger.warning("taking another store id", extra=fields(why=reason, store=store_id))
        return self._ask(lambda draft: draft.renew(store_id))

    # ── the work ──

    async def run(self) -> None:
        """Until `stop`, and then what is left. Raises `Damaged`."""
        aged_at = boottime()
        while not self._is_stopping or self._entries:
            async with _patience(AGEING_INTERVAL):
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
            draft = Draft(self._memory, now=time.time())
            answers = [_answer(entry, draft) for entry in entries]
            await self._write(draft)
        except StoreUnavailable as error:
            self._failed(entries, error)
            return
        draft.apply()
        self._forget_queues(entries)
        for told in draft.told:
            self._tell(told)
        for entry, answer in zip(entries, answers, strict=True):
            if entry.answer.done():
                continue
            if isinstance(answer, StoreUnavailable):
                entry.answer.set_exception(answer)
            else:
                entry.answer.set_result(answer)

    async def _write(self, draft: Draft) -> None:
        if not draft.statements:
            return
        database, statements, is_synced = self._database, draft.statements, draft.is_synced
        await self._disk.run(lambda: database.write(statements, is_synced=is_synced))
        if self.failure:
            logger.info("the disk takes changes again")
            self.failure = ""

    def _tell(self, told: Told) -> None:
        for listener in tuple(self._listeners):
            if told.gone is not None:
                listener.object_gone(told.gone)
            if told.document is not None and told.change is not None:
                listener.object_changed(told.document, told.change)
            if told.report is not None:
                listener.report_enqueued(told.report)

    def _failed(self, entries: Collection[_Entry], error: StoreUnavailable) -> None:
        if not self.failure:
            logger.warning("the disk takes no changes", extra=fields(error=error))
        self.failure = str(error)
        self.failures += 1
        for entry in entries:
            if not entry.answer.done():
                entry.answer.set_exception(error)

    async def _load_queues(self, uids: Collection[str]) -> None:
        """Of objects that are not here; their numbers go on."""
        missing = [uid for uid in uids if uid not in self._memory.queues]
        if missing:
            database, store_id = self._database, self.store_id
            found = await self._disk.run(lambda: database.read_queues(missing, store_id=store_id))
            self._memory.queues.update(found)

    def _forget_queues(self, entries: Collection[_Entry]) -> None:
        """Of objects that are not here, and for which nothing waits: they are on disk."""
        memory = self._memory
        for entry in entries:
            queue = memory.queues.get(entry.uid)
            if queue is not None and not queue.waiting and entry.uid not in memory.uids:
                del memory.queues[entry.uid]

    async def _age(self, elapsed: float) -> None:
        """The wall clock of an edge node may jump by years: time is what passes while LC runs."""
        database = self._database
        try:
            gone = await self._disk.run(lambda: database.expire_notes(elapsed, limit=NOTES_KEPT))
        except StoreUnavailable as error:
            self._failed((), error)
            return
        for key in gone:
            self._memory.notes.pop(key, None)

    def _save(
        self,
        space: str,
        document: Document,
        value: bytes,
        *,
        is_event: bool,
        worker: str,
        report: bytes | None,
    ) -> Awaitable[Report | None]:
        uid = document.uid
        said = (
            None
            if report is None
            else _said(document, is_event=is_event, worker=worker, body=report)
        )

        def work(draft: Draft) -> Report | None:
            # First what may be refused.
            enqueued = None if said is None else draft.enqueue(uid, said)
            draft.note(space, uid, value, is_synced=space == LEARNING)
            return enqueued

        return self._ask(work, uid=uid)

    def _ask(self, work: Callable[[Draft], T], *, uid: str = "") -> Awaitable[T]:
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        # Whoever asked may have left: then nobody wants to know.
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._entries.append(_Entry(work, answer, uid))
        self._wanted.set()
        return answer


@asynccontextmanager
async def open_store(directory: Path) -> AsyncIterator[Store]:
    """Works while it is entered; what was asked for by the end is written.

    Raises `DirectoryInUse`, `NewerSchema` and `StoreUnavailable`; `Damaged` later, in a group.
    """
    disk = Disk()
    try:
        database = await disk.run(lambda: Database(directory))
        try:
            store = Store(database, disk, Memory.loaded(await disk.run(database.read)))
            async with asyncio.TaskGroup() as group:
                group.create_task(store.run())
                try:
                    yield store
                finally:
                    store.stop()
        finally:
            await disk.run(database.close)
    finally:
        disk.end()


def _answer(entry: _Entry, draft: Draft) -> object:
    """What its work returned, or why it was refused."""
    try:
        return entry.work(draft)
    except OutboxFull as refusal:
        return refusal


def _said(document: Document, *, is_event: bool, worker: str, body: bytes) -> Said:
    check_body(body)
    return Said(document.kind, document.namespace, document.name, is_event, worker, body)


@asynccontextmanager
async def _patience(seconds: float) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        return
