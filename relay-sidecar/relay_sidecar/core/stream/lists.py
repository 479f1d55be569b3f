"""Lists of upstream: page by page, decoded while they arrive, or as metadata only.

Guarantees: a list is whole or not there; what is decoded early is what `read_page` reads, which
decodes whatever cannot be read piece by piece. A list of metadata proves what a stream holds: it
takes upstream a ninth of the time of 1000 pods, and is parsed only when its digest is new.
Sources: k8s.io/apimachinery v0.37, pkg/runtime/generated.proto (Unknown), pkg/apis/meta/v1/
generated.proto (PartialObjectMetadataList, PartialObjectMetadata, ListMeta, ObjectMeta).
"""

from hashlib import blake2b
from typing import Final

from edge_sidecars.apimachinery.objects import (
    Item,
    Malformed,
    Page,
    Prefixes,
    read_item,
    read_page,
    read_version,
)
from edge_sidecars.apimachinery.protobuf_wire import BadWire, fields, text
from edge_sidecars.apimachinery.store import fingerprint_of
from relay_sidecar.core.stream.commands import ListRequest

# client-go pages by 500; twice that halves the round trips, and a page stays near 3 MB.
PAGE_LIMIT: Final = 1000
# So many objects beyond the first page are listed at once after all: kube-apiserver answers a
# whole list from its cache, several times as fast as pages; 3 KB each, they are 60 MB for a moment.
WHOLE_LIMIT: Final = 20_000


class PagedList:
    def __init__(self) -> None:
        self._first: Page | None = None
        self._items: list[Item] = []
        self._unreadable = 0
        self._token = ""
        self._limit = PAGE_LIMIT

    def request(self) -> ListRequest:
        """The next page."""
        return ListRequest(self._token, self._limit)

    def take(self, page: Page) -> Page | None:
        """The whole list, with its last page. Raises `Malformed` for a page of another list."""
        first = self._first or page
        if page.version != first.version:
            self.clear()
            raise Malformed(f"pages of one list at versions {first.version} and {page.version}")
        if page.continue_token and self._first is None and _is_short(page):
            self._limit = 0
            return None
        if page.continue_token:
            self._first = first
            self._items.extend(page.items)
            self._unreadable += page.unreadable
            self._token = page.continue_token
            return None
        items = [*self._items, *page.items] if self._items else page.items
        unreadable = self._unreadable + page.unreadable
        self.clear()
        return Page(page.kind, page.api_version, page.version, "", items, unreadable=unreadable)

    def expire(self) -> bool:
        """The token is no longer valid. Whether there was one: a list that takes longer than etcd
        keeps its version is then requested as a whole, as client-go's pager does
        (k8s.io/client-go/tools/pager, FullListIfExpired)."""
        is_paged = bool(self._token)
        self.clear()
        if is_paged:
            self._limit = 0
        return is_paged

    def clear(self) -> None:
        self._first = None
        self._items = []
        self._unreadable = 0
        self._token = ""
        self._limit = PAGE_LIMIT


def _is_short(first: Page) -> bool:
    return first.remaining is not None and first.remaining <= WHOLE_LIMIT


# Where the types of an API server in Go have their items: behind kind, apiVersion and metadata.
_ITEMS: Final = b'"items":['
# Bytes in which that is to be found.
_HEAD: Final = 16 * 1024
# Objects may hold arrays of what looks like items. After so many that did not end where it seemed,
# the list is read at its end.
_MISTAKES: Final = 16


class ArrivingList:
    """Of one body, which is handed over as far as it has come, each time from its first byte on.
    Its items are returned in batches of at least so many bytes."""

    def __init__(self, *, batch: int = 1) -> None:
        self._batch = batch
        self._returned = self._pending_bytes = 0
        self._head: Page | None = None
        self._prefixes: Prefixes | None = None
        self._items: list[Item] = []
        self._is_given_up = False
        # What is between two items: the end of one and the beginning of the next.
        self._border = b""
        self._start = self._look_from = 0
        self._mistakes = 0

    def more(self, body: bytearray) -> list[Item]:
        """The next batch of items, once it is there; the last, partial batch is only in `whole`."""
        self._read(body)
        if self._pending_bytes < self._batch:
            return []
        returned, self._returned, self._pending_bytes = self._returned, len(self._items), 0
        return self._items[returned:]

    def whole(self, body: bytearray) -> Page:
        """The list, once all of it is there. Raises `Malformed`."""
        self._read(body)
        head, prefixes = self._head, self._prefixes
        last = bytes(body[self._start :]).rstrip()
        if head is None or prefixes is None or self._is_given_up or not last.endswith(b"}]}"):
            return read_page(body)
        try:
            self._items.append(read_item(last[:-2], prefixes))
        except Malformed:
            return read_page(body)
        return Page(
            head.kind,
            head.api_version,
            head.version,
            head.continue_token,
            self._items,
            head.remaining,
        )

    def _read(self, body: bytearray) -> None:
        if self._head is None and not self._is_given_up:
            self._begin(body)
        prefixes = self._prefixes
        while prefixes is not None and not self._is_given_up:
            end = body.find(self._border, self._look_from)
            if end < 0:
                self._look_from = max(self._start, len(body) - len(self._border))
                break
            self._look_from = end + 1
            try:
                item = read_item(bytes(body[self._start : end + 1]), prefixes)
            except Malformed:
                self._mistakes += 1
                self._is_given_up = self._mistakes > _MISTAKES
                continue
            self._items.append(item)
            self._pending_bytes += len(item.raw)
            self._start = end + 2

    def _begin(self, body: bytearray) -> None:
        """Looks for the first item."""
        found = body.find(_ITEMS, 0, _HEAD)
        start = found + len(_ITEMS)
        colon = body.find(b":", start, start + _HEAD)
        if found < 0 or colon < 0:
            self._is_given_up = len(body) > 2 * _HEAD
            return
        try:
            self._head = read_page(body[:start] + b"]}")
        except Malformed:
            # Custom resources tell their metadata behind the items.
            self._is_given_up = True
            return
        kind = self._head.kind.removesuffix("List")
        self._prefixes = Prefixes(kind, self._head.api_version)
        self._border = bytes(b"}," + body[start : colon + 1])
        self._start = self._look_from = start


# JSON for who knows no protobuf, such as an aggregated API server of its own kind.
ACCEPT: Final = ",".join(
    f"{media_type};as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
    for media_type in ("application/vnd.kubernetes.protobuf", "application/json")
)
# HTTP 406 and 415: upstream does not serve objects in the form that was asked for.
NOT_IN_THIS_FORM: Final = frozenset({406, 415})
_MAGIC: Final = b"k8s\x00"
# Unknown.raw.
_RAW: Final = 2
# PartialObjectMetadataList.
_LIST_META, _LIST_ITEMS = 1, 2
# ListMeta.
_LIST_VERSION, _CONTINUE = 2, 3
# PartialObjectMetadata.
_OBJECT_META: Final = 1
# ObjectMeta; Go writes fields in the order of their numbers.
_NAME, _NAMESPACE, _VERSION = 1, 3, 6
_DIGEST_BYTES: Final = 16


class MetadataList:
    """`version` of the list; `digest` of its objects, whatever the list's version."""

    def __init__(self, version: int, digest: bytes, items: memoryview | list[Item]) -> None:
        self.version = version
        self.digest = digest
        self._items = items

    def fingerprint(self) -> int:
        """As `fingerprint_of` the objects. Raises `Malformed`."""
        items = self._items
        if isinstance(items, list):
            return fingerprint_of(items)
        try:
            return fingerprint_of(
                _item(value) for number, value in fields(items) if number == _LIST_ITEMS
            )
        except BadWire as error:
            raise Malformed(str(error)) from error


def read_metadata(body: bytes | bytearray) -> MetadataList:
    """Of an answer in protobuf, or in JSON (whole objects serve as well). Raises `Malformed`, also
    for a list that is not whole."""
    if not body.startswith(_MAGIC):
        page = read_page(body)
        if page.continue_token or page.unreadable:
            raise Malformed("a list that is not whole")
        fingerprint = fingerprint_of(page.items)
        return MetadataList(page.version, fingerprint.to_bytes(_DIGEST_BYTES), page.items)
    try:
        return _in_protobuf(memoryview(body)[len(_MAGIC) :])
    except BadWire as error:
        raise Malformed(str(error)) from error


def _in_protobuf(envelope: memoryview) -> MetadataList:
    raw = next((value for number, value in fields(envelope) if number == _RAW), None)
    if not isinstance(raw, memoryview):
        raise Malformed("a list without content")
    first = next(fields(raw), None)
    if first is None or first[0] != _LIST_META or not isinstance(first[1], memoryview):
        raise Malformed("a list that does not begin with its metadata")
    version = 0
    for number, value in fields(first[1]):
        if number == _LIST_VERSION and isinstance(value, memoryview):
            version = read_version(text(value))
        elif number == _CONTINUE and value:
            raise Malformed("a list that is not whole")
    if not version:
        raise Malformed("a list without a version")
    # A field is its tag, which is one byte here, its length and its bytes.
    size = len(first[1])
    items = raw[1 + (size.bit_length() + 6) // 7 + size :]
    return MetadataList(version, blake2b(items, digest_size=_DIGEST_BYTES).digest(), items)


def _item(item: int | memoryview | None) -> Item:
    meta = _bytes(
        next((value for number, value in fields(_bytes(item)) if number == _OBJECT_META), None)
    )
    name = namespace = version = ""
    for number, value in fields(meta):
        if number == _NAME:
            name = text(_bytes(value))
        elif number == _NAMESPACE:
            namespace = text(_bytes(value))
        elif number == _VERSION:
            version = text(_bytes(value))
        if number >= _VERSION:
            break
    return Item((namespace, name), read_version(version), b"")


def _bytes(value: int | memoryview | None) -> memoryview:
    if not isinstance(value, memoryview):
        raise Malformed("an object without metadata")
    return value
