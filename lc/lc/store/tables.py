"""The tables, and each change to them as SQL. Knows no transaction."""

import sqlite3
from collections.abc import Iterator

import msgspec

from edge_sidecars.sedna_api.core.api_object import Document, ObjectKey
from lc.core.outbox import DedupKey, Waiting
from lc.core.unknown_jobs import UnknownJobs

SCHEMA_VERSION = 1
SCHEMA = """
CREATE TABLE store (id TEXT NOT NULL);
CREATE TABLE object (
  kind TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL, uid TEXT NOT NULL,
  resource_version INTEGER NOT NULL, generation INTEGER NOT NULL, raw BLOB NOT NULL,
  PRIMARY KEY (kind, namespace, name)) WITHOUT ROWID;
CREATE TABLE queue (uid TEXT PRIMARY KEY, last INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE heard (
  uid TEXT NOT NULL, worker TEXT NOT NULL, seq INTEGER NOT NULL, digest BLOB NOT NULL,
  PRIMARY KEY (uid, worker)) WITHOUT ROWID;
CREATE TABLE report (
  uid TEXT NOT NULL, seq INTEGER NOT NULL, kind TEXT NOT NULL, namespace TEXT NOT NULL,
  name TEXT NOT NULL, is_event INTEGER NOT NULL, worker TEXT NOT NULL,
  body BLOB NOT NULL, queued_at REAL NOT NULL,
  PRIMARY KEY (uid, seq)) WITHOUT ROWID;
CREATE TABLE note (
  space TEXT NOT NULL, uid TEXT NOT NULL, value BLOB NOT NULL, absent_for REAL,
  PRIMARY KEY (space, uid)) WITHOUT ROWID;
CREATE TABLE refusal (
  number INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, namespace TEXT NOT NULL,
  name TEXT NOT NULL, uid TEXT NOT NULL, seq INTEGER NOT NULL, reason TEXT NOT NULL,
  refused_at REAL NOT NULL);
"""
# Since 0.2.0; an earlier release that opens the file again leaves these alone.
ADDED = """
CREATE TABLE IF NOT EXISTS unknown_job (
  kind TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL, waited REAL NOT NULL,
  PRIMARY KEY (kind, namespace, name)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS unknown_job_report (
  number INTEGER PRIMARY KEY, kind TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
  worker TEXT NOT NULL, body BLOB NOT NULL);
"""
# Refusals that are kept for people; their number counts on.
KEPT_REFUSALS = 50

Value = str | int | float | bytes | None
Statement = tuple[str, tuple[Value, ...]]


class StoredRefusal(msgspec.Struct, frozen=True):
    """A report that GM never takes; `refused_at` in seconds of the wall clock."""

    key: ObjectKey
    uid: str
    seq: int
    reason: str
    refused_at: float


def put_store_id(store_id: str) -> Statement:
    return "UPDATE store SET id = ?", (store_id,)


def put_object(document: Document) -> Statement:
    names = (*document.key, document.uid)
    rest = (document.resource_version, document.generation, document.raw)
    return "INSERT OR REPLACE INTO object VALUES (?,?,?,?,?,?,?)", (*names, *rest)


def delete_object(key: ObjectKey) -> Statement:
    sql = "DELETE FROM object WHERE kind = ? AND namespace = ? AND name = ?"
    return sql, (key.kind, key.namespace, key.name)


def put_report(waiting: Waiting) -> Statement:
    it = waiting.report
    names = (it.uid, it.seq, it.kind, it.namespace, it.name)
    rest = (int(it.is_event), it.worker, it.body, waiting.queued_at)
    return "INSERT INTO report VALUES (?,?,?,?,?,?,?,?,?)", (*names, *rest)


def delete_report(uid: str, seq: int) -> Statement:
    return "DELETE FROM report WHERE uid = ? AND seq = ?", (uid, seq)


def put_queue(uid: str, last: int) -> Statement:
    return "INSERT OR REPLACE INTO queue VALUES (?,?)", (uid, last)


def put_heard(uid: str, worker: str, word: DedupKey) -> Statement:
    return "INSERT OR REPLACE INTO heard VALUES (?,?,?,?)", (uid, worker, word.seq, word.digest)


def delete_heard(uid: str, worker: str) -> Statement:
    return "DELETE FROM heard WHERE uid = ? AND worker = ?", (uid, worker)


def put_note(space: str, uid: str, value: bytes, *, is_absent: bool) -> Statement:
    absent = 0.0 if is_absent else None
    return "INSERT OR REPLACE INTO note VALUES (?,?,?,?)", (space, uid, value, absent)


def mark_absent(uid: str) -> Statement:
    return "UPDATE note SET absent_for = 0 WHERE uid = ? AND absent_for IS NULL", (uid,)


def mark_present(uid: str) -> Statement:
    return "UPDATE note SET absent_for = NULL WHERE uid = ?", (uid,)


def age_notes(elapsed: float) -> Statement:
    sql = "UPDATE note SET absent_for = absent_for + ? WHERE absent_for IS NOT NULL"
    return sql, (elapsed,)


def put_refusal(refusal: StoredRefusal) -> Iterator[Statement]:
    key = refusal.key
    yield (
        "INSERT INTO refusal (kind, namespace, name, uid, seq, reason, refused_at)"
        " VALUES (?,?,?,?,?,?,?)",
        (
            *(key.kind, key.namespace, key.name),
            *(refusal.uid, refusal.seq, refusal.reason, refusal.refused_at),
        ),
    )
    yield (
        "DELETE FROM refusal WHERE number <= (SELECT max(number) FROM refusal) - ?",
        (KEPT_REFUSALS,),
    )


def change_unknown_jobs(before: UnknownJobs, after: UnknownJobs) -> Iterator[Statement]:
    """What makes the one the other."""
    for number in before.reports.keys() - after.reports.keys():
        yield "DELETE FROM unknown_job_report WHERE number = ?", (number,)
    for number, it in after.reports.items():
        if number not in before.reports:
            sql = "INSERT INTO unknown_job_report VALUES (?,?,?,?,?,?)"
            yield sql, (number, *it.key, it.worker, it.body)
    for key in before.waited.keys() - after.waited.keys():
        sql = "DELETE FROM unknown_job WHERE kind = ? AND namespace = ? AND name = ?"
        yield sql, (key.kind, key.namespace, key.name)
    for key, waited in after.waited.items():
        if before.waited.get(key) != waited:
            yield "INSERT OR REPLACE INTO unknown_job VALUES (?,?,?,?)", (*key, waited)


def expire_notes(connection: sqlite3.Connection, limit: float) -> list[tuple[str, str]]:
    """Deletes those whose object has been away for so long; which they are."""
    sql = "DELETE FROM note WHERE absent_for >= ? RETURNING space, uid"
    return [(space, uid) for space, uid in connection.execute(sql, (limit,)).fetchall()]
