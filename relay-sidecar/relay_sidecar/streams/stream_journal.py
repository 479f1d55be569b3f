"""What of the streams and of single objects outlasts a restart.

Told to the journal before it is told to anybody, and brought back from it. The journal sees to it
that a disk which stalls or fails makes the relay forgetful, not deaf.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import msgspec
from msgspec import Struct

from edge_sidecars.apimachinery.objects import Event, Item, Key, Page
from edge_sidecars.apimachinery.resource_name import ResourceName
from edge_sidecars.apimachinery.scope import Scope
from edge_sidecars.apimachinery.watch_events import EventType
from relay_sidecar.journal.records import (
    Abandoned,
    Dropped,
    Forgotten,
    Kept,
    Listed,
    Moved,
    Record,
    Replaced,
    Saved,
    Seen,
    Used,
    is_secret,
)
from relay_sidecar.journal.rows import scope_text
from relay_sidecar.streams.stream import Stream
from relay_sidecar.streams.streams import Streams

# Of the journal's `Kept`: what `Equal` says, by the stream's scope.
SPACE = "equal"


class Equal(Struct, frozen=True):
    """Upstream held at `version`, at wall time `at`, what the stream holds at `cursor`."""

    cursor: int
    version: int
    at: float


class Journal(Protocol):
    async def commit(self, *records: Record) -> None:
        """Returns when it is on disk, or when it cannot be."""
        ...

    def send(self, *records: Record) -> None:
        """The same, without waiting."""
        ...


class Keeping:
    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def listing(self, stream: Stream, items: Sequence[Item]) -> None:
        self._journal.send(Listed(stream.scope, items))

    def abandoned(self, stream: Stream) -> None:
        self._journal.send(Abandoned(stream.scope))

    async def replaced(self, stream: Stream, page: Page, *, at: float) -> None:
        await self._journal.commit(
            Replaced(stream.scope, page.kind, page.api_version, page.version, page.items, at)
        )

    async def moved(self, stream: Stream, events: Sequence[Event]) -> None:
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
        await self._journal.commit(Moved(stream.scope, after, cursor, changes, at))

    def equal(self, stream: Stream) -> None:
        if not is_secret(Dropped(stream.scope)):
            self._journal.send(_equal(stream))

    async def dropped(self, *streams: Stream) -> None:
        await self._journal.commit(*_dropped(streams))

    def went_back(
        self, resource: ResourceName, streams: Sequence[Stream], keys: Iterable[Key]
    ) -> None:
        """These are of no history; nobody waits, and what comes next is kept after it."""
        self._journal.send(*_dropped(streams), *(Forgotten(resource, key) for key in keys))

    async def used(self, *streams: Stream) -> None:
        now = time.time()
        await self._journal.commit(*(Used(stream.scope, now) for stream in streams))

    async def seen(self, resource: ResourceName, item: Item) -> None:
        await self._journal.commit(Seen(resource, item, time.time()))

    async def forgotten(self, resource: ResourceName, key: Key) -> None:
        await self._journal.commit(Forgotten(resource, key))


def everything(streams: Streams) -> Iterator[Record]:
    """What a disk that missed something is to be given."""
    for stream in streams:
        if stream.collection.is_synced:
            yield Replaced(
                stream.scope,
                stream.list_kind,
                stream.api_version,
                stream.collection.cursor,
                tuple(stream.collection.objects.values()),
                stream.confirmed_at,
            )
            if stream.equal_at:
                yield _equal(stream)
    for resource, item, at in streams.seen():
        yield Seen(resource, item, at)


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
        streams.remember(seen.resource, seen.item, at=seen.seen_at)


def _equal(stream: Stream) -> Kept:
    equal = Equal(stream.collection.cursor, stream.equal_at, stream.confirmed_at)
    return Kept(SPACE, _key(stream.scope), msgspec.msgpack.encode(equal))


def _dropped(streams: Sequence[Stream]) -> Iterator[Record]:
    for stream in streams:
        yield Dropped(stream.scope)
        yield Kept(SPACE, _key(stream.scope), None)


def _read(kept: Mapping[bytes, bytes], scope: Scope) -> Equal | None:
    value = kept.get(_key(scope))
    return None if value is None else msgspec.msgpack.decode(value, type=Equal)


def _key(scope: Scope) -> bytes:
    return scope_text(scope).encode()
