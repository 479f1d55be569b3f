"""Answers of upstream to requests with a shardSelector, reduced to the shard.

Upstream is asked without the selector. Guarantees: every other parameter stays as the client wrote
it, but `includeObject=None`: the object of a Table's row says in which shard it is. Lists, Tables
and watches in JSON.
"""

from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import unquote_plus

import msgspec
from msgspec import Raw, Struct

from edge_sidecars.apimachinery.objects import decode
from edge_sidecars.apimachinery.request.list_options import SHARD_SELECTOR
from edge_sidecars.apimachinery.selection.shards import ShardSelector
from edge_sidecars.apimachinery.watch_events import EventType

INCLUDE_OBJECT: Final = "includeObject"
# k8s.io/apimachinery, pkg/apis/meta/v1: IncludeObjectPolicy.
NO_OBJECT: Final = "None"


def upstream_target(target: str) -> str:
    """`target` as in the request's first line."""
    path, _, query = target.partition("?")
    pairs = [
        f"{INCLUDE_OBJECT}=Metadata" if _read(pair) == (INCLUDE_OBJECT, NO_OBJECT) else pair
        for pair in query.split("&")
        if _read(pair)[0] != SHARD_SELECTOR
    ]
    return f"{path}?{'&'.join(pairs)}" if any(pairs) else path


def _read(pair: str) -> tuple[str, str]:
    name, _, value = pair.partition("=")
    return unquote_plus(name), unquote_plus(value)


_CHANGES: Final = frozenset({EventType.ADDED, EventType.MODIFIED, EventType.DELETED})
_NULL: Final = b"null"


class _ShardedMetadata(Struct, gc=False):
    uid: str = ""
    namespace: str = ""


class _ShardedObject(Struct, gc=False):
    metadata: _ShardedMetadata


class _Row(Struct, gc=False):
    object: _ShardedObject


class _Event(Struct, gc=False):
    type: str
    object: Raw


class _Changed(Struct, gc=False):
    """The object of an event; of a Table with its rows."""

    kind: str
    metadata: _ShardedMetadata
    rows: list[Raw] | None = None


_MEMBERS: Final = msgspec.json.Decoder(dict[str, Raw])
_PARTS: Final = msgspec.json.Decoder(list[Raw] | None)
_OBJECT: Final = msgspec.json.Decoder(_ShardedObject)
_ROW: Final = msgspec.json.Decoder(_Row)
_EVENT: Final = msgspec.json.Decoder(_Event)
_CHANGED: Final = msgspec.json.Decoder(_Changed)


def list_in_shard(body: bytes, shards: ShardSelector, *, hides_objects: bool = False) -> bytes:
    """A list or Table; anything else as it is. `hides_objects`: rows of a Table are to be without.

    Raises `Malformed`."""
    members = _members(body)
    name = "rows" if "rows" in members else "items"
    if name not in members or "metadata" not in members:
        return body
    parts = decode(_PARTS, members[name]) or []
    if name == "rows":
        kept = list(_rows(parts, shards, hides_objects=hides_objects))
    else:
        kept = [bytes(part) for part in parts if _is_in(decode(_OBJECT, part), shards)]
    metadata = _members(members["metadata"])
    metadata["shardInfo"] = msgspec.json.encode({"selector": str(shards)})
    members["metadata"] = _joined(metadata)
    members[name] = b"[%s]" % b",".join(kept)
    return _joined(members) + b"\n"


class WatchInShard:
    """The events of one watch, in whichever pieces they come."""

    def __init__(self, shards: ShardSelector, *, hides_objects: bool = False) -> None:
        self._shards = shards
        self._hides_objects = hides_objects
        self._begun = bytearray()
        # Of a Table, which tells them with its first event only: that one may be left out.
        self._columns: bytes | None = None

    def more(self, piece: bytes) -> bytes:
        """The lines that are whole with this piece, and selected. Raises `Malformed`."""
        self._begun += piece
        if b"\n" not in piece:
            return b""
        whole, _, self._begun = self._begun.rpartition(b"\n")
        return b"".join(
            kept
            for line in bytes(whole).split(b"\n")
            if line.strip() and (kept := self._kept(line)) is not None
        )

    def _kept(self, line: bytes) -> bytes | None:
        event = decode(_EVENT, line)
        if event.type not in _CHANGES:
            return line + b"\n"
        changed = decode(_CHANGED, event.object)
        if changed.kind == "Table" and changed.rows is not None:
            table = self._table(event.object, changed.rows)
            return None if table is None else _framed(event.type, table)
        is_in = self._shards.matches(changed.metadata.uid, changed.metadata.namespace)
        return line + b"\n" if is_in else None

    def _table(self, raw: Raw, rows: list[Raw]) -> bytes | None:
        members = _members(raw)
        columns = members.get("columnDefinitions", _NULL)
        if columns != _NULL:
            self._columns = columns
        kept = list(_rows(rows, self._shards, hides_objects=self._hides_objects))
        if not kept:
            return None
        if self._columns is not None:
            members["columnDefinitions"], self._columns = self._columns, None
        members["rows"] = b"[%s]" % b",".join(kept)
        return _joined(members)


def _rows(parts: list[Raw], shards: ShardSelector, *, hides_objects: bool) -> Iterator[bytes]:
    for part in parts:
        if _is_in(decode(_ROW, part).object, shards):
            if hides_objects:
                yield _joined({**_members(part), "object": _NULL})
            else:
                yield bytes(part)


def _is_in(found: _ShardedObject, shards: ShardSelector) -> bool:
    return shards.matches(found.metadata.uid, found.metadata.namespace)


def _members(raw: bytes | Raw) -> dict[str, bytes]:
    """Of a JSON object, in their order; of duplicate keys the last one."""
    return {name: bytes(value) for name, value in decode(_MEMBERS, raw).items()}


def _framed(type: str, raw: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (type.encode(), raw)


def _joined(members: Mapping[str, bytes]) -> bytes:
    pairs = (b"%s:%s" % (msgspec.json.encode(name), raw) for name, raw in members.items())
    return b"{%s}" % b",".join(pairs)
