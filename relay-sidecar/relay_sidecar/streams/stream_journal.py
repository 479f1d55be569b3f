"""Streams and single objects as records of the journal, and back after a restart.

Whoever changes a stream has its record in the journal before any client learns of the change.
"""

from collections.abc import Iterable, Iterator, Mapping

import msgspec
from msgspec import Struct

from edge_sidecars.apimachinery.objects import Page
from edge_sidecars.apimachinery.scope import ListScope
from relay_sidecar.core.never_kept import may_be_kept
from relay_sidecar.journal.records import (
    Blob,
    ListReplaced,
    ObjectEvicted,
    Record,
    Saved,
    StreamDeleted,
)
from relay_sidecar.journal.tables import scope_text
from relay_sidecar.streams.stream import Stream
from relay_sidecar.streams.streams import Streams

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
        yield _unreadable(stream.scope, page.unreadable)


def missed_record(stream: Stream) -> Record:
    """Events of it could not be read."""
    return _unreadable(stream.scope, stream.unreadable + stream.missed)


def equal_record(stream: Stream) -> Blob:
    """Upstream held the same at the stream's `equal_at`."""
    equal = Equal(stream.collection.cursor, stream.equal_at, stream.confirmed_at)
    value = msgspec.msgpack.encode(equal)
    return Blob(SPACE, _key(stream.scope), value, resource=stream.scope.resource)


def deletion_records(streams: Iterable[Stream]) -> Iterator[Record]:
    """Of streams, with all that they hold."""
    for stream in streams:
        yield StreamDeleted(stream.scope)
        yield Blob(SPACE, _key(stream.scope), None)
        if not stream.is_whole:
            yield _unreadable(stream.scope, 0)


def everything(streams: Streams) -> Iterator[Record]:
    """What a disk that missed something is to be given."""
    for stream in streams:
        if stream.collection.is_synced:
            yield ListReplaced(
                stream.scope,
                stream.list_kind,
                stream.api_version,
                stream.collection.cursor,
                tuple(stream.collection.objects.values()),
                stream.confirmed_at,
            )
            if stream.equal_at:
                yield equal_record(stream)
            if not stream.is_whole:
                yield missed_record(stream)
    yield from streams.seen


def restore(streams: Streams, saved: Saved, *, now: float, wall: float) -> list[Record]:
    """The streams and objects as the last run left them; times of use become monotonic ones.
    Returns what the disk is to lose: there is no room for it, or an earlier release kept what is
    never kept."""
    kept, unreadable = saved.kept.get(SPACE, {}), saved.kept.get(UNREADABLE, {})
    surplus: list[Record] = []
    for one in saved.streams:
        if not may_be_kept(one.scope.resource):
            surplus += (StreamDeleted(one.scope), Blob(SPACE, _key(one.scope), None))
            continue
        lost = int(unreadable.get(_key(one.scope), b"0"))
        page = Page(one.kind, one.api_version, one.cursor, "", one.items)
        used_at = now - max(wall - one.used_at, 0.0)
        equal = _read(kept, one.scope)
        if equal is None or equal.cursor != one.cursor:
            equal = Equal(one.cursor, 0, 0.0)
        streams.restore(
            one.scope,
            page,
            equal_at=equal.version,
            missed=lost,
            confirmed_at=max(one.confirmed_at, equal.at),
            now=used_at,
        )
    for seen in saved.seen:
        if not may_be_kept(seen.resource):
            surplus.append(ObjectEvicted(seen.resource, seen.item.key, seen.is_of_node))
            continue
        records = streams.seen.remember(
            seen.resource, seen.item, at=seen.at, is_of_node=seen.is_of_node
        )
        surplus += (record for record in records if isinstance(record, ObjectEvicted))
    return surplus


def _read(kept: Mapping[bytes, bytes], scope: ListScope) -> Equal | None:
    value = kept.get(_key(scope))
    return None if value is None else msgspec.msgpack.decode(value, type=Equal)


def _unreadable(scope: ListScope, count: int) -> Blob:
    value = b"%d" % count if count else None
    return Blob(UNREADABLE, _key(scope), value, resource=scope.resource)


def _key(scope: ListScope) -> bytes:
    return scope_text(scope).encode()
