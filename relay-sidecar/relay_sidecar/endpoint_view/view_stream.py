"""Follows upstream's EndpointSlices and the verdicts of the pool, and moves the stream of the view.

    streams (all EndpointSlices) ─┐
    pool (a line of /sources) ────┼─► overlays ─► journal ─► the view's one stream
    now ──────────────────────────┘

Guarantees: A version is persisted before it is shown, where it counts changes of the view. A list
of upstream ends the view's watches as it ends others. The stream exists while upstream's state is
known, and is as current as the stream that it follows, which stays open without readers.
"""

import asyncio
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Final, Never

from edge_sidecars.apimachinery.objects import Event, Item, Key, Page
from edge_sidecars.apimachinery.resource_version import with_version
from edge_sidecars.apimachinery.resources import ResourceName
from edge_sidecars.apimachinery.scope import ListScope
from edge_sidecars.apimachinery.status import expired
from edge_sidecars.apimachinery.store import Collection, Expired
from edge_sidecars.apimachinery.watch_events import EventType
from edge_sidecars.runtime.clock import boottime
from relay_sidecar.core.min_resource_version import MinResourceVersion
from relay_sidecar.core.verdicts import VerdictSource
from relay_sidecar.endpoint_view.endpoint_slice import Overlay
from relay_sidecar.endpoint_view.overlays import EndpointOverlays
from relay_sidecar.endpoint_view.view_status import EndpointViewStatus
from relay_sidecar.endpoint_view.view_version import (
    PersistedVersion,
    ViewVersion,
    view_version,
)
from relay_sidecar.journal.journal import Journal
from relay_sidecar.journal.records import Blob
from relay_sidecar.streams.stream import Mover, Stream
from relay_sidecar.streams.streams import NoRoom, Streams
from relay_sidecar.telemetry.metrics import RelayCounters


class FollowedStream(Mover):
    """`scope`: of the one stream in `sources` that is followed."""

    def __init__(self, sources: Streams, scope: ListScope) -> None:
        self._sources = sources
        self._scope = scope

    def is_open(self) -> bool:
        followed = self._followed
        return followed is not None and followed.is_open()

    def is_live(self) -> bool:
        followed = self._followed
        return followed is not None and followed.is_live()

    def confirmed_at(self) -> float:
        followed = self._followed
        return 0.0 if followed is None else followed.as_of

    @property
    def source(self) -> str:
        followed = self._followed
        return "" if followed is None else followed.source

    def confirm(self) -> None:
        followed = self._followed
        if followed is not None:
            followed.confirm()

    @property
    def _followed(self) -> Stream | None:
        return self._sources.exactly(self._scope)


SLICES: Final = ListScope(ResourceName("discovery.k8s.io", "v1", "endpointslices"))
# The journal's.
SPACE: Final = "endpoint-view"
_VERSION: Final = b"version"
# Seconds until a stream that was refused is opened again, and between two uses of one without
# readers.
RETRY: Final = 10.0


class EndpointView:
    """`saved`: what an earlier life left in `SPACE`; `cut_since`: when upstream was heard last
    (boot clock), None while it is not known to be out of reach; `chance` gives how far versions
    jump where states are unknown, see `ViewVersion.begin`."""

    def __init__(
        self,
        sources: Streams,
        pool: VerdictSource,
        journal: Journal,
        saved: Mapping[bytes, bytes],
        *,
        cut_since: Callable[[], float | None],
        chance: Callable[[], int],
    ) -> None:
        followed = FollowedStream(sources, SLICES)
        self.streams = Streams(
            lambda *_, is_up: followed,
            MinResourceVersion(),
            sources.limits,
            RelayCounters(),
            Journal(None),
            link=sources,
        )
        self.changes = 0
        self._sources = sources
        self._pool = pool
        self._journal = journal
        self._cut_since = cut_since
        self._chance = chance
        self._persisted = PersistedVersion.decode(saved.get(_VERSION, b""))
        self._overlays = EndpointOverlays()
        self._versions: ViewVersion | None = None
        limits = self.streams.limits
        window = Collection(window_bytes=limits.window_bytes, window_events=limits.window_events)
        self.stream = Stream(SLICES, window, self.streams.counters, now=time.monotonic())
        self.stream.start(followed)
        self.streams.adopt(self.stream)
        # Of the followed stream, as it was taken last: cursor, lists, turns.
        self._taken = (0, 0, 0)
        self._is_kicked = False
        journal.rewrite_from(self._records)

    @property
    def is_known(self) -> bool:
        """Upstream's state is, and so that of `stream`."""
        return self.stream.collection.is_synced

    def status(self) -> EndpointViewStatus:
        return EndpointViewStatus(
            has_verdicts=self._pool.verdicts(boottime()) is not None,
            silent=self._overlays.count(Overlay.SILENT),
            kept=self._overlays.count(Overlay.KEPT),
            changes=self.changes,
            resource_version=self.stream.version if self.is_known else None,
            watchers=self.streams.watchers,
        )

    def kick(self) -> None:
        """There are new verdicts."""
        self._is_kicked = True
        source = self._sources.exactly(SLICES)
        if source is not None:
            source.nudge()

    async def reached(self, source: Stream, *, within: float) -> bool:
        """Whether the view has come to where upstream's stream is now."""
        cursor = view_version(source.collection.cursor)
        return await self.stream.until(
            lambda: self.is_known and self.stream.version >= cursor, timeout=within
        )

    async def run(self) -> Never:
        while True:
            # Where there is no room, as where upstream refuses it.
            with suppress(NoRoom):
                await self._follow(self._sources.open(SLICES, now=time.monotonic()))
            self._end()
            await asyncio.sleep(RETRY)

    async def _follow(self, source: Stream) -> None:
        """Until the stream is dropped."""
        self._taken = (0, 0, 0)
        while True:
            self._is_kicked = False
            await self._step(source)
            if source.is_dropped:
                return
            self._sources.use(source, now=time.monotonic())
            now = boottime()
            ends = (self._overlays.due_at(now), _later(self._pool.valid_until, now), now + RETRY)
            is_due = partial(self._is_due, source, source.is_open())
            await source.until(is_due, timeout=max(min(ends) - now, 0.0))

    def _is_due(self, source: Stream, was_open: bool) -> bool:
        return (
            self._is_kicked
            or source.is_dropped
            or _position(source) != self._taken
            or source.is_open() is not was_open
        )

    async def _step(self, source: Stream) -> None:
        now, overlays = boottime(), self._overlays
        overlays.judge(self._pool.verdicts(now))
        has_news = source.collection.is_synced and _position(source) != self._taken
        if has_news or source.is_open():
            overlays.outage_ended(now)
        else:
            heard_at = self._cut_since()
            overlays.outage_began(now, heard_at=now if heard_at is None else heard_at)
        if not source.collection.is_synced:
            # Nothing is known yet, or what was is of a history that upstream lost.
            self._taken = _position(source)
            self._end()
            return
        events = self._news(source, now)
        if events is None:
            await self._replace(source, now)
            return
        events += self._changes(now)
        if events:
            await self._persist()
            self.stream.apply(events)
        self._confirm(source)

    def _news(self, source: Stream, now: float) -> list[Event] | None:
        """What happened upstream; None: a whole list is to be taken."""
        collection, versions = source.collection, self._versions
        (cursor, lists, turns), position = self._taken, _position(source)
        if not self.is_known or versions is None or (lists, turns) != position[1:]:
            return None
        try:
            changes = collection.since(cursor)
        except Expired:
            return None
        self._taken = position
        events: list[Event] = []
        for change in changes:
            is_gone = change.type is EventType.DELETED
            key = change.item.key
            self._overlays.take(key, None if is_gone else change.item.raw, now)
            raw = change.item.raw if is_gone else self._overlays.rendered(key)
            events.append(_event(change.type, versions.upstream_changed(change.version), key, raw))
        if collection.cursor > versions.v:
            versions.reached(collection.cursor)
            events.append(Event(EventType.BOOKMARK, versions.version))
        if events:
            self._overlays.upstream_moved()
        return events

    def _changes(self, now: float) -> list[Event]:
        """What changes without upstream."""
        versions = self._versions
        if versions is None:
            return []
        due = self._overlays.due(now, room=versions.room)
        self.changes += len(due)
        return [
            _event(EventType.MODIFIED, versions.changed(), key, self._overlays.rendered(key))
            for key in due
        ]

    async def _replace(self, source: Stream, now: float) -> None:
        """A whole list, as upstream's: watches end."""
        collection, overlays = source.collection, self._overlays
        self._taken = _position(source)
        cursor = collection.cursor
        if self._versions is None or cursor < self._versions.v:
            self._versions = ViewVersion.begin(cursor, self._persisted, jump=self._chance())
        elif cursor == self._versions.v:
            self._versions.changed()
        else:
            self._versions.reached(cursor)
        overlays.replace([(it.key, it.raw) for it in collection.objects.values()], now)
        overlays.upstream_moved()
        version = self._versions.version
        items = [self._listed(it, version) for it in collection.objects.values()]
        await self._persist()
        page = Page(source.list_kind, source.api_version, version, "", items)
        self.stream.replace(page, gone=expired())
        self._confirm(source)

    def _listed(self, it: Item, version: int) -> Item:
        """What differs from upstream's state is as of the list."""
        if not self._overlays.is_overlaid(it.key):
            version = view_version(it.version)
        return Item(it.key, version, with_version(self._overlays.rendered(it.key), version))

    def _confirm(self, source: Stream) -> None:
        """It is as new as what it follows."""
        self.stream.known(known_at=source.known_at, confirmed_at=source.confirmed_at)
        self.stream.nudge()

    def _end(self) -> None:
        self._overlays.replace((), boottime())
        if self.is_known:
            self.stream.forget(gone=expired())

    async def _persist(self) -> None:
        """Before it is shown; but that upstream moved is in its own stream."""
        record = self._record()
        old = self._persisted
        if record is None or record == old:
            return
        if record.e or old is None or record.is_overlaid is not old.is_overlaid:
            self._persisted = record
            await self._journal.commit(Blob(SPACE, _VERSION, record.encode()))

    def _record(self) -> PersistedVersion | None:
        versions = self._versions
        if versions is None:
            return None
        return PersistedVersion(versions.v, versions.e, bool(self._overlays.overlaid))

    def _records(self) -> Iterator[Blob]:
        record = self._record() or self._persisted
        if record is not None:
            yield Blob(SPACE, _VERSION, record.encode())


def _position(source: Stream) -> tuple[int, int, int]:
    return source.collection.cursor, source.lists, source.turns


def _later(moment: float, now: float) -> float:
    return moment if moment > now else math.inf


def _event(type: EventType, version: int, key: Key, raw: bytes) -> Event:
    return Event(type, version, Item(key, version, with_version(raw, version)))
