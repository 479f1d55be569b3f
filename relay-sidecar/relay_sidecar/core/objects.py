"""Kubernetes objects, lists and watch events as upstream sent them, read just as far as needed.

Owns the slicing of JSON: whose object it is, at which version, and where its bytes begin and end;
nothing of what a resource means. Guarantees: `Item.raw` are upstream's own bytes (a list item gets
the kind and apiVersion that its list left out, and newlines between tokens go, so that an object
always fits into one line of a watch), detached from the page or line that brought them; whatever
cannot be read like this is `Malformed`, never guessed at. Of duplicate keys the last one counts,
as in Go.
"""

import sys
from collections.abc import Mapping
from enum import StrEnum
from typing import Final, TypeVar

import msgspec
from msgspec import Raw, Struct

Key = tuple[str, str]
"""(namespace, name); the namespace of a cluster-scoped object is ""."""

# etcd's revisions are int64 (etcdserverpb.ResponseHeader.revision).
_MAX_VERSION: Final = 2**63 - 1

# KEP-3157: the annotation of the bookmark that ends the initial events of a WatchList.
INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"

# Whitespace between tokens; inside a JSON string both are illegal.
_LINE_BREAKS: Final = b"\r\n"

T = TypeVar("T")


class Malformed(ValueError):
    """Not what an API server sends: not JSON, no metadata, or a version that is no integer."""


class EventType(StrEnum):
    """Of a watch event (k8s.io/apimachinery/pkg/watch)."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"
    ERROR = "ERROR"


# Structs, not dataclasses: ten thousand of them are made per list, and the cyclic garbage
# collector need not look at what cannot form a cycle.
class Item(Struct, frozen=True, eq=False, gc=False):
    """One object; `raw` is complete JSON with kind and apiVersion, in one line."""

    key: Key
    version: int
    raw: bytes


class Failure(Struct, frozen=True):
    """The Status that an ERROR event carries."""

    code: int = 0
    reason: str = ""
    message: str = ""


class Event(Struct, frozen=True, eq=False, gc=False):
    """`item` of ADDED, MODIFIED and DELETED; `status` of ERROR, whose version is 0."""

    type: EventType
    version: int
    item: Item | None = None
    status: Failure | None = None
    is_initial_end: bool = False


class Page(Struct, frozen=True, eq=False):
    """A list, or one page of it; the last one has no continue token."""

    kind: str
    api_version: str
    version: int
    continue_token: str
    items: list[Item]


class _Meta(Struct, rename="camel", gc=False):
    name: str
    resource_version: str
    namespace: str = ""


class _Object(Struct, rename="camel", gc=False):
    metadata: _Meta
    kind: str | None = None
    api_version: str | None = None


class _ListMeta(Struct, rename="camel"):
    resource_version: str
    continue_token: str = msgspec.field(default="", name="continue")


class _List(Struct, rename="camel"):
    kind: str
    api_version: str
    metadata: _ListMeta
    # Go sends null for an empty list that was never made; without the key it is no list.
    items: list[Raw] | None


class _Row(Struct, gc=False):
    object: _Object


class _Table(Struct, rename="camel"):
    kind: str
    api_version: str
    metadata: _ListMeta
    rows: list[_Row] | None


class _Frame(Struct, gc=False):
    type: EventType
    object: Raw


class _BookmarkMeta(Struct, rename="camel", gc=False):
    resource_version: str
    annotations: dict[str, str] | None = None


class _Bookmark(Struct, gc=False):
    metadata: _BookmarkMeta


class _RawVersion(Struct, rename="camel", gc=False):
    resource_version: Raw


class _Versioned(Struct, gc=False):
    metadata: _RawVersion


class _RawMetadata(Struct, gc=False):
    metadata: Raw


class _Facts(Struct, gc=False):
    uid: str = ""
    name: str = ""
    namespace: str = ""
    labels: dict[str, str] | None = None


class _Labelled(Struct, gc=False):
    metadata: _Facts


_OBJECT: Final = msgspec.json.Decoder(_Object)
_LIST: Final = msgspec.json.Decoder(_List)
_TABLE: Final = msgspec.json.Decoder(_Table)
_FRAME: Final = msgspec.json.Decoder(_Frame)
_BOOKMARK: Final = msgspec.json.Decoder(_Bookmark)
_FAILURE: Final = msgspec.json.Decoder(Failure)
_VERSIONED: Final = msgspec.json.Decoder(_Versioned)
_RAW_METADATA: Final = msgspec.json.Decoder(_RawMetadata)
_LABELLED: Final = msgspec.json.Decoder(_Labelled)
_TREE: Final = msgspec.json.Decoder(dict[str, object])


def read_item(raw: bytes) -> Item:
    """The answer to a GET or a write. Raises `Malformed`."""
    return _item(raw)


def read_event(line: bytes) -> Event:
    """One line of a watch. Raises `Malformed`, also for a line that was cut off."""
    frame = _decode(_FRAME, line)
    match frame.type:
        case EventType.BOOKMARK:
            meta = _decode(_BOOKMARK, frame.object).metadata
            is_end = (meta.annotations or {}).get(INITIAL_EVENTS_END) == "true"
            version = read_version(meta.resource_version)
            return Event(frame.type, version, is_initial_end=is_end)
        case EventType.ERROR:
            return Event(frame.type, 0, status=_decode(_FAILURE, frame.object))
        case _:
            item = _item(bytes(frame.object))
            return Event(frame.type, item.version, item)


def read_page(body: bytes) -> Page:
    """The answer to a LIST. Raises `Malformed`."""
    page = _decode(_LIST, body)
    if not page.kind.endswith("List"):
        raise Malformed(f"{page.kind} is not the kind of a list")
    kind = page.kind.removesuffix("List")
    prefixes = _Prefixes(kind, page.api_version)
    items = [_item(bytes(raw), prefixes) for raw in page.items or ()]
    version = read_version(page.metadata.resource_version)
    return Page(page.kind, page.api_version, version, page.metadata.continue_token, items)


def read_table_versions(body: bytes) -> Page:
    """Which objects at which versions a Table shows; their `raw` is b"". Raises `Malformed`."""
    table = _decode(_TABLE, body)
    items = [_bare_item(row.object.metadata, b"") for row in table.rows or ()]
    version = read_version(table.metadata.resource_version)
    return Page(table.kind, table.api_version, version, table.metadata.continue_token, items)


def read_version(text: str) -> int:
    """A resourceVersion that can be compared (KEP-5504). Raises `Malformed` for any other."""
    if text.isascii() and text.isdigit() and len(text) < 20 and (text[0] != "0" or text == "0"):
        version = int(text)
        if version <= _MAX_VERSION:
            return version
    raise Malformed(f"resourceVersion {text[:64]!r} is not an integer")


def with_version(raw: bytes, version: int) -> bytes:
    """The same bytes, with this metadata.resourceVersion instead of their own."""
    old = bytes(_decode(_VERSIONED, raw).metadata.resource_version)
    new = b'"%d"' % version
    if old == new:
        return raw
    at = _position(raw, old, new)
    return b"".join((raw[:at], new, raw[at + len(old) :]))


def metadata_only(raw: bytes, api_version: str) -> bytes:
    """The object as PartialObjectMetadata; `api_version` is meta.k8s.io/v1 or v1beta1."""
    metadata = _decode(_RAW_METADATA, raw).metadata
    head = f'{{"kind":"PartialObjectMetadata","apiVersion":"{api_version}","metadata":'
    return b"".join((head.encode(), metadata, b"}"))


def uid(raw: bytes) -> str:
    """metadata.uid; "" where missing."""
    return _decode(_LABELLED, raw).metadata.uid


class Facets:
    """What selectors ask of an object; decoded when asked, and only so far."""

    __slots__ = ("_facts", "_raw", "_tree")

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._facts: _Facts | None = None
        self._tree: dict[str, object] | None = None

    @property
    def labels(self) -> Mapping[str, str]:
        return self._known().labels or {}

    def field(self, path: str) -> str:
        """The text of a scalar at a dotted path, as selectors compare it; "" where missing."""
        if path == "metadata.name":
            return self._known().name
        if path == "metadata.namespace":
            return self._known().namespace
        return _text(self.value(path))

    def value(self, path: str) -> object:
        """Whatever stands at a dotted path (dict, list, str, int, float, bool), or None."""
        if self._tree is None:
            self._tree = _decode(_TREE, self._raw)
        value: object = self._tree
        for name in path.split("."):
            if not isinstance(value, dict):
                return None
            value = value.get(name)
        return value

    def _known(self) -> _Facts:
        if self._facts is None:
            self._facts = _decode(_LABELLED, self._raw).metadata
        return self._facts


def facets(raw: bytes) -> Facets:
    return Facets(raw)


class _Prefixes:
    """What goes before the first member of a list item that lacks its kind or apiVersion."""

    def __init__(self, kind: str, api_version: str) -> None:
        named_kind = b'"kind":' + msgspec.json.encode(kind) + b","
        named_version = b'"apiVersion":' + msgspec.json.encode(api_version) + b","
        self.kind = b"{" + named_kind if kind else b""
        self.api_version = b"{" + named_version if api_version else b""
        self.both = b"{" + named_kind + named_version if kind and api_version else b""

    def missing_in(self, read: _Object) -> bytes:
        if read.kind is None:
            return self.both if read.api_version is None else self.kind
        return self.api_version


def _item(raw: bytes, prefixes: _Prefixes | None = None) -> Item:
    read = _decode(_OBJECT, raw)
    if b"\n" in raw or b"\r" in raw:
        raw = raw.translate(None, _LINE_BREAKS)
    if not raw.isascii():
        _check_utf8(raw)
    if read.kind is None or read.api_version is None:
        prefix = prefixes.missing_in(read) if prefixes else b""
        if not prefix:
            raise Malformed("an object without kind or apiVersion")
        raw = b"".join((prefix, memoryview(raw)[1:]))
    return _bare_item(read.metadata, raw)


def _bare_item(meta: _Meta, raw: bytes) -> Item:
    # Few namespaces, many objects.
    key = (sys.intern(meta.namespace), meta.name)
    return Item(key, read_version(meta.resource_version), raw)


def _check_utf8(raw: bytes) -> None:
    """The decoder does not look into strings that it skips; a selector would, later."""
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        raise Malformed(str(error)) from error


def _decode(decoder: msgspec.json.Decoder[T], data: bytes | Raw) -> T:
    try:
        return decoder.decode(data)
    except (ValueError, RecursionError) as error:
        raise Malformed(str(error)) from error


def _position(raw: bytes, old: bytes, new: bytes) -> int:
    """Where the token `old` stands that is metadata.resourceVersion, not one that equals it."""
    candidates = list(_occurrences(raw, old))
    while len(candidates) > 1:
        half = candidates[: len(candidates) // 2]
        tried = _decode(_VERSIONED, _replaced(raw, half, len(old), new))
        is_in_half = bytes(tried.metadata.resource_version) == new
        candidates = half if is_in_half else candidates[len(half) :]
    return candidates[0]


def _occurrences(raw: bytes, token: bytes) -> list[int]:
    found = []
    at = raw.find(token)
    while at >= 0:
        found.append(at)
        at = raw.find(token, at + len(token))
    return found


def _replaced(raw: bytes, positions: list[int], length: int, new: bytes) -> bytes:
    ends = [0, *(at + length for at in positions)]
    starts = [*positions, len(raw)]
    return new.join(raw[end:start] for end, start in zip(ends, starts, strict=True))


def _text(value: object) -> str:
    """As Go prints it (k8s.io/client-go/util/jsonpath), which selectable fields of CRDs go by."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        # A JSON number with a fraction of zero is a valid integer.
        case float() if value.is_integer():
            return str(int(value))
        case _:
            return ""
