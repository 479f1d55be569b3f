"""One line of a watch, as every client here reads it: its type, and its object's bytes.

Owns how an event is framed, bookmarks and errors; what an object is, the caller decides. Pure, and
without a decoder of its own for objects: the relay keeps their bytes, GM and LC an abstract of
them, the elector a decoded Lease, and its image has no msgspec. Guarantees: the bytes are the
server's own; a line that is no event is a `ValueError`, never guessed at. Of duplicate members the
last one counts, as in Go.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, TypeVar

# KEP-3157: the annotation of the bookmark that ends the initial events of a WatchList.
INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"

# Of a Status without a code (client-go: apierrors.FromObject).
_UNKNOWN: Final = 500

T = TypeVar("T")


class EventType(StrEnum):
    """Of a watch event (k8s.io/apimachinery/pkg/watch)."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"
    ERROR = "ERROR"


@dataclass(frozen=True, slots=True)
class Bookmark:
    """Nothing beyond the events before it happened up to this version."""

    resource_version: str
    is_initial_end: bool


@dataclass(frozen=True, slots=True)
class Failure:
    """The Status that an ERROR event carries."""

    code: int
    reason: str
    message: str


_CHANGES: Final = frozenset({EventType.ADDED, EventType.MODIFIED, EventType.DELETED})
# By the first letter of their types, events up to the object's first byte, as Go's encoder writes
# them (WatchEvent in k8s.io/apimachinery/pkg/apis/meta/v1): what is between that and the last byte
# is read once.
_BEGINNINGS: Final = {
    kind[:1].encode(): (kind, f'{{"type":"{kind}","object":{{'.encode()) for kind in EventType
}
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_DECODER: Final = json.JSONDecoder()


def parse_line(line: bytes, changed: Callable[[EventType, bytes], T]) -> T | Bookmark | Failure:
    """`changed` makes an event of ADDED, MODIFIED or DELETED and the object's bytes.

    Raises ValueError for no event, also for a line that was cut off, and what `changed` raises,
    which is a ValueError for what is not one whole object; RecursionError for too deep a nesting.
    """
    known = _BEGINNINGS.get(line[9:10])
    if known is not None and line.startswith(known[1]) and line.endswith(b"}}"):
        kind, beginning = known
        raw = line[len(beginning) - 1 : -1]
        try:
            return changed(kind, raw) if kind in _CHANGES else _other(kind, raw)
        except ValueError:
            # Nor is it one object where members follow it: read as any other line.
            pass
    members = _members(line)
    if "type" not in members or "object" not in members:
        raise ValueError("an event without a type or an object")
    kind, raw = EventType(members["type"][0]), members["object"][1]
    return changed(kind, raw) if kind in _CHANGES else _other(kind, raw)


def _other(kind: EventType, raw: bytes) -> Bookmark | Failure:
    is_bookmark = kind is EventType.BOOKMARK
    return (_bookmark if is_bookmark else _failure)(decode_object(raw))


def decode_object(raw: bytes) -> dict[str, Any]:
    """Raises ValueError for anything but a JSON object."""
    decoded = json.loads(raw.decode())
    if not isinstance(decoded, dict):
        raise ValueError("not a JSON object")
    return decoded


def _bookmark(bookmark: dict[str, Any]) -> Bookmark:
    metadata = bookmark.get("metadata")
    version = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
    if not isinstance(metadata, dict) or not isinstance(version, str):
        raise ValueError("a bookmark without a resourceVersion")
    annotations = metadata.get("annotations") or {}
    if not isinstance(annotations, dict):
        raise ValueError("annotations that are no JSON object")
    return Bookmark(version, annotations.get(INITIAL_EVENTS_END) == "true")


def _failure(status: dict[str, Any]) -> Failure:
    code = status.get("code")
    return Failure(
        code if isinstance(code, int) else _UNKNOWN,
        str(status.get("reason") or ""),
        str(status.get("message") or ""),
    )


def _members(line: bytes) -> dict[str, tuple[Any, bytes]]:
    """The members of a JSON object, however they are ordered and spaced: decoded, and as bytes."""
    text, found = line.decode(), dict[str, tuple[Any, bytes]]()
    at, separator = 0, "{"
    while separator != "}":
        name, at = _DECODER.raw_decode(text, _behind(text, at, separator))
        start = _behind(text, at, ":")
        value, at = _DECODER.raw_decode(text, start)
        found[str(name)] = value, text[start:at].encode()
        at = _skipped(text, at)
        separator = text[at : at + 1] if text[at : at + 1] == "}" else ","
    if _skipped(text, at + 1) != len(text):
        raise ValueError("something behind the event")
    return found


def _behind(text: str, at: int, token: str) -> int:
    at = _skipped(text, at)
    if not text.startswith(token, at):
        raise ValueError(f"no {token!r} at {at}: {text[at : at + 40]!r}")
    return _skipped(text, at + 1)


def _skipped(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return at if space is None else space.end()
