"""What is on disk, in memory, and how it is read there."""

import sqlite3
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from edge_sidecars.sedna_api.core.api_object import Document, ObjectKey
from edge_sidecars.sedna_api.core.report import Report
from lc.core.outbox import DedupKey, Queue, Waiting
from lc.core.unknown_jobs import KeptReport, UnknownJobs
from lc.store.tables import StoredRefusal

# The notes that have kinds in place of uids: the highest version at which an object left. They
# never count as absent, so they stay.
LEFT_AT = "left-at"
# SQLite takes so many parameters of one statement at least.
MAX_PARAMETERS = 500


@dataclass(slots=True)
class StoreContents:
    """`queues`: of objects that are here, or for which reports wait."""

    store_id: str
    objects: dict[str, dict[ObjectKey, Document]] = field(default_factory=dict)
    uids: set[str] = field(default_factory=set)
    queues: dict[str, Queue] = field(default_factory=dict)
    notes: dict[tuple[str, str], bytes] = field(default_factory=dict)
    refusals: list[StoredRefusal] = field(default_factory=list)
    refusals_ever: int = 0
    outbox_bytes: int = 0
    unknown_jobs: UnknownJobs = field(default_factory=UnknownJobs)

    def get(self, key: ObjectKey) -> Document | None:
        return self.objects.get(key.kind, {}).get(key)

    def left_at(self, kind: str) -> int:
        """The highest resourceVersion of an object that left; 0 for none."""
        return int(self.notes.get((LEFT_AT, kind), b"0"))


def load(connection: sqlite3.Connection) -> StoreContents:
    """All that a new process needs."""
    run = connection.execute
    [(store_id,)] = run("SELECT id FROM store").fetchall()
    found = StoreContents(store_id)
    rows = run("SELECT kind, namespace, name, uid, resource_version, generation, raw FROM object")
    for document in (Document(*row) for row in rows):
        found.objects.setdefault(document.kind, {})[document.key] = document
        found.uids.add(document.uid)
    waiting = {uid for (uid,) in run("SELECT DISTINCT uid FROM report").fetchall()}
    found.queues = load_queues(connection, waiting | found.uids, store_id=store_id)
    found.outbox_bytes = sum(queue.size for queue in found.queues.values())
    for space, uid, value in run("SELECT space, uid, value FROM note"):
        found.notes[space, uid] = value
    rows = run("SELECT kind, namespace, name, uid, seq, reason, refused_at FROM refusal")
    for kind, namespace, name, *rest in rows:
        found.refusals.append(StoredRefusal(ObjectKey(kind, namespace, name), *rest))
    rows = run("SELECT seq FROM sqlite_sequence WHERE name = 'refusal'")
    found.refusals_ever = sum(number for (number,) in rows)
    found.unknown_jobs = _load_unknown_jobs(connection)
    return found


def load_queues(
    connection: sqlite3.Connection, uids: Collection[str], *, store_id: str
) -> dict[str, Queue]:
    """A queue for each uid, empty where no report was ever made of it."""
    last: dict[str, int] = {}
    heard: dict[str, dict[str, DedupKey]] = {}
    waiting: dict[str, list[Waiting]] = {}
    for some in _slices(sorted(uids)):
        among = f"WHERE uid IN ({','.join('?' * len(some))})"
        last.update(connection.execute(f"SELECT uid, last FROM queue {among}", some).fetchall())
        rows = connection.execute(f"SELECT uid, worker, seq, digest FROM heard {among}", some)
        for uid, worker, seq, digest in rows:
            heard.setdefault(uid, {})[worker] = DedupKey(seq, digest)
        rows = connection.execute(
            "SELECT uid, seq, kind, namespace, name, is_event, worker, body, queued_at"
            f" FROM report {among} ORDER BY uid, seq",
            some,
        )
        for uid, seq, kind, namespace, name, is_event, worker, body, queued_at in rows:
            report = Report(store_id, seq, uid, kind, namespace, name, bool(is_event), worker, body)
            waiting.setdefault(uid, []).append(Waiting(report, queued_at))
    return {
        uid: Queue(uid, last.get(uid, 0), tuple(waiting.get(uid, ())), heard.get(uid, {}))
        for uid in uids
    }


def _slices(uids: list[str]) -> Iterable[list[str]]:
    return (uids[at : at + MAX_PARAMETERS] for at in range(0, len(uids), MAX_PARAMETERS))


def _load_unknown_jobs(connection: sqlite3.Connection) -> UnknownJobs:
    rows = connection.execute("SELECT * FROM unknown_job_report ORDER BY number")
    reports = {
        number: KeptReport(number, ObjectKey(kind, namespace, name), worker, body)
        for number, kind, namespace, name, worker, body in rows
    }
    rows = connection.execute("SELECT kind, namespace, name, waited FROM unknown_job")
    waited = {ObjectKey(kind, namespace, name): it for kind, namespace, name, it in rows}
    return UnknownJobs(reports, waited, max(reports, default=0))
