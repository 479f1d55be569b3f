"""Streams as records of the journal.

A change of a stream is in the journal before any client sees it.
"""

from collections.abc import Iterable, Iterator, Mapping

import msgspec
from msgspec import Struct

from edge_sidecars.apimachinery.objects import Page
from edge_sidecars.apimachinery.scope import ListScope
from relay_sidecar.journal.records import (
    Blob,
    ListReplaced,
    Record,
    StreamDeleted,
)
from relay_sidecar.journal.tables import scope_text
from relay_sidecar.streams.stream import Stream

# Of the journal's `Blob`: what `Equal` says, by the stream's scope; how many items and events of a
# stream could not be read, where there were any.
SPACE, UNREADABLE = "equal", "unreadable"


class Equal(Struct, frozen=True):
    """Upstream held at `version`, at wall time `at`, what the stream holds at `cursor`."""

    cursor: int
    version: int
    at: float


def list_records(stream: Stream, page: Page, *, at: float) -> Iterator[Record]:
    """A whole list that upstream sent at `at`."""
    yield ListReplaced(stream.scope, page.kind, page.api_version, page.version, page.items, at)
    if page.unreadable or not stream.is_whole:
        yield unreadable_record(stream.scope, page.unreadable)


def missed_record(stream: Stream) -> Record:
    """Events of it could not be read."""
    return unreadable_record(stream.scope, stream.unreadable + stream.missed)


def equal_record(stream: Stream) -> Blob:
    """Upstream held the same at the stream's `equal_at`."""
    equal = Equal(stream.collection.cursor, stream.equal_at, stream.confirmed_at)
    value = msgspec.msgpack.encode(equal)
    return Blob(SPACE, key_of(stream.scope), value, resource=stream.scope.resource)


def deletion_records(streams: Iterable[Stream]) -> Iterator[Record]:
    """Of streams, with all that they hold."""
    for stream in streams:
        yield StreamDeleted(stream.scope)
        yield Blob(SPACE, key_of(stream.scope), None)
        if not stream.is_whole:
            yield unreadable_record(stream.scope, 0)


def read_equal(kept: Mapping[bytes, bytes], scope: ListScope) -> Equal | None:
    value = kept.get(key_of(scope))
    return None if value is None else msgspec.msgpack.decode(value, type=Equal)


def unreadable_record(scope: ListScope, count: int) -> Blob:
    value = b"%d" % count if count else None
    return Blob(UNREADABLE, key_of(scope), value, resource=scope.resource)


def key_of(scope: ListScope) -> bytes:
    return scope_text(scope).encode()
