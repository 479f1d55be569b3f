"""Kubernetes objects, lists and watch events as upstream sent them, read just as far as needed.

Owns the slicing of JSON: whose object it is, at which version, and where its bytes begin and end;
nothing of what a resource means. Guarantees: `Item.raw` are upstream's own bytes, detached from the
page or line that brought them. A list item gets the kind and apiVersion that its list left out. Of
an indented object all space between tokens goes, so that it fits into one line of a watch, and is
as long for each client. Whatever cannot be read like this is `Malformed`, never guessed
at. Of duplicate keys the last one counts, as in Go.
"""

import sys
from typing import Final, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from edge_sidecars.apimachinery.watch_events import Bookmark, EventType, Failure, parse_line

Key = tuple[str, str]
"""(namespace, name); the namespace of a cluster-scoped object is ""."""

# etcd's revisions are int64 (etcdserverpb.ResponseHeader.revision).
_MAX_VERSION: Final = 2**63 - 1

T = TypeVar("T")


class Malformed(ValueError):
    """Not what an API server sends: not JSON, no metadata, or a version that is no integer."""


# Structs, not dataclasses: ten thousand of them are made per list, and the cyclic garbage
# collector need not look at what cannot form a cycle.
class Item(Struct, frozen=True, eq=False, gc=False):
    """One object; `raw` is complete JSON with kind and apiVersion, in one line. `uid_hash` is
    known once a shard selector has asked for it (selection.attrs)."""

    key: Key
    version: int
    raw: bytes
    uid_hash: int | None = None


class Event(Struct, frozen=True, eq=False, gc=False):
    """`item` of ADDED, MODIFIED and DELETED; `status` of ERROR, whose version is 0."""

    type: EventType
    version: int
    item: Item | None = None
    status: Failure | None = None
    is_initial_end: bool = False


class Page(Struct, frozen=True, eq=False):
    """A list, or one page of it; the last one has no continue token. `remaining`: how many objects
    there are beyond it, where upstream counts them; `unreadable`: how many items it has that cannot
    be read, and are not among its own."""

    kind: str
    api_version: str
    version: int
    continue_token: str
    items: list[Item]
    remaining: int | None = None
    unreadable: int = 0


class _ItemMeta(Struct, rename="camel", gc=False):
    name: str
    resource_version: str
    namespace: str = ""


class _ItemHead(Struct, rename="camel", gc=False):
    metadata: _ItemMeta
    # Null would be neither there nor absent.
    kind: str | UnsetType = UNSET
    api_version: str | UnsetType = UNSET


class _PageMeta(Struct, rename="camel"):
    resource_version: str
    continue_token: str = msgspec.field(default="", name="continue")
    remaining_item_count: int | None = None


class _ListHead(Struct, rename="camel"):
    kind: str
    api_version: str
    metadata: _PageMeta
    # Go sends null for an empty list that was never made; without the key it is no list.
    items: list[Raw] | None


class _TableRow(Struct, gc=False):
    object: _ItemHead


class _Table(Struct, rename="camel"):
    kind: str
    api_version: str
    metadata: _PageMeta
    rows: list[Raw] | None


class _TypeMeta(Struct, rename="camel", gc=False):
    kind: str = ""
    api_version: str = ""


# Of what shows objects without being one: Table, PartialObjectMetadata, a list of it.
META_GROUP: Final = "meta.k8s.io/"

_TYPE: Final = msgspec.json.Decoder(_TypeMeta)
_OBJECT: Final = msgspec.json.Decoder(_ItemHead)
_LIST: Final = msgspec.json.Decoder(_ListHead)
_TABLE: Final = msgspec.json.Decoder(_Table)
_ROW: Final = msgspec.json.Decoder(_TableRow)


def decode(decoder: msgspec.json.Decoder[T], data: bytes | bytearray | Raw) -> T:
    """Raises `Malformed`, also for what is nested too deep."""
    try:
        return decoder.decode(data)
    except (ValueError, RecursionError) as error:
        raise Malformed(str(error)) from error


def read_item(raw: bytes, prefixes: "Prefixes | None" = None) -> Item:
    """The answer to a GET or a write, or an item of a list, with what that has left out of it.

    Raises `Malformed`, also for what is not one whole object."""
    read = decode(_OBJECT, raw)
    if has_breaks(raw):
        raw = compact(raw)
    if not raw.isascii():
        _check_utf8(raw)
    if not read.kind or not read.api_version:
        prefix = prefixes.missing_in(read) if prefixes else b""
        if not prefix:
            raise Malformed("an object without kind or apiVersion")
        raw = b"".join((prefix, memoryview(raw)[1:]))
    return _bare_item(read.metadata, raw)


def has_breaks(raw: bytes) -> bool:
    """Whether a JSON text is in more than one line: inside a string both are illegal."""
    return b"\n" in raw or b"\r" in raw


def compact(raw: bytes) -> bytes:
    """The same JSON without space between its tokens: kube-apiserver indents what it answers to
    curl and browsers. Raises `Malformed`."""
    raw = raw.strip()
    try:
        return msgspec.json.format(raw, indent=-1) if has_breaks(raw) else raw
    except (ValueError, RecursionError) as error:
        raise Malformed(str(error)) from error


def kind_of(raw: bytes) -> str:
    """The kind of an object; "" where it has none. Raises `Malformed`."""
    return decode(_TYPE, raw).kind


def is_whole(raw: bytes) -> bool:
    """Whether it is an object itself, not what is shown of one. Raises `Malformed`."""
    return not decode(_TYPE, raw).api_version.startswith(META_GROUP)


def read_event(line: bytes) -> Event:
    """One line of a watch. Raises `Malformed`, also for a line that was cut off."""
    try:
        event = parse_line(line, _changed)
    except (ValueError, RecursionError) as error:
        raise Malformed(str(error)) from error
    if isinstance(event, Event):
        return event
    if isinstance(event, Bookmark):
        version = read_version(event.resource_version)
        return Event(EventType.BOOKMARK, version, is_initial_end=event.is_initial_end)
    return Event(EventType.ERROR, 0, status=event)


def _changed(kind: EventType, raw: bytes) -> Event:
    item = read_item(raw)
    return Event(kind, item.version, item)


def read_page(body: bytes | bytearray) -> Page:
    """The answer to a LIST; an item that cannot be read is counted. Raises `Malformed`."""
    page = decode(_LIST, body)
    prefixes = Prefixes(page.kind.removesuffix("List"), page.api_version)
    items, unreadable = [], 0
    for raw in page.items or ():
        try:
            items.append(read_item(bytes(raw), prefixes))
        except Malformed:
            unreadable += 1
    meta = page.metadata
    version = read_version(meta.resource_version)
    return Page(
        page.kind,
        page.api_version,
        version,
        meta.continue_token,
        items,
        meta.remaining_item_count,
        unreadable,
    )


def read_table_versions(body: bytes) -> Page:
    """Which objects at which versions a Table shows; their `raw` is b"". A row that does not say
    it, as none does to who asks for no objects, is counted. Raises `Malformed`."""
    table = decode(_TABLE, body)
    items, unreadable = [], 0
    for row in table.rows or ():
        try:
            items.append(_bare_item(decode(_ROW, row).object.metadata, b""))
        except Malformed:
            unreadable += 1
    return Page(
        table.kind,
        table.api_version,
        read_version(table.metadata.resource_version),
        table.metadata.continue_token,
        items,
        unreadable=unreadable,
    )


def read_version(text: str) -> int:
    """A resourceVersion that can be compared (KEP-5504). Raises `Malformed` for any other."""
    if text.isascii() and text.isdigit() and len(text) < 20 and (text[0] != "0" or text == "0"):
        version = int(text)
        if version <= _MAX_VERSION:
            return version
    raise Malformed(f"resourceVersion {text[:64]!r} is not an integer")


class Prefixes:
    """What goes before the first member of a list item that lacks its kind or apiVersion."""

    def __init__(self, kind: str, api_version: str) -> None:
        named_kind = b'"kind":' + msgspec.json.encode(kind) + b","
        named_version = b'"apiVersion":' + msgspec.json.encode(api_version) + b","
        self.kind = b"{" + named_kind if kind else b""
        self.api_version = b"{" + named_version if api_version else b""
        self.both = b"{" + named_kind + named_version if kind and api_version else b""

    def missing_in(self, read: _ItemHead) -> bytes:
        """b"" where what is there, is there and empty."""
        lacks_kind, lacks_version = read.kind is UNSET, read.api_version is UNSET
        if lacks_kind and lacks_version:
            return self.both
        if lacks_kind and read.api_version:
            return self.kind
        return self.api_version if lacks_version and read.kind else b""


def _bare_item(meta: _ItemMeta, raw: bytes) -> Item:
    # Few namespaces, many objects.
    key = (sys.intern(meta.namespace), meta.name)
    return Item(key, read_version(meta.resource_version), raw)


def _check_utf8(raw: bytes) -> None:
    """The decoder does not look into strings that it skips; a selector would, later."""
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        raise Malformed(str(error)) from error
