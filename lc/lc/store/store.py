"""The store as the rest of LC sees it: objects, reports that wait for GM, what is learnt.

Guarantees: whatever is awaited here is on disk when it returns, and until then no reader sees it;
changes take effect in the order in which they were asked for, as many in one transaction as wait.
Where the disk does not take them, each raises `StoreUnavailable` and nothing has changed. Who stops
waiting does not undo what it asked for.
"""

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Collection, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

from edge_sidecars.runtime.log import fields, logger
from edge_sidecars.sedna_api.core.api_object import Document, ObjectKey
from edge_sidecars.sedna_api.core.report import Report, check_body
from edge_sidecars.walstore.database import Damaged
from edge_sidecars.walstore.disk_thread import DiskThread
from edge_sidecars.walstore.files import DirectoryInUse
from lc.core import outbox
from lc.core.unknown_jobs import UnknownJobs
from lc.store.contents import LEFT_AT, StoreContents
from lc.store.database import StoreDatabase
from lc.store.failures import NewerSchema, StoreUnavailable
from lc.store.tables import StoredRefusal
from lc.store.transaction import Change, Transaction
from lc.store.writer import StoreListener, StoreWriter

LEARNING = "learning"
POSITION = "position"


class Store:
    """`note`: what was set aside at the start, and why; "" for nothing."""

    def __init__(self, contents: StoreContents, writer: StoreWriter, *, note: str) -> None:
        self.note = note
        self._contents = contents
        self._writer = writer

    # ── what is known ──

    @property
    def failure(self) -> str:
        """Why the disk did not take the last changes; "" when it did."""
        return self._writer.failure

    @property
    def failures(self) -> int:
        """How many groups of changes it ever refused."""
        return self._writer.failures

    @property
    def store_id(self) -> str:
        """Changes only when the database is lost."""
        return self._contents.store_id

    def objects(self, kind: str) -> tuple[Document, ...]:
        """Those of one kind, singular."""
        return tuple(self._contents.objects.get(kind, {}).values())

    def kinds(self) -> tuple[str, ...]:
        """Of which there is an object."""
        return tuple(kind for kind, objects in sorted(self._contents.objects.items()) if objects)

    def namespaces(self) -> set[str]:
        """In which there is an object."""
        objects = self._contents.objects
        return {key.namespace for found in objects.values() for key in found}

    def get(self, key: ObjectKey) -> Document | None:
        return self._contents.get(key)

    def known(self) -> dict[str, int]:
        """By kind: the highest resourceVersion that was here, or at which an object left."""
        contents = self._contents
        kinds = {kind for space, kind in contents.notes if space == LEFT_AT}
        known = {kind: contents.left_at(kind) for kind in kinds}
        for kind, objects in contents.objects.items():
            for each in objects.values():
                known[kind] = max(known.get(kind, 0), each.resource_version)
        return known

    def pending(self) -> Iterator[Report]:
        """What waits for GM, in order for each object."""
        for queue in tuple(self._contents.queues.values()):
            yield from outbox.in_line(queue)

    def pending_of(self, uid: str) -> tuple[Report, ...]:
        """What waits of one object, in order."""
        queue = self._contents.queues.get(uid)
        return () if queue is None else tuple(outbox.in_line(queue))

    def backlog(self) -> tuple[int, float | None]:
        """How many reports wait, and since when the oldest does, in seconds of the wall clock."""
        ages = [
            each.queued_at for queue in self._contents.queues.values() for each in queue.waiting
        ]
        return len(ages), min(ages, default=None)

    def refusals(self) -> tuple[int, tuple[StoredRefusal, ...]]:
        """How many reports GM ever refused, and the newest of them."""
        return self._contents.refusals_ever, tuple(self._contents.refusals)

    def learning_state(self, uid: str) -> bytes | None:
        """Stays for 24 hours after its object has left."""
        return self._contents.notes.get((LEARNING, uid))

    def position(self, uid: str) -> bytes | None:
        """How far the dataset of this uid was counted."""
        return self._contents.notes.get((POSITION, uid))

    @property
    def unknown_jobs(self) -> UnknownJobs:
        """Reports of workers about jobs that were not known then."""
        return self._contents.unknown_jobs

    def subscribe(self, listener: StoreListener) -> None:
        self._writer.listeners.append(listener)

    def unsubscribe(self, listener: StoreListener) -> None:
        self._writer.listeners.remove(listener)

    # ── what changes it; each is asked for when called and durable when awaited ──

    def put(self, document: Document) -> Awaitable[Change]:
        """Takes it as it is: whether it is late, the caller knows (G4)."""
        return self._writer.ask(lambda it: it.put(document))

    def delete(self, key: ObjectKey, uid: str, *, version: int = 0) -> Awaitable[bool]:
        """False where no such object of that uid is here. `version`: at which it left, if known."""
        return self._writer.ask(lambda it: it.delete(key, uid, version=version))

    def keep_only(
        self,
        kept: Collection[tuple[ObjectKey, str]],
        *,
        kinds: Collection[str] | None = None,
        is_rewound: bool = False,
    ) -> Awaitable[int]:
        """Drops whatever else is here, of these kinds only; returns how many went. `is_rewound`:
        the versions at which objects left are of a history that is no more."""
        return self._writer.ask(lambda it: it.keep_only(kept, kinds, is_rewound=is_rewound))

    def replace_all(self, kind: str, documents: Collection[Document]) -> Awaitable[int]:
        """Exactly these are there of a kind, in one transaction; returns how many went."""

        def work(transaction: Transaction) -> int:
            for document in documents:
                transaction.put(document)
            return transaction.keep_only({(each.key, each.uid) for each in documents}, {kind})

        return self._writer.ask(work)

    def enqueue(
        self,
        document: Document,
        *,
        is_event: bool,
        worker: str,
        body: bytes,
        is_repeated: bool = False,
    ) -> Awaitable[Report]:
        """The report as it is in the outbox; the same words again are the same report.

        `is_repeated`: these are sent once more on purpose, because GM took them without effect.
        `body` is a JSON object. Raises `OutboxFull`; at once `Malformed` for an impossible body.
        """
        said = _said(document, is_event=is_event, worker=worker, body=body)
        return self._writer.ask(lambda it: it.enqueue(said, is_repeated=is_repeated), uid=said.uid)

    def save_learning_state(
        self,
        document: Document,
        state: bytes,
        *,
        worker: str = "",
        report: bytes | None = None,
    ) -> Awaitable[Report | None]:
        """What was learnt, and the event that tells of it, both or neither."""
        return self._save(LEARNING, document, state, report, worker=worker)

    def save_position(
        self, document: Document, position: bytes, *, report: bytes | None = None
    ) -> Awaitable[Report | None]:
        """How far a dataset was counted, and the report that tells of it, both or neither."""
        return self._save(POSITION, document, position, report)

    def keep(self, key: ObjectKey, worker: str, body: bytes) -> Awaitable[int | None]:
        """Of a job that is not known: how many older ones had to go; None where the job was given
        up, and nothing is kept of it."""
        return self._writer.ask(lambda it: it.keep(key, worker, body))

    def passed_on(self, number: int) -> Awaitable[None]:
        """What was kept under this number is the business of its job's manager now."""
        return self._writer.ask(lambda it: it.passed_on(number))

    def age_unknown_jobs(self, elapsed: float) -> Awaitable[int]:
        """So many seconds have passed; how many reports were given up with their jobs."""
        return self._writer.ask(lambda it: it.age_unknown_jobs(elapsed))

    def acked(self, uid: str, seq: int) -> Awaitable[int]:
        """This report and those before it are safe elsewhere; returns how many waited here."""
        return self._writer.ask(lambda it: it.acked(uid, seq), uid=uid)

    def refused(self, uid: str, seq: int, reason: str) -> Awaitable[int]:
        """GM never takes this report: it is dropped, counted and shown."""
        return self._writer.ask(lambda it: it.refused(uid, seq, reason), uid=uid)

    def renew(self, reason: str) -> Awaitable[None]:
        """Another store id, because this one was retired elsewhere; what waits goes on under it."""
        store_id = str(uuid.uuid4())
        logger.warning("taking another store id", extra=fields(why=reason, store=store_id))
        return self._writer.ask(lambda it: it.renew(store_id))

    def _save(
        self,
        space: str,
        document: Document,
        value: bytes,
        report: bytes | None,
        *,
        worker: str = "",
    ) -> Awaitable[Report | None]:
        uid, said, is_learnt = document.uid, None, space == LEARNING
        if report is not None:
            said = _said(document, is_event=is_learnt, worker=worker, body=report)

        def work(transaction: Transaction) -> Report | None:
            # First what may be refused.
            enqueued = None if said is None else transaction.enqueue(said)
            transaction.note(space, uid, value, is_synced=is_learnt)
            return enqueued

        return self._writer.ask(work, uid=uid)


@asynccontextmanager
async def open_store(directory: Path) -> AsyncIterator[Store]:
    """Works while it is entered; what was asked for by the end is written.

    Raises `DirectoryInUse`, `NewerSchema` and `StoreUnavailable`; `Damaged` later, in a group.
    """
    thread = DiskThread(
        "lc-store",
        failures=(Damaged, DirectoryInUse, NewerSchema, StoreUnavailable),
        ended=Damaged("the store's thread has ended"),
    )
    try:
        database = await thread.run(lambda: StoreDatabase(directory))
        try:
            contents = await thread.run(database.read)
            writer = StoreWriter(database, thread, contents)
            async with asyncio.TaskGroup() as group:
                group.create_task(writer.run())
                try:
                    yield Store(contents, writer, note=database.note)
                finally:
                    writer.stop()
        finally:
            await thread.run(database.close)
    finally:
        thread.end()


def _said(document: Document, *, is_event: bool, worker: str, body: bytes) -> Report:
    check_body(body)
    return Report("", 0, document.uid, *document.key, is_event, worker, body)
