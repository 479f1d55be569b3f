"""The journal's tables as they lie on disk, and reading them back.

Guarantees: `load` tells exactly what was written, or raises `Damaged`. Each row has a checksum,
and each stream the sum and number of those of its objects (kept by triggers), so that even a page
that the disk forgot to write is noticed. What was written is read in one pass.
"""

import sqlite3
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from sys import intern

import msgspec
from msgspec import Struct

from edge_sidecars.apimachinery.objects import Item
from edge_sidecars.apimachinery.resources import ResourceName
from edge_sidecars.apimachinery.scope import ListScope
from edge_sidecars.apimachinery.selection.fields import FieldSelector
from edge_sidecars.apimachinery.selection.labels import LabelSelector
from edge_sidecars.walstore.database import Damaged, verdict
from relay_sidecar.core.caching import NODE_SCOPES, NodeScopes
from relay_sidecar.journal.records import ObjectSeen, Saved, SavedStream
from relay_sidecar.journal.tables import (
    ARRIVING,
    OF_NODE,
    StreamRow,
    item_digest,
    kept_digest,
    stream_digest,
    stream_seal,
)

# Of these tables; a release that changes them counts on.
SCHEMA_VERSION = 1

# Bytes of an object in memory besides its own (as in `streams/seen_objects.py`).
OBJECT_OVERHEAD = 600

SCHEMA = """
CREATE TABLE stream (
  id INTEGER PRIMARY KEY,
  scope TEXT NOT NULL UNIQUE,
  kind TEXT NOT NULL,
  api_version TEXT NOT NULL,
  cursor INTEGER NOT NULL,
  confirmed_at REAL NOT NULL,
  used_at REAL NOT NULL,
  digest INTEGER NOT NULL,
  objects INTEGER NOT NULL DEFAULT 0,
  objects_digest INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE object (
  id INTEGER PRIMARY KEY,
  stream INTEGER NOT NULL,
  namespace TEXT NOT NULL,
  name TEXT NOT NULL,
  version INTEGER NOT NULL,
  digest INTEGER NOT NULL,
  raw BLOB NOT NULL,
  UNIQUE (stream, namespace, name)
);
CREATE TRIGGER object_inserted AFTER INSERT ON object BEGIN
  UPDATE stream SET objects = objects + 1, objects_digest = objects_digest + new.digest
  WHERE id = new.stream;
END;
CREATE TRIGGER object_updated AFTER UPDATE ON object BEGIN
  UPDATE stream SET objects_digest = objects_digest + new.digest - old.digest
  WHERE id = new.stream;
END;
CREATE TRIGGER object_deleted AFTER DELETE ON object BEGIN
  UPDATE stream SET objects = objects - 1, objects_digest = objects_digest - old.digest
  WHERE id = old.stream;
END;
CREATE TABLE seen (
  id INTEGER PRIMARY KEY,
  resource TEXT NOT NULL,
  namespace TEXT NOT NULL,
  name TEXT NOT NULL,
  version INTEGER NOT NULL,
  seen_at REAL NOT NULL,
  digest INTEGER NOT NULL,
  raw BLOB NOT NULL,
  UNIQUE (resource, namespace, name)
);
CREATE TABLE kept (
  id INTEGER PRIMARY KEY,
  space TEXT NOT NULL,
  key BLOB NOT NULL,
  value BLOB NOT NULL,
  digest INTEGER NOT NULL,
  UNIQUE (space, key)
);
"""


# Of seen objects: what the node asked for first, then the newest first.
_IMPORTANCE = f"resource LIKE '%{OF_NODE}' DESC, seen_at DESC, id DESC"


class _Content(Struct):
    """What of a stream's objects was read up to now."""

    items: list[Item]
    digest: int = 0


def read_stream_rows(connection: sqlite3.Connection) -> dict[ListScope, StreamRow]:
    """Of all streams. Raises `Damaged`."""
    rows = connection.execute("SELECT id, scope, cursor, kind, api_version FROM stream")
    return {
        scope_of(scope): StreamRow(number, cursor, stream_seal(scope, kind, api_version))
        for number, scope, cursor, kind, api_version in rows.fetchall()
        if not scope.startswith(ARRIVING)
    }


class Room(Struct, frozen=True):
    """Bytes that are read at most, of streams and of seen objects."""

    streams: int = 1 << 62
    seen: int = 64 * 1024 * 1024


def load(connection: sqlite3.Connection, room: Room) -> Saved:
    """Everything that there is room for: of the streams, those that were read last; of the seen
    objects those of the node before those of others, the newest first. Raises `Damaged`."""
    # The indexes too: with a wrong one, a later write would go astray.
    found = verdict(connection, "integrity_check")
    if found is not None:
        raise Damaged(" ".join(found.split()))
    return Saved(
        streams=_load_streams(connection, room.streams),
        seen=_load_seen(connection, room.seen),
        kept=_load_kept(connection),
    )


def surplus(connection: sqlite3.Connection, room: Room) -> tuple[Sequence[int], Sequence[int]]:
    """Ids of the streams and of the seen objects that `load` leaves out."""
    seen = array("q", (number for number, size in _sizes(connection) if size > room.seen))
    return array("q", _too_much(connection, room.streams)), seen


def _too_much(connection: sqlite3.Connection, budget: int) -> set[int]:
    """What the node itself asked for comes first. Of streams that were read as long ago, a smaller
    one may have room where a bigger one has none."""
    if _most_of_all(connection) <= budget:
        return set()
    rows = connection.execute(
        "SELECT stream.id, scope, count(object.id), total(length(raw)), used_at FROM stream"
        " LEFT JOIN object ON object.stream = stream.id GROUP BY stream.id"
        " ORDER BY used_at DESC, 4, stream.id"
    ).fetchall()
    of_node = _node_scopes(connection)
    rows.sort(key=lambda row: row[1].startswith(ARRIVING) or not of_node(row[1]))
    used, left_out = 0, set[int]()
    for number, _, objects, size, _ in rows:
        needed = int(size) + objects * OBJECT_OVERHEAD
        if used + needed > budget:
            left_out.add(number)
        else:
            used += needed
    return left_out


def _node_scopes(connection: sqlite3.Connection) -> Callable[[str], bool]:
    """Whether a stream, by its scope's text, is of what the node itself asked for."""
    rows = connection.execute("SELECT key FROM kept WHERE space = ?", (NODE_SCOPES,))
    scopes = NodeScopes(scope_of(key.decode()) for (key,) in rows.fetchall())
    return lambda text: scopes.are_held_by(scope_of(text))


def _most_of_all(connection: sqlite3.Connection) -> int:
    """Bytes that all streams take at most, known without a look at each object: 25 ms for ten
    thousand of them, at each start."""
    [(pages,)] = connection.execute("PRAGMA page_count").fetchall()
    [(size,)] = connection.execute("PRAGMA page_size").fetchall()
    [(objects,)] = connection.execute("SELECT total(objects) FROM stream").fetchall()
    return int(pages) * int(size) + int(objects) * OBJECT_OVERHEAD


def _load_streams(connection: sqlite3.Connection, budget: int) -> list[SavedStream]:
    left_out = _too_much(connection, budget)
    contents = _load_objects(connection, left_out)
    streams = []
    rows = connection.execute(
        "SELECT id, scope, kind, api_version, cursor, confirmed_at, used_at, digest, objects,"
        " objects_digest FROM stream"
    )
    for number, scope, kind, api_version, cursor, confirmed_at, used_at, *sums in rows.fetchall():
        content = contents.pop(number, None) or _Content([])
        if scope.startswith(ARRIVING) or number in left_out:
            continue
        digest = stream_digest(stream_seal(scope, kind, api_version), cursor, confirmed_at)
        if sums != [digest, len(content.items), content.digest]:
            raise Damaged(f"the objects of {scope} are not those of its cursor {cursor}")
        streams.append(
            SavedStream(
                scope_of(scope), kind, api_version, cursor, content.items, used_at, confirmed_at
            )
        )
    if contents:
        raise Damaged("objects of no stream")
    return streams


def _load_objects(connection: sqlite3.Connection, left_out: set[int]) -> dict[int, _Content]:
    """By the stream's id."""
    contents: defaultdict[int, _Content] = defaultdict(lambda: _Content([]))
    for stream, namespace, name, version, digest, raw in connection.execute(
        "SELECT stream, namespace, name, version, digest, raw FROM object"
        f" WHERE stream NOT IN ({','.join(map(str, left_out))})"
    ):
        item = _item(namespace, name, version, raw, digest)
        content = contents[stream]
        content.items.append(item)
        content.digest += digest
    return contents


def _load_seen(connection: sqlite3.Connection, budget: int) -> list[ObjectSeen]:
    """The newest last."""
    seen: list[ObjectSeen] = []
    used = 0
    rows = connection.execute(
        "SELECT resource, namespace, name, version, digest, raw, seen_at FROM seen"
        f" ORDER BY {_IMPORTANCE}"
    )
    for resource, namespace, name, version, digest, raw, seen_at in rows:
        used += len(raw)
        if used > budget:
            break
        item = _item(namespace, name, version, raw, digest)
        is_of_node = resource.endswith(OF_NODE)
        named = _resource(resource.removesuffix(OF_NODE))
        seen.append(ObjectSeen(named, item, seen_at, is_of_node))
    seen.reverse()
    return seen


def _sizes(connection: sqlite3.Connection) -> Iterator[tuple[int, int]]:
    """Of seen objects: the id, and the bytes of this one and all that are more important."""
    used = 0
    rows = connection.execute(f"SELECT id, length(raw) FROM seen ORDER BY {_IMPORTANCE}")
    for number, size in rows:
        used += size
        yield number, used


def _load_kept(connection: sqlite3.Connection) -> dict[str, dict[bytes, bytes]]:
    spaces: defaultdict[str, dict[bytes, bytes]] = defaultdict(dict)
    for space, key, value, digest in connection.execute(
        "SELECT space, key, value, digest FROM kept"
    ):
        if kept_digest(space, key, value) != digest:
            raise Damaged(f"the checksum of a row of {space} is wrong")
        spaces[space][key] = value
    return dict(spaces)


def _item(namespace: str, name: str, version: int, raw: bytes, digest: int) -> Item:
    # Few namespaces, many objects.
    item = Item((intern(namespace), name), version, raw)
    if item_digest(item) != digest:
        raise Damaged(f"the checksum of {namespace}/{name} at version {version} is wrong")
    return item


def _resource(text: str) -> ResourceName:
    parts = text.split("/")
    if len(parts) != 3:
        raise Damaged(f"{text!r} is not the name of a resource")
    return ResourceName(*parts)


def scope_of(text: str) -> ListScope:
    """The reverse of `tables.scope_text`. Raises `Damaged`."""
    try:
        group, version, plural, namespace, labels, fields = msgspec.json.decode(
            text, type=tuple[str, str, str, str, str, str]
        )
        return ListScope(
            ResourceName(group, version, plural),
            namespace,
            LabelSelector.parse(labels),
            FieldSelector.parse(fields),
        )
    except ValueError as error:  # of JSON or of a selector
        raise Damaged(f"{text!r} is not the scope of a stream: {error}") from error
