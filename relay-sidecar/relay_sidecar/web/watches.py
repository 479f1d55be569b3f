"""WATCH: one stream told from a version on, to its end; held open while the link is cut.

A watcher gets no event at or below the version it began at, none twice, none out of order; it is
ended with 410 where the stream can no longer tell all. What the window does not hold is watched
upstream for this client alone.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from functools import partial

from edge_sidecars.apimachinery.list_options import VersionMatch
from edge_sidecars.apimachinery.request_info import ListOptions, Representation, RequestInfo
from edge_sidecars.apimachinery.scope import Scope
from edge_sidecars.apimachinery.status import Refused, expired, too_large_version, too_many
from edge_sidecars.apimachinery.store import Expired
from edge_sidecars.runtime.web import aiohttp_web as web
from relay_sidecar.streams.fanout import Watcher
from relay_sidecar.streams.list_encoder import PART
from relay_sidecar.streams.readiness import NotCached, StreamDenied, UpstreamFailing, opened, ready
from relay_sidecar.streams.stream import Stream
from relay_sidecar.streams.view import StreamView
from relay_sidecar.web.read_context import VERSION_WAIT, Reading, is_made_here, takes_whole
from relay_sidecar.web.responses import JSON

# Seconds; kube-apiserver's default of --min-request-timeout.
MIN_REQUEST_TIMEOUT = 1800.0
# Seconds for the last bytes of a watch; whoever reads nothing for so long is cut off.
FAREWELL = 5.0
# Until when (monotonic seconds) the caller may go on; raises `Refused` when it may not.
Permit = Callable[[], Awaitable[float]]


class Watches:
    def __init__(self, reading: Reading, *, chance: Callable[[], float]) -> None:
        self._reading = reading
        self._chance = chance
        self._open = 0

    async def answer(
        self,
        request: web.BaseRequest,
        info: RequestInfo,
        options: ListOptions,
        wanted: Representation,
        permit: Permit,
    ) -> web.StreamResponse:
        reading, since = self._reading, self._reading.clock()
        scope = await reading.scope(info, options)
        if reading.above.is_up and (scope is None or not is_made_here(wanted)):
            return await reading.above.forward(request)
        if scope is None or not takes_whole(wanted):
            raise reading.unreachable()
        if self._open >= reading.settings.max_watchers:
            raise Refused(too_many(f"{self._open} watches are open, --max-watchers is reached"))
        # From here on, or all that come while the first list is under way would find a place.
        self._open += 1
        try:
            stream = await self._found(scope, options, since)
            if stream is not None:
                limit = reading.settings.watch_buffer
                see = partial(reading.view, scope=scope, wanted=wanted)
                telling = _Telling(request, stream, see, options, limit=limit)
                return await self._tell(telling, options, permit, since)
        finally:
            self._open -= 1
        return await reading.above.forward(request)

    async def _found(self, scope: Scope, options: ListOptions, since: float) -> Stream | None:
        """As `_stream`; raises `Refused`."""
        try:
            return await self._stream(scope, options, since)
        except (StreamDenied, UpstreamFailing):
            # What upstream says to it, this client is to see for itself.
            return None
        except NotCached:
            if self._reading.above.is_relayed:
                return None
            raise self._reading.unreachable() from None

    async def _stream(self, scope: Scope, options: ListOptions, since: float) -> Stream | None:
        """The stream to tell from, None where this client has to be served from upstream.

        Raises `Refused`, `StreamDenied`, `NotCached`.
        """
        reading = self._reading
        asked = options.resource_version
        if asked and not options.send_initial_events:
            return await self._holding(scope, asked)
        stream = await ready(reading.streams, scope, now=reading.now(), since=since)
        if not await reading.is_new_enough(stream, scope):
            return None
        if asked and not await stream.until(lambda: stream.version >= asked, timeout=VERSION_WAIT):
            if reading.above.is_up:
                return None
            raise Refused(too_large_version(asked, stream.version))
        return stream

    async def _holding(self, scope: Scope, version: int) -> Stream | None:
        """A watch at a version promises nothing about what is now: a stream that is catching up
        tells it as well, and while nobody knows whether there is an upstream, any."""
        reading, streams = self._reading, self._reading.streams
        stream = self._that_holds(scope, version)
        if stream is None and reading.above.is_up and not self._followed(scope):
            with suppress(NotCached):  # where the link went meanwhile
                await opened(streams, scope, now=reading.now())
            stream = self._that_holds(scope, version)
        if stream is not None:
            streams.use(stream, now=reading.now())
            return stream
        if reading.above.is_up:
            return None
        found = streams.covering(scope)
        if not found:
            raise NotCached
        raise Refused(expired(version, found[0].collection.window_start))

    def _followed(self, scope: Scope) -> list[Stream]:
        """Those that bring what happens, now or as soon as upstream lets them."""
        streams = self._reading.streams
        found = streams.covering(scope)
        if not streams.is_up:
            return found
        is_open = list(filter(streams.is_open, found))
        return is_open or list(filter(streams.runs, found))

    def _that_holds(self, scope: Scope, version: int) -> Stream | None:
        for stream in self._followed(scope):
            if stream.collection.window_start <= version:
                return stream
        # One that was closed goes on from where it ended, as where a wider one serves as well, but
        # begins later.
        for stream in self._reading.streams.covering(scope):
            if stream.collection.window_start <= version <= stream.version:
                return stream
        return None

    async def _tell(
        self, telling: "_Telling", options: ListOptions, permit: Permit, since: float
    ) -> web.StreamResponse:
        reading, now = self._reading, self._reading.now
        ends_at = now() + _seconds(options, self._chance())
        permitted_until = await permit()
        # As of now: the link may have gone meanwhile.
        await telling.begin(reading, since)
        try:
            async with asyncio.timeout(ends_at - now()):
                await telling.tell_state(reading)
                is_told = False
                while not is_told:
                    while not await telling.catch_up(reading, permitted_until - now()):
                        permitted_until = await permit()
                    while not await telling.follow(permitted_until - now()):
                        permitted_until = await permit()
                    is_told = not telling.goes_on_elsewhere()
                last = telling.last_line()
        except TimeoutError:
            last = telling.last_bookmark(reading)
        except Refused as refused:
            last = refused.status.event()
        finally:
            telling.leave()
            reading.streams.counters.slow_watchers += telling.is_slow
        await telling.end(last)
        return telling.response


class _Telling:
    """One watch, from its first byte to its last."""

    def __init__(
        self,
        request: web.BaseRequest,
        stream: Stream,
        see: Callable[[Stream], StreamView],
        options: ListOptions,
        *,
        limit: int,
    ) -> None:
        self.response = web.StreamResponse(headers=JSON)
        self._request = request
        self._stream = stream
        self._see = see
        self._view = view = see(stream)
        self._options = options
        self._limit = limit
        self._feed = stream.feed(view)
        self._watcher: Watcher | None = None
        asked = options.resource_version
        self._turns = stream.turns
        is_from_now = not asked and options.match is not VersionMatch.UNSET
        self.tells_state = options.send_initial_events or not (asked or is_from_now)
        self._position = asked if asked and not self.tells_state else stream.version

    async def begin(self, reading: Reading, since: float) -> None:
        if self.tells_state:
            self.response.headers.update(reading.age(self._stream, since=since))
        if self._request.version >= (1, 1):
            self.response.enable_chunked_encoding()
        else:
            self.response.force_close()
        await self.response.prepare(self._request)

    async def tell_state(self, reading: Reading) -> None:
        """The objects that there are, where the client asked for them."""
        if not self.tells_state:
            return
        stream, view = self._stream, self._view
        items = stream.items()
        self._position = stream.version
        reading.handed_out(stream.scope.resource, self._position)
        await self._write(view.added(item) for item in items if view.shows(item))
        if self._options.send_initial_events and self._options.allow_bookmarks:
            await self.response.write(
                view.bookmark(self._position, stream.kind, stream.api_version, ends_initial=True)
            )

    async def catch_up(self, reading: Reading, timeout: float) -> bool:
        """True when all that was before the watch is told: it is to join the others at once.
        Raises `Refused`."""
        stream, collection = self._stream, self._stream.collection

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
                reading.streams.use(stream, now=reading.now())
                return True
            self._position = collection.cursor
            reading.handed_out(stream.scope.resource, changes[-1].version)
            lines = (self._view.line(change) for change in changes)
            await self._write(line for line in lines if line is not None)

    async def follow(self, timeout: float) -> bool:
        """Told of all that happens, at most for `timeout` seconds; True when the watch is over."""
        if self._watcher is None:
            transport = self._request.transport
            if transport is None:
                return True
            self._watcher = Watcher(
                transport,
                is_chunked=self._request.version >= (1, 1),
                allows_bookmarks=self._options.allow_bookmarks,
                limit=self._limit,
            )
            self._feed = self._stream.feed(self._view)
            self._feed.join(self._watcher)
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

    def last_bookmark(self, reading: Reading) -> bytes | None:
        """Where its time is over: so that the next watch begins where this one ends."""
        stream, cursor = self._stream, self._stream.collection.cursor
        if self._watcher is None:
            return None
        self._feed.flush()
        if self._watcher.ended.done():
            # Who was cut off in this moment has not been told all.
            return self.last_line()
        if not self._options.allow_bookmarks or cursor <= self._position:
            return None
        reading.handed_out(stream.scope.resource, cursor)
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
                    await self.response.write(last_line)
                await self.response.write_eof()
        except TimeoutError:
            transport.abort()

    def leave(self) -> None:
        if self._watcher is not None:
            self._feed.leave(self._watcher)

    async def _write(self, lines: Iterable[bytes]) -> None:
        part: list[bytes] = []
        size = 0
        for line in lines:
            part.append(line)
            size += len(line)
            if size > PART:
                await self.response.write(b"".join(part))
                part, size = [], 0
        if part:
            await self.response.write(b"".join(part))


def _patience(timeout: float) -> float | None:
    return None if timeout == float("inf") else max(timeout, 0.0)


def _seconds(options: ListOptions, chance: float) -> float:
    """How long the watch lasts. k8s.io/apiserver, handlers/get.go: a client that does not say gets
    --min-request-timeout to twice that, so that not all of them come back together."""
    if options.timeout_seconds:
        return max(float(options.timeout_seconds), 0.0)
    return MIN_REQUEST_TIMEOUT * (1.0 + chance)
