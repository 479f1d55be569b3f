"""What each record changes in the journal's tables.

Guarantees: a stream moves on only from the cursor that it has, else `OutOfStep`; of a list
that replaces another only what differs is written. Transactions, and what becomes of this object
when one fails (it is thrown away), are the caller's.
"""

import sqlite3
import zlib
from collections.abc import Iterable, Iterator
from typing import TypeVar

import msgspec
from msgspec import Struct

from edge_sidecars.apimachinery.objects import Item, Key
from edge_sidecars.apimachinery.resources import ResourceName
from edge_sidecars.apimachinery.scope import ListScope
from relay_sidecar.journal import records
from relay_sidecar.journal.records import Record

# Before the scope of a stream whose first list is not whole yet: no scope begins like this.
ARRIVING = "arriving "

# Behind the resource of an object that the node itself asked for.
OF_NODE = " node"

_PUT_STREAM = """
INSERT INTO stream (scope, kind, api_version, cursor, confirmed_at, used_at, digest)
VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (scope) DO UPDATE
SET kind = excluded.kind, api_version = excluded.api_version, cursor = excluded.cursor,
    confirmed_at = excluded.confirmed_at, digest = excluded.digest
"""
_MOVE_STREAM = "UPDATE stream SET cursor = ?, confirmed_at = ?, digest = ? WHERE id = ?"
_PUT_OBJECT = """
INSERT INTO object (stream, namespace, name, version, digest, raw) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (stream, namespace, name) DO UPDATE
SET version = excluded.version, digest = excluded.digest, raw = excluded.raw
"""
# A list that is whole: from here on it is the stream's.
_NAME_STREAM = "UPDATE stream SET scope = ?, used_at = ? WHERE id = ?"
_DELETE_OBJECT = "DELETE FROM object WHERE stream = ? AND namespace = ? AND name = ?"
_PUT_SEEN = """
INSERT INTO seen (resource, namespace, name, version, seen_at, digest, raw)
VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (resource, namespace, name) DO UPDATE
SET version = excluded.version, seen_at = excluded.seen_at, digest = excluded.digest,
    raw = excluded.raw
"""
_DELETE_SEEN = "DELETE FROM seen WHERE resource = ? AND namespace = ? AND name = ?"
_PUT_KEPT = """
INSERT INTO kept (space, key, value, digest) VALUES (?, ?, ?, ?)
ON CONFLICT (space, key) DO UPDATE SET value = excluded.value, digest = excluded.digest
WHERE value <> excluded.value
"""
_DELETE_KEPT = "DELETE FROM kept WHERE space = ? AND key = ?"

# Bytes that a record costs in the WAL besides those of its objects: the page with the object is
# written whole, and the page with the stream.
_RECORD_OVERHEAD = 8192


T = TypeVar("T")


class StreamRow(Struct):
    """A stream on disk. `seal`: checksum of the part of its row that does not change."""

    id: int
    cursor: int
    seal: int


class OutOfStep(Exception):
    """What is to be written does not follow from what is on disk."""


class StepCounter:
    """Grows with each thing done, so that other threads can tell work from standstill."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


class Tables:
    """`written`: bytes, roughly, since it was last set to 0; `has_freed`: whether much went."""

    def __init__(
        self, connection: sqlite3.Connection, rows: dict[ListScope, StreamRow], steps: StepCounter
    ) -> None:
        self.written = 0
        self.has_freed = False
        self._run = connection.execute
        self._run_each = connection.executemany
        self._rows = rows
        self._steps = steps
        # What is on disk of first lists that are not whole yet; None: of a process that has ended.
        self._arriving: dict[ListScope, tuple[int, dict[Key, Item]]] | None = None

    def apply(self, record: Record) -> None:
        """Raises `OutOfStep` and sqlite3's errors, after which the transaction is to be undone."""
        self.written += _RECORD_OVERHEAD
        self._steps.count += 1
        match record:
            case records.EventsApplied():
                self._apply_events(record)
            case records.ObjectSeen():
                self._put_seen(record)
            case records.Blob():
                self._put_blob(record)
            case records.StreamTouched():
                row = self._rows.get(record.scope)
                if row is not None:
                    self._run("UPDATE stream SET used_at = ? WHERE id = ?", (record.at, row.id))
            case records.ObjectEvicted():
                self._run(_DELETE_SEEN, (seen_text(record), *record.key))
                self.has_freed = True
            case records.ListChunk():
                self._append_chunk(record)
            case records.ListAborted():
                self._abort_list(record.scope)
            case records.ListReplaced():
                self._replace_list(record)
            case records.StreamDeleted():
                self._delete_stream(record.scope)

    def replace_all(self, known: Iterable[Record]) -> None:
        """Makes the tables hold these records and nothing else."""
        scopes: set[ListScope] = set()
        seen: set[tuple[str, str, str]] = set()
        kept: set[tuple[str, bytes]] = set()
        self._arriving = None
        self._arrivals()
        for record in known:
            self.apply(record)
            match record:
                case records.ListReplaced():
                    scopes.add(record.scope)
                case records.ObjectSeen():
                    seen.add((seen_text(record), *record.item.key))
                case records.Blob():
                    kept.add((record.space, record.key))
        for scope in self._rows.keys() - scopes:
            self._delete_stream(scope)
        rows = set(self._run("SELECT resource, namespace, name FROM seen").fetchall())
        self._run_each(_DELETE_SEEN, rows - seen)
        rows = set(self._run("SELECT space, key FROM kept").fetchall())
        self._run_each(_DELETE_KEPT, rows - kept)
        self.has_freed = True

    def _apply_events(self, record: records.EventsApplied) -> None:
        row = self._rows.get(record.scope)
        if row is None or row.cursor != record.after:
            at = "unknown" if row is None else f"at {row.cursor}"
            raise OutOfStep(f"{record.scope} is {at} on disk, its changes follow {record.after}")
        self._write(row.id, dict(record.changes))
        digest = stream_digest(row.seal, record.cursor, record.at)
        self._run(_MOVE_STREAM, (record.cursor, record.at, digest, row.id))
        row.cursor = record.cursor

    def _write(self, stream: int, changes: dict[Key, Item | None]) -> None:
        gone = [(stream, *key) for key, item in changes.items() if item is None]
        if gone:
            self._run_each(_DELETE_OBJECT, self._counted(gone))
        if len(gone) < len(changes):
            items = (item for item in changes.values() if item is not None)
            self._run_each(_PUT_OBJECT, self._counted(self._object_rows(stream, items)))

    def _object_rows(
        self, stream: int, items: Iterable[Item]
    ) -> Iterator[tuple[int, str, str, int, int, bytes]]:
        for item in items:
            namespace, name = item.key
            self.written += len(item.raw)
            yield stream, namespace, name, item.version, item_digest(item), item.raw

    def _append_chunk(self, record: records.ListChunk) -> None:
        if record.scope in self._rows:
            return
        arriving = self._arrivals()
        if record.scope not in arriving:
            text = arriving_text(record.scope)
            self._run(_PUT_STREAM, (text, "", "", 0, 0.0, 0.0, 0))
            arriving[record.scope] = (self._number(text), {})
        number, there = arriving[record.scope]
        # What is written here is checkpointed once it is of use.
        written = self.written
        changes: dict[Key, Item | None] = {
            item.key: item for item in record.items if not _is_same(item, there.get(item.key))
        }
        self._write(number, changes)
        self.written = written
        there.update((item.key, item) for item in record.items)

    def _arrivals(self) -> dict[ListScope, tuple[int, dict[Key, Item]]]:
        if self._arriving is None:
            self._arriving = {}
            left = f"(SELECT id FROM stream WHERE scope GLOB '{ARRIVING}*')"
            if self._run(f"DELETE FROM object WHERE stream IN {left}").rowcount:
                self.has_freed = True
            self._run(f"DELETE FROM stream WHERE id IN {left}")
        return self._arriving

    def _number(self, text: str) -> int:
        [(number,)] = self._run("SELECT id FROM stream WHERE scope = ?", (text,)).fetchall()
        return int(number)

    def _replace_list(self, record: records.ListReplaced) -> None:
        scope, text = record.scope, scope_text(record.scope)
        arrived = self._arrivals().pop(scope, None)
        if arrived is not None:
            self._run(_NAME_STREAM, (text, record.at, arrived[0]))
        seal = stream_seal(text, record.kind, record.api_version)
        digest = stream_digest(seal, record.cursor, record.at)
        texts = (text, record.kind, record.api_version, record.cursor)
        self._run(_PUT_STREAM, (*texts, record.at, record.at, digest))
        changes: dict[Key, Item | None] = {item.key: item for item in record.items}
        row = self._rows.get(scope)
        if row is None:
            number = self._number(text)
            self._rows[scope] = StreamRow(number, record.cursor, seal)
            if arrived is not None:
                for key, item in arrived[1].items():
                    self.written += len(item.raw)
                    if key not in changes:
                        changes[key] = None
                    elif _is_same(item, changes[key]):
                        del changes[key]
        else:
            number = row.id
            row.cursor, row.seal = record.cursor, seal
            self._leave_out_what_is_there(number, changes)
        self._write(number, changes)

    def _leave_out_what_is_there(self, stream: int, changes: dict[Key, Item | None]) -> None:
        rows = self._run(
            "SELECT namespace, name, version, raw FROM object WHERE stream = ?", (stream,)
        )
        for namespace, name, version, raw in self._counted(rows):
            key = (namespace, name)
            item = changes.get(key)
            if item is None:
                changes[key] = None
                self.has_freed = True
            elif item.version == version and item.raw == raw:
                del changes[key]

    def _delete_stream(self, scope: ListScope) -> None:
        row = self._rows.pop(scope, None)
        if row is not None:
            self._delete_rows(row.id)
        self._abort_list(scope)

    def _abort_list(self, scope: ListScope) -> None:
        arrived = self._arrivals().pop(scope, None)
        if arrived is not None:
            self._delete_rows(arrived[0])

    def _delete_rows(self, stream: int) -> None:
        self._run("DELETE FROM object WHERE stream = ?", (stream,))
        self._run("DELETE FROM stream WHERE id = ?", (stream,))
        self.has_freed = True

    def _put_seen(self, record: records.ObjectSeen) -> None:
        item = record.item
        self.written += len(item.raw)
        row = (item.version, record.at, item_digest(item), item.raw)
        self._run(_PUT_SEEN, (seen_text(record), *item.key, *row))

    def drop(self, streams: Iterable[int], seen: Iterable[int]) -> None:
        """By their ids."""
        gone = set(streams)
        for number in self._counted(gone):
            self._delete_rows(number)
        self._rows = {scope: row for scope, row in self._rows.items() if row.id not in gone}
        self._run_each("DELETE FROM seen WHERE id = ?", ((row,) for row in self._counted(seen)))
        self.has_freed = True

    def _put_blob(self, record: records.Blob) -> None:
        if record.value is None:
            self._run(_DELETE_KEPT, (record.space, record.key))
            return
        self.written += len(record.value)
        digest = kept_digest(record.space, record.key, record.value)
        self._run(_PUT_KEPT, (record.space, record.key, record.value, digest))

    def _counted(self, rows: Iterable[T]) -> Iterator[T]:
        steps = self._steps
        for row in rows:
            steps.count += 1
            yield row


def _is_same(item: Item, other: Item | None) -> bool:
    if item is other:
        return True
    return other is not None and item.version == other.version and item.raw == other.raw


def resource_text(resource: ResourceName) -> str:
    return f"{resource.group}/{resource.version}/{resource.plural}"


def seen_text(record: records.ObjectSeen | records.ObjectEvicted) -> str:
    """Earlier releases read what the node asked for as of a resource without requests."""
    text = resource_text(record.resource)
    return text + OF_NODE if record.is_of_node else text


def scope_text(scope: ListScope) -> str:
    resource = scope.resource
    named = (resource.group, resource.version, resource.plural, scope.namespace)
    return msgspec.json.encode((*named, str(scope.labels), str(scope.fields))).decode()


def arriving_text(scope: ListScope) -> str:
    return ARRIVING + scope_text(scope)


def item_digest(item: Item) -> int:
    namespace, name = item.key
    return zlib.crc32(item.raw, zlib.crc32(f"{item.version} {namespace} {name}".encode()))


def kept_digest(space: str, key: bytes, value: bytes) -> int:
    return zlib.crc32(value, zlib.crc32(key, zlib.crc32(space.encode())))


def stream_seal(scope: str, kind: str, api_version: str) -> int:
    return zlib.crc32(f"{scope} {kind} {api_version}".encode())


def stream_digest(seal: int, cursor: int, confirmed_at: float) -> int:
    return zlib.crc32(f"{cursor} {float(confirmed_at)}".encode(), seal)
