"""One watch, from its first byte to its last: the events of a stream, from a version on.

Guarantees: no event at or below the version at which it began, none twice, none out of order; 410
where the stream no longer has all. Events travel in the body of an answer, or over a WebSocket, one
message each as kube-apiserver sends them, where only pings and the end of what a client sends are
looked at. Never more than a reader may leave unread is in memory. Does not choose the stream.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final, Protocol

from aiohttp import WSMsgType
from aiohttp.abc import AbstractStreamWriter
from aiohttp.web_ws import WebSocketResponse
from multidict import CIMultiDict

from edge_sidecars.apimachinery.request.list_options import VersionMatch
from edge_sidecars.apimachinery.request.request_info import ListOptions
from edge_sidecars.apimachinery.scope import ListScope
from edge_sidecars.apimachinery.status import Refused, Status, expired
from edge_sidecars.apimachinery.store import Expired
from edge_sidecars.runtime.web import aiohttp_web as web
from relay_sidecar.core.upgrade_request import (
    PROTOCOLS,
    asks_for_websocket,
    websocket_protocol,
)
from relay_sidecar.streams.fanout import (
    Framing,
    StreamView,
    Watcher,
    as_chunk,
    as_lines,
    as_messages,
)
from relay_sidecar.streams.list_encoder import PART
from relay_sidecar.streams.stream import Stream
from relay_sidecar.web.reads.freshness import Freshness
from relay_sidecar.web.responses import JSON

# Seconds for the last bytes of a watch; a client that reads nothing for so long is cut off.
FAREWELL: Final = 5.0
# Bytes of a message from a client that watches; it has no reason to send any.
MAX_MESSAGE: Final = 64 * 1024
_ENDS: Final = (WSMsgType.CLOSE, WSMsgType.CLOSING, WSMsgType.CLOSED, WSMsgType.ERROR)


class EventWriter(Protocol):
    """`response` is what the handler of the request returns; its headers are set before `begin`."""

    @property
    def framing(self) -> Framing:
        """Of what is written to the connection past this writer."""
        ...

    @property
    def response(self) -> web.StreamResponse: ...

    async def begin(self) -> None: ...

    async def write(self, events: Sequence[bytes]) -> None: ...

    async def end(self) -> None:
        """The client is to know that this was all."""
        ...


def event_writer(request: web.BaseRequest) -> EventWriter:
    """Raises `Refused` where the client asks for a WebSocket and its handshake is none."""
    if is_over_websocket(request):
        return WebSocketEventWriter(request)
    return HttpEventWriter(request)


async def refuse_over_websocket(request: web.BaseRequest, status: Status) -> web.StreamResponse:
    """A watch that ends with this at once. Raises `Refused`."""
    writer = event_writer(request)
    await writer.begin()
    await writer.write([status.event()])
    await writer.end()
    return writer.response


def is_over_websocket(request: web.BaseRequest) -> bool:
    # RFC 9110, 7.8: in HTTP/1.0 an upgrade is to be ignored.
    return request.version >= (1, 1) and asks_for_websocket(request.headers)


class HttpEventWriter:
    def __init__(self, request: web.BaseRequest) -> None:
        self._request = request
        self.response = web.StreamResponse(headers=JSON)
        self.framing: Framing = as_chunk if request.version >= (1, 1) else as_lines

    async def begin(self) -> None:
        if self.framing is as_chunk:
            self.response.enable_chunked_encoding()
        else:
            self.response.force_close()
        await self.response.prepare(self._request)

    async def write(self, events: Sequence[bytes]) -> None:
        await self.response.write(b"".join(events))

    async def end(self) -> None:
        await self.response.write_eof()


class WebSocketEventWriter:
    framing: Framing = staticmethod(as_messages)

    def __init__(self, request: web.BaseRequest) -> None:
        protocol = websocket_protocol(request.headers)
        headers = CIMultiDict(request.headers)
        headers.popall(PROTOCOLS, None)
        if protocol:
            headers[PROTOCOLS] = protocol
        # What aiohttp sees of the protocols it may log: never a token among them.
        self._request = request.clone(headers=headers)
        self.response = WebSocketResponse(
            protocols=(protocol,) if protocol else (),
            compress=False,
            max_msg_size=MAX_MESSAGE,
            timeout=FAREWELL,
        )
        self._writer: AbstractStreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        self._writer = await self.response.prepare(self._request)
        self._reading = asyncio.create_task(self._read())

    async def write(self, events: Sequence[bytes]) -> None:
        if self._writer is not None:
            await self._writer.write(as_messages(events))

    async def end(self) -> None:
        if self._reading is not None:
            # Or the connection would end without the client's answer, and its last bytes with it.
            self._reading.cancel()
            await asyncio.wait([self._reading])
        await self.response.close()

    async def _read(self) -> None:
        """Until the client ends it, or the connection ends. What the handler does for this request
        ends then, too: a connection over TLS may be there for long after its last bytes."""
        with suppress(ConnectionError):
            while (await self.response.receive()).type not in _ENDS:
                pass
        self._request.task.cancel()


class WatchSession:
    """One watch, from its first byte to its last; `stands_in` for one of upstream, which was asked
    and did not answer. Raises `Refused` where its client asks for a WebSocket that cannot be."""

    def __init__(
        self,
        request: web.BaseRequest,
        stream: Stream,
        scope: ListScope,
        see: Callable[[Stream], StreamView],
        options: ListOptions,
        freshness: Freshness,
        *,
        stands_in: bool = False,
    ) -> None:
        self._stands_in = stands_in
        self._scope = scope
        self._writer = event_writer(request)
        self.response = self._writer.response
        self._request = request
        self._stream = stream
        self._see = see
        self._view = view = see(stream)
        self._options = options
        self._freshness = freshness
        self._broadcaster = stream.broadcaster(view)
        self._watcher: Watcher | None = None
        asked = options.resource_version
        self._turns = stream.turns
        is_from_now = not asked and options.match is not VersionMatch.UNSET
        self.tells_state = options.send_initial_events or not (asked or is_from_now)
        self._position = asked if asked and not self.tells_state else stream.version

    async def begin(self, since: float) -> None:
        if self.tells_state:
            age = self._freshness.age(self._stream, since=since, stands_in=self._stands_in)
            self.response.headers.update(age)
        await self._writer.begin()

    async def tell_state(self) -> None:
        """The objects that there are, where the client asked for them."""
        self._stream.behind.add(self)
        if not self.tells_state:
            return
        stream, view = self._stream, self._view
        items = stream.items()
        self._position = self._freshness.version(stream, self._scope)
        self._freshness.handed_out(stream.scope.resource, self._position, stream.scope)
        await self._write(view.added(item) for item in items if view.shows(item))
        if self._options.send_initial_events and self._options.allow_bookmarks:
            await self._writer.write(
                [view.bookmark(self._position, stream.kind, stream.api_version, ends_initial=True)]
            )

    async def catch_up(self, timeout: float) -> bool:
        """True when all earlier events are sent: it is to join the others at once.
        Raises `Refused`."""
        stream, collection = self._stream, self._stream.collection
        stream.behind.add(self)

        def is_there() -> bool:
            return has_ended() or collection.cursor >= self._position

        def has_ended() -> bool:
            return stream.is_dropped or stream.turns != self._turns

        while True:
            # Its version may be from the future: silence until it has passed.
            if not await stream.until(is_there, timeout=_patience(timeout)):
                return False
            if has_ended():
                raise Refused(expired(self._position, collection.window_start))
            try:
                changes = collection.since(self._position)
            except Expired:
                raise Refused(expired(self._position, collection.window_start)) from None
            if not changes:
                # It may have been closed while this client took its time.
                self._freshness.streams.use(stream, now=self._freshness.now())
                return True
            self._position = collection.cursor
            last = changes[-1]
            self._freshness.handed_out(stream.scope.resource, last.version, last.item)
            lines = (self._view.line(change) for change in changes)
            await self._write(line for line in lines if line is not None)

    async def follow(self, timeout: float) -> bool:
        """Receives all events, at most for `timeout` seconds; True when the watch is over."""
        if self._watcher is None:
            transport = self._request.transport
            if transport is None:
                return True
            self._watcher = Watcher(
                transport,
                framing=self._writer.framing,
                allows_bookmarks=self._options.allow_bookmarks,
                limit=self._freshness.settings.watch_buffer,
            )
            self._broadcaster = self._stream.broadcaster(self._view)
            self._broadcaster.join(self._watcher)
            self._stream.behind.discard(self)
        ended = self._watcher.ended
        await asyncio.wait([ended], timeout=_patience(timeout))
        return ended.done()

    def goes_on_elsewhere(self) -> bool:
        """Whether another stream is to tell the rest; it is caught up with next."""
        watcher, successor = self._watcher, self._stream.successor
        if watcher is None or watcher.moved_at is None or successor is None:
            return False
        self._position = watcher.moved_at
        self._turns = self._stream.successor_turns
        self._stream, self._view, self._watcher = successor, self._see(successor), None
        return True

    @property
    def is_slow(self) -> bool:
        return self._watcher is not None and self._watcher.is_slow

    def last_line(self) -> bytes | None:
        """Of a watch that the stream ended."""
        return None if self._watcher is None else self._watcher.ended.result()

    def last_bookmark(self) -> bytes | None:
        """Where its time is over: so that the next watch begins where this one ends."""
        stream, cursor = self._stream, self._stream.collection.cursor
        if self._watcher is None:
            return None
        self._broadcaster.flush()
        if self._watcher.ended.done():
            # A client that was cut off in this moment lacks some.
            return self.last_line()
        if not self._options.allow_bookmarks or cursor <= self._position:
            return None
        self._freshness.handed_out(stream.scope.resource, cursor, stream.scope)
        return self._view.bookmark(cursor, stream.kind, stream.api_version, ends_initial=False)

    async def end(self, last_line: bytes | None) -> None:
        transport = self._request.transport
        if transport is None or transport.is_closing():
            return
        if self.is_slow:
            transport.abort()
            return
        try:
            async with asyncio.timeout(FAREWELL):
                if last_line is not None:
                    await self._writer.write([last_line])
                await self._writer.end()
        except TimeoutError:
            transport.abort()

    def leave(self) -> None:
        self._stream.behind.discard(self)
        if self._watcher is not None:
            self._broadcaster.leave(self._watcher)

    async def _write(self, lines: Iterable[bytes]) -> None:
        part: list[bytes] = []
        size = 0
        for line in lines:
            part.append(line)
            size += len(line)
            if size > PART:
                await self._writer.write(part)
                part, size = [], 0
        if part:
            await self._writer.write(part)


def _patience(timeout: float) -> float | None:
    return None if timeout == float("inf") else max(timeout, 0.0)
