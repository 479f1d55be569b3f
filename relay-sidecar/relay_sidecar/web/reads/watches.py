"""WATCH: one stream from a version on, to its end; held open while offline.

A watcher gets no event at or below the version it began at, none twice, none out of order; it is
ended with 410 where the stream no longer has all events. What the window does not hold is watched
upstream for this client alone.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from http import HTTPStatus

from edge_sidecars.apimachinery.request.request_info import ListOptions
from edge_sidecars.apimachinery.scope import ListScope, ResourceName
from edge_sidecars.apimachinery.selection.shards import ShardSelector
from edge_sidecars.apimachinery.status import Refused, expired, too_large_version, too_many
from edge_sidecars.kubeapi import Unreachable
from edge_sidecars.runtime.web import aiohttp_web as web
from relay_sidecar.streams.stream import Stream
from relay_sidecar.web.reads.freshness import (
    VERSION_WAIT,
    Freshness,
    NotCached,
    StreamDenied,
    UpstreamFailing,
    opened,
    ready,
)
from relay_sidecar.web.reads.rounds import ConcurrencyLimit
from relay_sidecar.web.reads.selection import (
    ClientRead,
    Selection,
    is_made_here,
    takes_whole,
    view_of,
)
from relay_sidecar.web.reads.watch_session import (
    WatchSession,
    is_over_websocket,
    refuse_over_websocket,
)

# Seconds; kube-apiserver's default of --min-request-timeout.
MIN_REQUEST_TIMEOUT = 1800.0
# Watches that began together are asked about together: not over a connection each.
PERMITTED_AT_ONCE = 4
# Seconds for which one waits for the connection of another one: some round trips of a slow link.
PERMIT_PATIENCE = 1.0
# Seconds until what upstream refused is asked for again while a client watches it directly.
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 300.0
# Until when (monotonic seconds) the caller may go on; raises `Refused` when it may not.
Permit = Callable[[], Awaitable[float]]


# Asks upstream for the kind of a resource; returns when it is known, or after a while.
LearnKind = Callable[[ResourceName], Awaitable[None]]


async def learn_nothing(resource: ResourceName) -> None:
    """Where there is no discovery."""


class Watches:
    """`chance` is between 0 and 1."""

    def __init__(
        self,
        selection: Selection,
        freshness: Freshness,
        *,
        chance: Callable[[], float],
        learn_kind: LearnKind,
    ) -> None:
        self._upstream = freshness.upstream
        self._streams = freshness.streams
        self._selection = selection
        self._freshness = freshness
        self._chance = chance
        self._learn_kind = learn_kind
        self._open = 0
        self._permitting = ConcurrencyLimit(at_once=PERMITTED_AT_ONCE, patience=PERMIT_PATIENCE)
        self._learning: dict[ListScope, asyncio.Task[None]] = {}

    async def answer(
        self, read: ClientRead, options: ListOptions, permit: Permit
    ) -> web.StreamResponse:
        """Raises `Refused`; over a WebSocket 410 is an event and an end, as kube-apiserver answers
        each watch."""
        try:
            return await self._answer(read, options, permit)
        except Refused as refused:
            is_gone = refused.status.code == HTTPStatus.GONE
            if not is_gone or not is_over_websocket(read.request):
                raise
            return await refuse_over_websocket(read.request, refused.status)

    async def _answer(
        self, read: ClientRead, options: ListOptions, permit: Permit
    ) -> web.StreamResponse:
        request, wanted = read.request, read.wanted
        since = self._freshness.clock()
        scope = await self._selection.scope(read.info, options)
        if scope is not None and read.is_of_node:
            self._streams.of_node.add(scope)
        if self._upstream.is_up and (scope is None or not is_made_here(wanted)):
            return await self._upstream.forward(request, options.shards)
        if scope is None or not takes_whole(wanted):
            raise self._freshness.not_cached(read.info)
        if self._open >= self._freshness.settings.max_watchers:
            raise Refused(too_many(f"{self._open} watches are open, --max-watchers is reached"))
        # From here on, or all that come while the first list is under way would find a place.
        self._open += 1
        try:
            stream = await self._found(read, scope, options, since)
            see = partial(view_of, scope=scope, wanted=wanted, shards=options.shards)
            if stream is not None:
                if options.allow_bookmarks and not stream.is_kind_known and self._upstream.is_up:
                    await self._learn_kind(scope.resource)
                session = WatchSession(request, stream, scope, see, options, self._freshness)
                return await self._run(session, options, permit, since)
        finally:
            self._open -= 1
        self._check_shards(request, scope, options)
        try:
            return await self._forwarded(request, scope, options.shards)
        except Unreachable:
            # The link went a moment ago: the cache answers in upstream's place.
            found = self._streams.covering(scope)
            if not found or not _begins_with_state(options):
                raise
            session = WatchSession(
                request, found[0], scope, see, options, self._freshness, stands_in=True
            )
            return await self._run(session, options, permit, since)

    def _check_shards(
        self, request: web.BaseRequest, scope: ListScope, options: ListOptions
    ) -> None:
        """A watch that is passed on over a WebSocket cannot be reduced to a shard: the client is to
        list anew where a stream will bring the rest. Raises `Refused`."""
        if options.shards.is_everything or not is_over_websocket(request):
            return
        is_kept = self._streams.refusal(scope, now=self._freshness.now()) is None
        if is_kept and not _begins_with_state(options):
            raise Refused(expired(options.resource_version))

    async def _forwarded(
        self, request: web.BaseRequest, scope: ListScope, shards: ShardSelector
    ) -> web.StreamResponse:
        """Upstream may have refused the relay's own list a moment ago, and let this client watch
        all the same: a Secret, for which kubelet asks before the node authorizer knows of the pod.
        While such a watch lasts, the relay tries again to keep what it is about, once for all."""
        if scope in self._learning:
            return await self._upstream.forward(request, shards)
        learning = self._learning[scope] = asyncio.create_task(self._learn(scope))
        try:
            return await self._upstream.forward(request, shards)
        finally:
            del self._learning[scope]
            learning.cancel()
            await asyncio.wait([learning])

    async def _learn(self, scope: ListScope) -> None:
        """Until it is kept; later each time. Not what there is no room for."""
        streams, pause = self._streams, FIRST_PAUSE
        while True:
            refusal = streams.refusal(scope, now=self._freshness.now())
            if refusal is not None and refusal.code == HTTPStatus.TOO_MANY_REQUESTS:
                return
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
            streams.forget_refusal(scope)
            with suppress(NotCached, StreamDenied, Refused):
                await opened(streams, scope, now=self._freshness.now())
                return

    async def _found(
        self, read: ClientRead, scope: ListScope, options: ListOptions, since: float
    ) -> Stream | None:
        """As `_stream`; raises `Refused`."""
        try:
            return await self._stream(scope, options, since)
        except (StreamDenied, UpstreamFailing):
            # What upstream says to it, this client is to see for itself.
            return None
        except NotCached:
            if self._upstream.is_relayed:
                return None
            raise self._freshness.not_cached(read.info) from None

    async def _stream(self, scope: ListScope, options: ListOptions, since: float) -> Stream | None:
        """The stream to tell from, None where this client has to be served from upstream.

        Raises `Refused`, `StreamDenied`, `NotCached`.
        """
        asked = options.resource_version
        if asked and not _begins_with_state(options):
            return await self._holding(scope, asked)
        stream = await ready(self._streams, scope, now=self._freshness.now(), since=since)
        if not stream.is_whole and self._upstream.is_up and not stream.is_stuck:
            return None
        if not await self._freshness.is_new_enough(stream, scope) and not stream.is_stuck:
            return None
        version = partial(self._freshness.version, stream, scope)
        if asked and not await stream.until(lambda: version() >= asked, timeout=VERSION_WAIT):
            if self._upstream.is_up:
                return None
            raise Refused(too_large_version(asked, version()))
        return stream

    async def _holding(self, scope: ListScope, version: int) -> Stream | None:
        """A watch at a version promises nothing about what is now: a stream that is catching up
        serves it as well, and before the link's first verdict, any."""
        streams = self._streams
        stream = self._that_holds(scope, version)
        if stream is None and self._upstream.is_up and not self._followed(scope):
            with suppress(NotCached):  # where the link went meanwhile
                await opened(streams, scope, now=self._freshness.now())
            stream = self._that_holds(scope, version)
        if stream is not None:
            streams.use(stream, now=self._freshness.now())
            return stream
        if self._upstream.is_up:
            return None
        found = streams.covering(scope)
        if not found:
            raise NotCached
        raise Refused(expired(version, found[0].collection.window_start))

    def _followed(self, scope: ListScope) -> list[Stream]:
        """Those that bring what happens, now or as soon as upstream lets them."""
        streams = self._streams
        found = streams.covering(scope)
        if not streams.is_up:
            return found
        is_open = [stream for stream in found if stream.is_open()]
        return is_open or [stream for stream in found if stream.runs]

    def _that_holds(self, scope: ListScope, version: int) -> Stream | None:
        for stream in self._followed(scope):
            if stream.collection.window_start <= version:
                return stream
        # One that was closed goes on from where it ended, as where a wider one serves as well, but
        # begins later.
        for stream in self._streams.covering(scope):
            if stream.collection.window_start <= version <= stream.version:
                return stream
        return None

    async def _run(
        self, session: WatchSession, options: ListOptions, permit: Permit, since: float
    ) -> web.StreamResponse:
        now = self._freshness.now
        ends_at = now() + _seconds(options, self._chance())
        permitted_until = await permit()
        # As of now: the link may have gone meanwhile.
        await session.begin(since)
        try:
            async with asyncio.timeout(ends_at - now()):
                await session.tell_state()
                is_told = False
                while not is_told:
                    while not await session.catch_up(permitted_until - now()):
                        permitted_until = await self._permit_again(permit)
                    while not await session.follow(permitted_until - now()):
                        permitted_until = await self._permit_again(permit)
                    is_told = not session.goes_on_elsewhere()
                last = session.last_line()
        except TimeoutError:
            last = session.last_bookmark()
        except Refused as refused:
            last = refused.status.event()
        finally:
            session.leave()
            self._streams.counters.slow_watchers += session.is_slow
        await session.end(last)
        return session.response

    async def _permit_again(self, permit: Permit) -> float:
        async with self._permitting.next():
            return await permit()


def _begins_with_state(options: ListOptions) -> bool:
    return options.send_initial_events or not options.resource_version


def _seconds(options: ListOptions, chance: float) -> float:
    """How long the watch lasts. k8s.io/apiserver, handlers/get.go: a client that does not say gets
    --min-request-timeout to twice that, so that not all of them come back together."""
    if options.timeout_seconds:
        return max(float(options.timeout_seconds), 0.0)
    return MIN_REQUEST_TIMEOUT * (1.0 + chance)
