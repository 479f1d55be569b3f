"""Lists and watches in protobuf, reduced to a shard.

Sources: k8s.io/apimachinery v0.36, pkg/runtime/generated.proto (Unknown, RawExtension),
pkg/apis/meta/v1/generated.proto (ObjectMeta, ListMeta, WatchEvent) and
pkg/util/framer/framer.go. In every list in protobuf the metadata is field 1 and the items are
field 2; in every object the metadata is field 1.
"""

from typing import Final

from edge_sidecars.apimachinery.objects import Malformed
from edge_sidecars.apimachinery.protobuf_wire import BadWire, encoded, fields, text
from edge_sidecars.apimachinery.selection.shards import ShardSelector
from edge_sidecars.apimachinery.watch_events import EventType

_MAGIC: Final = b"k8s\x00"
# Unknown; TypeMeta of it.
_TYPE, _RAW = 1, 2
_KIND: Final = 2
# Of an object or list; of a list; ListMeta; ShardInfo.
_METADATA, _ITEMS, _SHARD_INFO, _SELECTOR = 1, 2, 5, 1
# ObjectMeta.
_NAMESPACE, _UID = 3, 5
# WatchEvent; RawExtension.
_EVENT_TYPE, _EVENT_OBJECT, _EXTENSION_RAW = 1, 2, 1
# LengthDelimitedFramer: bytes of the length before each event.
_LENGTH: Final = 4
_CHANGES: Final = frozenset({EventType.ADDED, EventType.MODIFIED, EventType.DELETED})


def list_in_shard(body: bytes, shards: ShardSelector) -> bytes:
    """A list; any other object as it is. Raises `Malformed`."""
    try:
        unknown = _unknown(memoryview(body))
        kind = text(_last(_last(unknown, _TYPE), _KIND))
        if not kind.endswith("List"):
            return body
        return _MAGIC + b"".join(
            encoded(number, _reduced(_bytes(value), shards) if number == _RAW else value)
            for number, value in fields(unknown)
        )
    except BadWire as error:
        raise Malformed(str(error)) from error


class WatchInShard:
    """The events of one watch, in whichever pieces they come."""

    def __init__(self, shards: ShardSelector) -> None:
        self._shards = shards
        self._begun = b""

    def more(self, piece: bytes) -> bytes:
        """The frames that are whole with this piece, and selected. Raises `Malformed`."""
        begun, at, kept = self._begun + piece, 0, []
        while len(begun) - at >= _LENGTH:
            end = at + _LENGTH + int.from_bytes(begun[at : at + _LENGTH])
            if end > len(begun):
                break
            if self._is_kept(memoryview(begun)[at + _LENGTH : end]):
                kept.append(begun[at:end])
            at = end
        self._begun = begun[at:]
        return b"".join(kept)

    def _is_kept(self, event: memoryview) -> bool:
        try:
            if text(_last(event, _EVENT_TYPE)) not in _CHANGES:
                return True
            unknown = _unknown(_last(_last(event, _EVENT_OBJECT), _EXTENSION_RAW))
            return _is_in(_last(unknown, _RAW), self._shards)
        except BadWire as error:
            raise Malformed(str(error)) from error


def _reduced(raw: memoryview, shards: ShardSelector) -> bytes:
    info = encoded(_SHARD_INFO, encoded(_SELECTOR, str(shards).encode()))
    parts = []
    for number, value in fields(raw):
        if number == _METADATA:
            parts.append(encoded(number, bytes(_bytes(value)) + info))
        elif number != _ITEMS or _is_in(_bytes(value), shards):
            parts.append(encoded(number, value))
    return b"".join(parts)


def _is_in(raw: memoryview, shards: ShardSelector) -> bool:
    metadata = _last(raw, _METADATA)
    return shards.matches(text(_last(metadata, _UID)), text(_last(metadata, _NAMESPACE)))


def _unknown(data: memoryview) -> memoryview:
    """What follows the magic bytes. Raises `BadWire`."""
    if bytes(data[: len(_MAGIC)]) != _MAGIC:
        raise BadWire("not an object of Kubernetes")
    return data[len(_MAGIC) :]


def _last(data: memoryview, wanted: int) -> memoryview:
    """The bytes of the last field of this number; empty where there is none. Raises `BadWire`."""
    found = memoryview(b"")
    for number, value in fields(data):
        if number == wanted:
            found = _bytes(value)
    return found


def _bytes(value: int | memoryview) -> memoryview:
    if isinstance(value, int):
        raise BadWire("a number where a message is to be")
    return value
