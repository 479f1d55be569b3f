"""WATCH: one stream told from a version on, to its end; held open while the link is cut.

A watcher gets no event at or below the version it began at, none twice, none out of order; it is
ended with 410 where the stream can no longer tell all. What the window does not hold is watched
upstream for this client alone.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress

from aiohttp import web

from relay_sidecar.core.request import ListOptions, Representation, RequestInfo
from relay_sidecar.core.scope import Scope
from relay_sidecar.core.status import Refused, Status, expired, too_large_version, too_many
from relay_sidecar.core.store import Expired
from relay_sidecar.fanout import Watcher
from relay_sidecar.list_body import PART
from relay_sidecar.stream import Stream
from relay_sidecar.streams import Denied, Unknown
from relay_sidecar.view import View
from relay_sidecar.web.answers import JSON
from relay_sidecar.web.reading import VERSION_WAIT, Reading, is_made_here, takes_whole

# Seconds; kube-apiserver's default of --min-request-timeout.
MIN_REQUEST_TIMEOUT = 1800.0
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
        reading = self._reading
        scope = await reading.scope(info, options)
        if reading.above.is_up and (scope is None or not is_made_here(wanted)):
            return await reading.above.forward(request)
        if scope is None or not takes_whole(wanted):
            raise reading.unreachable()
        if self._open >= reading.settings.max_watchers:
            raise Refused(too_many(f"{self._open} watches are open, --max-watchers is reached"))
        try:
            stream = await self._stream(scope, options)
        except Denied:
            stream = None
        except Unknown:
            raise reading.unreachable() from None
        if stream is None:
            return await reading.above.forward(request)
        view = reading.view(stream, scope, wanted)
        telling = _Telling(request, stream, view, options, limit=reading.settings.watch_buffer)
        self._open += 1
        try:
            return await self._tell(telling, options, permit)
        finally:
            self._open -= 1
            reading.streams.counters.slow_watchers += telling.is_slow

    async def _stream(self, scope: Scope, options: ListOptions) -> Stream | None:
        """The stream to tell from, None where this client has to be served from upstream.

        Raises `Refused`, `Denied`, `Unknown`.
        """
        reading = self._reading
        asked = options.resource_version
        if asked and not options.send_initial_events:
            return await self._holding(scope, asked)
        stream = await reading.streams.ready(scope, now=reading.now())
        if not await reading.is_new_enough(stream, scope):
            return None
        if asked and not await stream.until(
            lambda: stream.collection.cursor >= asked, timeout=VERSION_WAIT
        ):
            if reading.above.is_up:
                return None
            raise Refused(too_large_version(asked, stream.collection.cursor))
        return stream

    async def _holding(self, scope: Scope, version: int) -> Stream | None:
        reading = self._reading
        streams = reading.streams
        if reading.above.is_up and streams.at_hand(scope) is None:
            with suppress(Unknown):  # where the link went meanwhile
                await streams.ready(scope, now=reading.now())
        found = streams.covering(scope)
        live = [stream for stream in found if streams.is_live(stream)]
        if reading.above.is_up:
            found = live
        for stream in found:
            if stream.collection.window_start <= version:
                streams.use(stream, now=reading.now())
                return stream
        if reading.above.is_up:
            return None
        if not found:
            raise Unknown
        raise Refused(expired(version, found[0].collection.window_start))

    async def _tell(
        self, telling: "_Telling", options: ListOptions, permit: Permit
    ) -> web.StreamResponse:
        now = self._reading.now
        ends_at = now() + _seconds(options, self._chance())
        permitted_until = await permit()
        await telling.begin()
        try:
            async with asyncio.timeout(ends_at - now()):
                await telling.catch_up(self._reading)
                while not await telling.follow(permitted_until - now()):
                    permitted_until = await permit()
        except TimeoutError:
            await telling.end_in_time()
        except Refused as refused:
            await telling.end_with(refused.status)
        finally:
            telling.leave()
        return telling.response


class _Telling:
    """One watch, from its first byte to its last."""

    def __init__(
        self,
        request: web.BaseRequest,
        stream: Stream,
        view: View,
        options: ListOptions,
        *,
        limit: int,
    ) -> None:
        self.response = web.StreamResponse(headers=JSON)
        self.is_slow = False
        self._request = request
        self._stream = stream
        self._view = view
        self._options = options
        self._limit = limit
        self._feed = stream.feed(view)
        self._watcher: Watcher | None = None
        asked = options.resource_version
        self._tells_state = options.send_initial_events or not asked
        self._position = stream.collection.cursor if self._tells_state else asked or 0

    async def begin(self) -> None:
        if self._request.version >= (1, 1):
            self.response.enable_chunked_encoding()
        else:
            self.response.force_close()
        await self.response.prepare(self._request)

    async def catch_up(self, reading: Reading) -> None:
        """All that was before the watch joins the others. Raises `Refused`."""
        stream, resource = self._stream, self._stream.scope.resource
        if self._tells_state:
            items = stream.items()
            self._position = stream.collection.cursor
            reading.handed_out(resource, self._position)
            shown = (item for item in items if self._view.shows(item))
            await self._write(self._view.added(item) for item in shown)
            if self._options.send_initial_events and self._options.allow_bookmarks:
                await self.response.write(
                    self._view.bookmark(
                        self._position, stream.kind, stream.api_version, ends_initial=True
                    )
                )
        while True:
            if stream.collection.cursor < self._position:
                # Its version is from the future: silence until it has passed.
                await stream.until(lambda: stream.collection.cursor >= self._position)
            try:
                changes = stream.collection.since(self._position)
            except Expired:
                oldest = stream.collection.window_start
                raise Refused(expired(self._position, oldest)) from None
            if not changes:
                break
            self._position = stream.collection.cursor
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
        await asyncio.wait([ended], timeout=None if timeout == float("inf") else max(timeout, 0))
        if not ended.done():
            return False
        last_line = ended.result()
        self.is_slow = self._watcher.is_slow
        if self.is_slow:
            self._abort()
        elif last_line is not None:
            await self.response.write(last_line)
            await self.response.write_eof()
        else:
            await self._close()
        return True

    async def end_in_time(self) -> None:
        """With a bookmark, so that the next watch begins where this one ends."""
        cursor = self._stream.collection.cursor
        if self._watcher is not None and self._options.allow_bookmarks and cursor > self._position:
            self._feed.flush()
            bookmark = self._view.bookmark(
                cursor, self._stream.kind, self._stream.api_version, ends_initial=False
            )
            self.leave()
            await self.response.write(bookmark)
        self.leave()
        await self._close()

    async def end_with(self, status: Status) -> None:
        self.leave()
        await self.response.write(status.event())
        await self._close()

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

    async def _close(self) -> None:
        transport = self._request.transport
        if transport is not None and not transport.is_closing():
            await self.response.write_eof()

    def _abort(self) -> None:
        transport = self._request.transport
        if transport is not None:
            transport.abort()


def _seconds(options: ListOptions, chance: float) -> float:
    """How long the watch lasts. k8s.io/apiserver, handlers/get.go: a client that does not say gets
    --min-request-timeout to twice that, so that not all of them come back together."""
    if options.timeout_seconds:
        return max(float(options.timeout_seconds), 0.0)
    return MIN_REQUEST_TIMEOUT * (1.0 + chance)
