"""What memory and the disk become by one group of changes.

Guarantees: `StoreContents` changes only by a transaction that is on disk; one that is thrown away
leaves nothing. Each change is judged against those before it in the same group. Pure.
"""

from collections.abc import Collection, Iterator
from enum import Enum

import msgspec

from edge_sidecars.sedna_api.core.api_object import Document, ObjectKey
from edge_sidecars.sedna_api.core.report import Report
from lc.core import outbox
from lc.core.outbox import Queue, Waiting
from lc.core.unknown_jobs import UnknownJobs
from lc.store import tables
from lc.store.contents import LEFT_AT, StoreContents
from lc.store.failures import OutboxFull

# Bytes of reports that wait; at a kilobyte each so many are hours of many workers' words.
MAX_OUTBOX = 16 * 1024 * 1024


class Change(Enum):
    """What an object that arrives is to what is held under its name.

    Versions are not compared: the receiver of objects knows whether a lower one is late (G4) or
    the API's history began anew.
    """

    NEW = "new"
    UPDATED = "updated"
    REPLACED = "replaced"  # another uid: the one that was there is gone
    SAME = "same"

    @classmethod
    def of(cls, held: Document | None, arrived: Document) -> "Change":
        if held is None:
            return cls.NEW
        if held.uid != arrived.uid:
            return cls.REPLACED
        return cls.SAME if held == arrived else cls.UPDATED


class Notification(msgspec.Struct, frozen=True):
    """What listeners hear when the transaction is on disk, in order."""

    document: Document | None = None
    gone: Document | None = None
    change: Change | None = None
    report: Report | None = None


class Transaction:
    """`is_synced`: whether it must survive a loss of power before listeners hear of it."""

    def __init__(self, contents: StoreContents, *, now: float) -> None:
        """`now`: seconds of the wall clock, which people are shown."""
        self.statements: list[tables.Statement] = []
        self.notifications: list[Notification] = []
        self.is_synced = False
        self._contents = contents
        self._store_id = contents.store_id
        self._now = now
        self._objects: dict[ObjectKey, Document | None] = {}
        # By uid: whether there is such an object now.
        self._uids: dict[str, bool] = {}
        self._queues: dict[str, Queue] = {}
        self._notes: dict[tuple[str, str], bytes] = {}
        self._refusals: list[tables.StoredRefusal] = []
        self._outbox_bytes = contents.outbox_bytes
        self._unknown_jobs = contents.unknown_jobs

    # ── objects ──

    def put(self, document: Document) -> Change:
        held = self._get(document.key)
        change = Change.of(held, document)
        if change is Change.SAME:
            return change
        if held is not None and change is Change.REPLACED:
            self._leave(held)
        if change is not Change.UPDATED:
            self.statements.append(tables.mark_present(document.uid))
        self.statements.append(tables.put_object(document))
        self._objects[document.key] = document
        self._uids[document.uid] = True
        self.notifications.append(Notification(document=document, change=change))
        self._replace_unknown_jobs(self._unknown_jobs.known(document.key))
        return change

    def delete(self, key: ObjectKey, uid: str, *, version: int = 0) -> bool:
        """Whether it was there; another one of that name stays."""
        held = self._get(key)
        if held is None or held.uid != uid:
            return False
        self.statements.append(tables.delete_object(key))
        self._objects[key] = None
        self._leave(held)
        before = int(self._notes.get((LEFT_AT, key.kind)) or self._contents.left_at(key.kind))
        self._put_left_at(key.kind, max(before, held.resource_version, version))
        return True

    def _put_left_at(self, kind: str, version: int) -> None:
        value = b"%d" % version
        self.statements.append(tables.put_note(LEFT_AT, kind, value, is_absent=False))
        self._notes[LEFT_AT, kind] = value

    def keep_only(
        self,
        kept: Collection[tuple[ObjectKey, str]],
        kinds: Collection[str] | None,
        *,
        is_rewound: bool = False,
    ) -> int:
        """How many are gone."""
        gone = [
            document
            for document in self._standing()
            if (kinds is None or document.kind in kinds)
            and (document.key, document.uid) not in kept
        ]
        for document in gone:
            self.delete(document.key, document.uid)
        if is_rewound:
            for space, kind in self._contents.notes.keys() | self._notes.keys():
                if space == LEFT_AT:
                    self._put_left_at(kind, 0)
        return len(gone)

    # ── reports ──

    def enqueue(self, report: Report, *, is_repeated: bool = False) -> Report:
        """Raises `OutboxFull`, and then has changed nothing."""
        uid = report.uid
        queue = self._queue(uid)
        done = outbox.enqueue(
            queue, report, store_id=self._store_id, now=self._now, is_repeated=is_repeated
        )
        if not done.is_new:
            return done.report
        grows = done.queue.size - queue.size
        if self._outbox_bytes + grows > MAX_OUTBOX:
            raise OutboxFull(f"{self._outbox_bytes} bytes of reports wait for GM: no more is taken")
        self._outbox_bytes += grows
        if done.superseded is not None:
            self.statements.append(tables.delete_report(uid, done.superseded))
        for worker in done.forgotten:
            self.statements.append(tables.delete_heard(uid, worker))
        word = done.queue.heard[report.worker]
        self.statements += (
            tables.put_report(done.queue.waiting[-1]),
            tables.put_queue(uid, done.queue.last),
            tables.put_heard(uid, report.worker, word),
        )
        self._queues[uid] = done.queue
        self.is_synced = True
        self.notifications.append(Notification(report=done.report))
        return done.report

    def acked(self, uid: str, seq: int) -> int:
        """How many waited."""
        queue, done = outbox.acknowledged(self._queue(uid), seq)
        self._drop(queue, done)
        return len(done)

    def refused(self, uid: str, seq: int, reason: str) -> int:
        queue, done = outbox.refused(self._queue(uid), seq)
        self._drop(queue, done)
        for waiting in done:
            it = waiting.report
            key = ObjectKey(it.kind, it.namespace, it.name)
            refusal = tables.StoredRefusal(key, uid, it.seq, reason, self._now)
            self.statements += tables.put_refusal(refusal)
            self._refusals.append(refusal)
        return len(done)

    def renew(self, store_id: str) -> None:
        """What waits goes on under another store id, with its numbers."""
        self.statements.append(tables.put_store_id(store_id))
        self._store_id = store_id
        for uid in self._contents.queues.keys() | self._queues.keys():
            self._queues[uid] = outbox.restamped(self._queue(uid), store_id)
        self.is_synced = True

    # ── jobs that are not known ──

    def keep(self, key: ObjectKey, worker: str, body: bytes) -> int | None:
        """How many older ones had to go; None: the job was given up, and nothing is kept."""
        before = self._unknown_jobs
        if before.is_given_up(key):
            return None
        after = before.taken(key, worker, body)
        self._replace_unknown_jobs(after)
        self.is_synced = True
        return len(before.reports.keys() - after.reports.keys())

    def passed_on(self, number: int) -> None:
        if number in self._unknown_jobs.reports:
            self._replace_unknown_jobs(self._unknown_jobs.without(number))

    def age_unknown_jobs(self, elapsed: float) -> int:
        """How many reports are given up with their jobs."""
        before = self._unknown_jobs
        after = before.aged(elapsed, lambda key: self._get(key) is not None)
        self._replace_unknown_jobs(after)
        return len(before.reports) - len(after.reports)

    def _replace_unknown_jobs(self, unknown_jobs: UnknownJobs) -> None:
        if unknown_jobs is not self._unknown_jobs:
            self.statements += tables.change_unknown_jobs(self._unknown_jobs, unknown_jobs)
            self._unknown_jobs = unknown_jobs

    # ── notes ──

    def note(self, space: str, uid: str, value: bytes, *, is_synced: bool) -> None:
        is_absent = not self._uids.get(uid, uid in self._contents.uids)
        self.statements.append(tables.put_note(space, uid, value, is_absent=is_absent))
        self._notes[space, uid] = value
        self.is_synced = self.is_synced or is_synced

    def apply(self) -> None:
        """It is on disk: memory becomes the same."""
        contents = self._contents
        contents.store_id = self._store_id
        for key, document in self._objects.items():
            if document is None:
                contents.objects.get(key.kind, {}).pop(key, None)
            else:
                contents.objects.setdefault(key.kind, {})[key] = document
        for uid, is_present in self._uids.items():
            (contents.uids.add if is_present else contents.uids.discard)(uid)
        contents.queues.update(self._queues)
        contents.notes.update(self._notes)
        contents.outbox_bytes = self._outbox_bytes
        contents.refusals = [*contents.refusals, *self._refusals][-tables.KEPT_REFUSALS :]
        contents.refusals_ever += len(self._refusals)
        contents.unknown_jobs = self._unknown_jobs

    def _get(self, key: ObjectKey) -> Document | None:
        return self._objects[key] if key in self._objects else self._contents.get(key)

    def _standing(self) -> Iterator[Document]:
        for objects in self._contents.objects.values():
            yield from (each for key, each in objects.items() if key not in self._objects)
        yield from (each for each in self._objects.values() if each is not None)

    def _leave(self, document: Document) -> None:
        self.statements.append(tables.mark_absent(document.uid))
        self._uids[document.uid] = False
        self.notifications.append(Notification(gone=document))

    def _queue(self, uid: str) -> Queue:
        return self._queues.get(uid) or self._contents.queues[uid]

    def _drop(self, queue: Queue, done: Collection[Waiting]) -> None:
        for waiting in done:
            self.statements.append(tables.delete_report(queue.uid, waiting.report.seq))
            self._outbox_bytes -= waiting.size
        self._queues[queue.uid] = queue
