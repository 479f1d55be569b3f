"""What readers of a stream see, and its delivery to watchers: encoded once, in order, whole.

A view turns items and changes into the bytes of list items and watch lines. Objects pass as
upstream sent them; `PartialObjectMetadata` is cut out of them. A watcher is a connection that takes
bytes, as lines, in HTTP's chunks or as messages of a WebSocket: events in one framing are one piece
of bytes for all watchers. One that does not read fast enough is ended alone (promise R8), and never
misses an event before. Lines of a few milliseconds travel in one write, of more milliseconds the
more watchers there are: the cost of a watcher is the write.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from edge_sidecars.apimachinery.objects import Item
from edge_sidecars.apimachinery.resource_version import metadata_only
from edge_sidecars.apimachinery.scope import Predicate
from edge_sidecars.apimachinery.selection.shards import EVERYTHING, ShardSelector
from edge_sidecars.apimachinery.store import ObjectChange, transition
from edge_sidecars.apimachinery.watch_events import EventType
from relay_sidecar.telemetry.metrics import RelayCounters

Framing = Callable[[Sequence[bytes]], bytes]
# RFC 6455, 5.2: the last frame of a message, which is text. A server masks nothing.
_TEXT: Final = 0x81
_MAX_SHORT: Final = 125
_TWO_BYTES, _EIGHT_BYTES = 126, 127


def as_lines(events: Sequence[bytes]) -> bytes:
    """A body without a framing: that of HTTP/1.0."""
    return b"".join(events)


def as_chunk(events: Sequence[bytes]) -> bytes:
    """One chunk of HTTP/1.1's chunked coding (RFC 9112, 7.1)."""
    lines = b"".join(events)
    return b"%x\r\n%s\r\n" % (len(lines), lines)


def as_messages(events: Sequence[bytes]) -> bytes:
    """A message of text for each event, as kube-apiserver sends them over a WebSocket
    (k8s.io/apiserver v0.37, pkg/endpoints/handlers/watch.go: HandleWS)."""
    pieces: list[bytes] = []
    for event in events:
        pieces.append(_head(len(event)))
        pieces.append(event)
    return b"".join(pieces)


def _head(size: int) -> bytes:
    if size <= _MAX_SHORT:
        return bytes((_TEXT, size))
    if size < 1 << 16:
        return bytes((_TEXT, _TWO_BYTES)) + size.to_bytes(2, "big")
    return bytes((_TEXT, _EIGHT_BYTES)) + size.to_bytes(8, "big")


# Seconds that lines wait for company, for each watcher: one write costs some 10 µs, so that writing
# takes a sixth of a core at most, however many watch. Few are written to at once.
FLUSH_DELAY_PER_WATCHER = 0.00006
FEW = 25
MAX_FLUSH_DELAY = 0.05
# Bytes; more are not held back for company.
MAX_PENDING = 256 * 1024
_HEADS: Final = {each: b'{"type":"%s","object":' % each.encode() for each in EventType}


@dataclass(frozen=True, slots=True)
class StreamView:
    """`only` keeps what matches (None: all); `metadata` is meta.k8s.io's version to project to."""

    only: Predicate | None = None
    metadata: str | None = None

    @property
    def shards(self) -> ShardSelector:
        return EVERYTHING if self.only is None else self.only.shards

    def shows(self, item: Item) -> bool:
        return self.only is None or self.only.matches(item)

    def body(self, item: Item) -> bytes:
        if self.metadata is None:
            return item.raw
        return metadata_only(item.raw, self.metadata)

    def line(self, change: ObjectChange) -> bytes | None:
        """The line of a watch, None where this reader sees nothing of the change."""
        if self.only is None:
            return self._framed(change.type, change.item.raw)
        seen = transition(change, self.only.matches)
        return None if seen is None else self._framed(*seen)

    def added(self, item: Item) -> bytes:
        """The line of an object that was there before the watch."""
        return self._framed(EventType.ADDED, item.raw)

    def bookmark(self, version: int, kind: str, api_version: str, *, ends_initial: bool) -> bytes:
        """A BOOKMARK carries kind, apiVersion and the version only (KEP-956, KEP-3157)."""
        if self.metadata is not None:
            kind, api_version = "PartialObjectMetadata", self.metadata
        mark = b',"annotations":{"k8s.io/initial-events-end":"true"}' if ends_initial else b""
        return (
            b'{"type":"BOOKMARK","object":{"kind":"%s","apiVersion":"%s",'
            b'"metadata":{"resourceVersion":"%d"%s}}}\n'
            % (kind.encode(), api_version.encode(), version, mark)
        )

    def list_kind(self, kind: str, api_version: str) -> tuple[str, str]:
        if self.metadata is not None:
            return "PartialObjectMetadataList", self.metadata
        return kind, api_version

    def _framed(self, type: EventType, raw: bytes) -> bytes:
        if self.metadata is not None:
            raw = metadata_only(raw, self.metadata)
        return b"".join((_HEADS[type], raw, b"}\n"))


class Watcher:
    """One connection. `ended` resolves when nothing may be written to it any more."""

    __slots__ = (
        "_transport",
        "allows_bookmarks",
        "ended",
        "framing",
        "is_slow",
        "limit",
        "moved_at",
    )

    def __init__(
        self,
        transport: asyncio.WriteTransport,
        *,
        framing: Framing,
        allows_bookmarks: bool,
        limit: int,
    ) -> None:
        self._transport = transport
        self.framing = framing
        self.allows_bookmarks = allows_bookmarks
        self.limit = limit
        self.is_slow = False
        # The version up to which it got everything when another stream was to go on with it.
        self.moved_at: int | None = None
        self.ended: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()

    def write(self, framed: bytes) -> None:
        """Events in this watcher's framing. However long they are, they do not end a watcher that
        has read what came before."""
        if self.ended.done():
            return
        if self._transport.is_closing():
            self.end(None)
            return
        if self._transport.get_write_buffer_size() > self.limit:
            self.is_slow = True
            self.end(None)
            return
        self._transport.write(framed)

    def end(self, last_line: bytes | None) -> None:
        if not self.ended.done():
            self.ended.set_result(last_line)


class Broadcaster:
    """The live watchers of one view. What is published reaches all that joined before."""

    def __init__(self, view: StreamView, counters: RelayCounters) -> None:
        self.view = view
        self.watchers: set[Watcher] = set()
        self._counters = counters
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        # When the first of them came from upstream, where that is known.
        self._came_at: float | None = None
        self._flush: asyncio.TimerHandle | None = None

    def join(self, watcher: Watcher) -> None:
        """The watcher has got everything published so far."""
        self.flush()
        self.watchers.add(watcher)

    def leave(self, watcher: Watcher) -> None:
        self.watchers.discard(watcher)
        if not self.watchers:
            self._forget()

    def publish(self, changes: Iterable[ObjectChange], *, came_at: float | None = None) -> None:
        """`came_at`: when they came from upstream (monotonic clock)."""
        if not self.watchers:
            return
        pending = self._pending
        if not pending:
            self._came_at = came_at
        for change in changes:
            line = self.view.line(change)
            if line is not None:
                pending.append(line)
                self._pending_bytes += len(line)
                if self._pending_bytes > MAX_PENDING:
                    self.flush()
                    pending, self._came_at = self._pending, came_at
        if len(self.watchers) <= FEW:
            self.flush()
        elif pending and self._flush is None:
            delay = FLUSH_DELAY_PER_WATCHER * len(self.watchers)
            self._flush = asyncio.get_running_loop().call_later(
                min(delay, MAX_FLUSH_DELAY), self.flush
            )

    @property
    def has_listeners(self) -> bool:
        """Some watchers get bookmarks."""
        return any(watcher.allows_bookmarks for watcher in self.watchers)

    def bookmark(self, version: int, kind: str, api_version: str) -> None:
        """Moves the watchers that asked for it to `version` without an event."""
        listeners = [watcher for watcher in self.watchers if watcher.allows_bookmarks]
        if listeners:
            self.flush()
            line = self.view.bookmark(version, kind, api_version, ends_initial=False)
            _write_to(listeners, [line])

    def flush(self) -> None:
        pending, came_at = self._pending, self._came_at
        self._forget()
        if not pending:
            return
        _write_to(self.watchers, pending)
        sent = len(pending) * len(self.watchers)
        self._counters.events_sent += sent
        if came_at is not None:
            self._counters.event_delay.observe(time.monotonic() - came_at, sent)

    def end(self, last_line: bytes | None) -> None:
        self.flush()
        for watcher in tuple(self.watchers):
            watcher.end(last_line)
        self.watchers.clear()

    def move(self, version: int) -> None:
        """Ends all watchers here, which have got everything up to `version`, so that another stream
        goes on with them."""
        self.flush()
        for watcher in tuple(self.watchers):
            if not watcher.ended.done():
                watcher.moved_at = version
                watcher.end(None)
        self.watchers.clear()

    def _forget(self) -> None:
        self._pending = []
        self._pending_bytes = 0
        self._came_at = None
        if self._flush is not None:
            self._flush.cancel()
            self._flush = None


def _write_to(watchers: Iterable[Watcher], events: Sequence[bytes]) -> None:
    """In each of their framings once."""
    framed: dict[Framing, bytes] = {}
    for watcher in watchers:
        data = framed.get(watcher.framing)
        if data is None:
            data = framed[watcher.framing] = watcher.framing(events)
        watcher.write(data)
