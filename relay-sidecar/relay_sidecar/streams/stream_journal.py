"""Streams and single objects as records of the journal, and back after a restart.

Each change is in the journal before any client learns of it. The journal sees to it that a disk
which stalls or fails costs persistence, not answers.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec import Struct

from edge_sidecars.apimachinery.objects import Event, Item, Key, Page
from edge_sidecars.apimachinery.resource_name import ResourceName
from edge_sidecars.apimachinery.scope import ListScope
from edge_sidecars.apimachinery.watch_events import EventType
from relay_sidecar.journal import records
from relay_sidecar.journal.journal import Journal
from relay_sidecar.journal.records import Blob, Record, Saved, is_secret
from relay_sidecar.journal.rows import scope_text
from relay_sidecar.streams.stream import Stream
from relay_sidecar.streams.streams import Streams

# Of the journal's `Blob`: what `Equal` says, by the stream's scope.
SPACE = "equal"


class Equal(Struct, frozen=True):
    """Upstream held at `version`, at wall time `at`, what the stream holds at `cursor`."""

    cursor: int
    version: int
    at: float


class StreamJournal:
    """Each coroutine returns when the change is on disk, or cannot be. The other methods return at
    once; what is written later comes after their changes."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def list_chunk(self, stream: Stream, items: Sequence[Item]) -> None:
        """Objects of a list that is still arriving, of which a restart finds nothing before
        `list_replaced`."""
        self._journal.send(records.ListChunk(stream.scope, items))

    def list_aborted(self, stream: Stream) -> None:
        """The list that was arriving does not become whole."""
        self._journal.send(records.ListAborted(stream.scope))

    async def list_replaced(self, stream: Stream, page: Page, *, at: float) -> None:
        await self._journal.commit(
            records.ListReplaced(
                stream.scope, page.kind, page.api_version, page.version, page.items, at
            )
        )

    async def events_applied(self, stream: Stream, events: Sequence[Event]) -> None:
        after = stream.collection.cursor
        news = [event for event in events if event.version >= after]
        if not news:
            return
        changes: list[tuple[Key, Item | None]] = [
            (event.item.key, None if event.type is EventType.DELETED else event.item)
            for event in news
            if event.item is not None
        ]
        cursor = news[-1].version
        at = stream.confirmed_at
        await self._journal.commit(records.EventsApplied(stream.scope, after, cursor, changes, at))

    def equal(self, stream: Stream) -> None:
        """Upstream held the same at the stream's `equal_at`."""
        if not is_secret(records.StreamDeleted(stream.scope)):
            self._journal.send(_equal(stream))

    async def deleted(self, *streams: Stream) -> None:
        await self._journal.commit(*_deleted(streams))

    def went_back(
        self, resource: ResourceName, streams: Sequence[Stream], keys: Iterable[Key]
    ) -> None:
        """Deletes what is of a history that upstream lost."""
        self._journal.send(
            *_deleted(streams), *(records.ObjectEvicted(resource, key) for key in keys)
        )

    async def touched(self, *streams: Stream) -> None:
        now = time.time()
        await self._journal.commit(
            *(records.StreamTouched(stream.scope, now) for stream in streams)
        )

    async def object_seen(self, resource: ResourceName, item: Item) -> None:
        await self._journal.commit(records.ObjectSeen(resource, item, time.time()))

    async def object_evicted(self, resource: ResourceName, key: Key) -> None:
        await self._journal.commit(records.ObjectEvicted(resource, key))


def everything(streams: Streams) -> Iterator[Record]:
    """What a disk that missed something is to be given."""
    for stream in streams:
        if stream.collection.is_synced:
            yield records.ListReplaced(
                stream.scope,
                stream.list_kind,
                stream.api_version,
                stream.collection.cursor,
                tuple(stream.collection.objects.values()),
                stream.confirmed_at,
            )
            if stream.equal_at:
                yield _equal(stream)
    for resource, item, at in streams.seen:
        yield records.ObjectSeen(resource, item, at)


def restore(streams: Streams, saved: Saved, *, now: float, wall: float) -> None:
    """The streams and objects as the last run left them; times of use become monotonic ones."""
    kept = saved.kept.get(SPACE, {})
    for one in saved.streams:
        page = Page(one.kind, one.api_version, one.cursor, "", one.items)
        used_at = now - max(wall - one.used_at, 0.0)
        equal = _read(kept, one.scope)
        if equal is None or equal.cursor != one.cursor:
            equal = Equal(one.cursor, 0, 0.0)
        streams.restore(
            one.scope,
            page,
            equal_at=equal.version,
            confirmed_at=max(one.confirmed_at, equal.at),
            now=used_at,
        )
    for seen in saved.seen:
        streams.seen.remember(seen.resource, seen.item, at=seen.seen_at)


def _equal(stream: Stream) -> Blob:
    equal = Equal(stream.collection.cursor, stream.equal_at, stream.confirmed_at)
    return Blob(SPACE, _key(stream.scope), msgspec.msgpack.encode(equal))


def _deleted(streams: Sequence[Stream]) -> Iterator[Record]:
    for stream in streams:
        yield records.StreamDeleted(stream.scope)
        yield Blob(SPACE, _key(stream.scope), None)


def _read(kept: Mapping[bytes, bytes], scope: ListScope) -> Equal | None:
    value = kept.get(_key(scope))
    return None if value is None else msgspec.msgpack.decode(value, type=Equal)


def _key(scope: ListScope) -> bytes:
    return scope_text(scope).encode()
