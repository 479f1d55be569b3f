"""Pool-scoped streams of this relay: each comes from the pool's hub, or from the API server.

Guarantees: A hub is asked only about resources that --pool-resource names, only by LIST and WATCH,
through the local proxy of the pool-sidecar, and only for what this relay's own credential may list
and watch. Its answer is bounded in bytes and seconds. Which source comes first: `sources`.
"""

import asyncio
import math
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Final

from edge_sidecars.kubeapi import Unreachable
from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.log import fields, logger
from relay_sidecar.config.preload import Preload
from relay_sidecar.core.stream.reflection import LinkVerdict
from relay_sidecar.pool.pool_reads import is_shared
from relay_sidecar.pool.sources import API_SERVER, PoolSources, SourceChoice
from relay_sidecar.streams.stream import Stream
from relay_sidecar.upstream.reflector.source import CLOUD, CloudFeed, Feed, UpstreamSource

# Where the pool-sidecar of this node takes reads of a peer's relay.
PREFIX: Final = "/relay/"
# Seconds for a whole list, as a client's first one; a LAN has it in less.
LIST_WITHIN: Final = 60.0
# Bytes; more is left to the API server.
MAX_LIST: Final = 64 * 1024 * 1024


class HubReads:
    """`source`: of that proxy. `page` and `batches` as it has them, of the peer that is named."""

    def __init__(self, source: UpstreamSource) -> None:
        self._source = source

    async def page(
        self,
        peer: str,
        path: str,
        params: Mapping[str, str],
        *,
        aged: Callable[[float], None],
        accept: str = "application/json",
    ) -> bytearray:
        try:
            async with asyncio.timeout(LIST_WITHIN):
                return await self._source.page(
                    _at(peer, path), params, accept=accept, arrived=_bounded, aged=aged
                )
        except TimeoutError as error:
            raise Unreachable(f"no list of {peer} within {LIST_WITHIN:g}s") from error

    def batches(
        self, peer: str, path: str, params: Mapping[str, str]
    ) -> AsyncGenerator[Sequence[bytes], None]:
        return self._source.batches(_at(peer, path), params)


def _at(peer: str, path: str) -> str:
    return f"{PREFIX}{peer}{path}"


def _bounded(body: bytearray) -> None:
    if len(body) > MAX_LIST:
        raise Unreachable(f"a list of over {MAX_LIST} bytes")


# Seconds; then it is asked again what the relay may read, by a watch that is opened anew.
DENIED_FOR: Final = 60.0

# Whether the relay's own credential may list and watch what a stream holds.
MayRead = Callable[[Stream], Awaitable[bool]]


class Feeds:
    """Of the streams that `declared` holds."""

    def __init__(
        self,
        declared: Sequence[Preload],
        sources: PoolSources,
        hubs: HubReads,
        may_read: MayRead,
    ) -> None:
        self._declared = declared
        self._sources = sources
        self._hubs = hubs
        self._may_read = may_read

    def of(self, stream: Stream, cloud: CloudFeed) -> Feed | None:
        if not any(is_shared(it, stream.scope) for it in self._declared):
            return None
        return PoolFeed(stream, self._sources, cloud, self._hubs, self._may_read)


class PoolFeed:
    """Of one stream; `LinkVerdict` of what feeds it."""

    def __init__(
        self,
        stream: Stream,
        sources: PoolSources,
        cloud: CloudFeed,
        hubs: HubReads,
        may_read: MayRead,
    ) -> None:
        self._stream = stream
        self._resource = str(stream.scope.resource)
        self._sources = sources
        self._cloud = cloud
        self._asked = hubs
        self._may_read = may_read
        self._choice = SourceChoice()
        # Until when the own credential is taken not to suffice.
        self._denied_until = -math.inf
        # Wall time of the latest line by which the hub was one.
        self._fed_at = 0.0

    # ── the link of what feeds it ──

    @property
    def link(self) -> LinkVerdict:
        return self

    def is_up(self, now: float) -> bool:
        if self.is_cloud:
            return self._cloud.link.is_up(now)
        return self._choice.is_fed(self._hubs(now), now)

    def is_behind(self, now: float) -> bool:
        return self._cloud.link.is_behind(now)

    @property
    def answered_at(self) -> float:
        return self._cloud.answered_at if self.is_cloud else self._fed_at

    @property
    def source(self) -> str:
        return self._choice.hub or CLOUD

    @property
    def is_cloud(self) -> bool:
        return self._choice.hub == API_SERVER

    @property
    def is_wrong(self) -> bool:
        now = boottime()
        hubs = self._hubs(now)
        if self._choice.is_fed(hubs, now):
            self._fed_at = time.time()
        return self._choice.is_wrong(hubs, now)

    def may_ask(self, *, is_up: bool) -> bool:
        now = boottime()
        return self._choice.may_ask(self._hubs(now), now, is_up=is_up)

    async def choose(self) -> None:
        """A stream whose objects are doubtful is listed where they come from."""
        before = self.source
        while True:
            now = boottime()
            if self._sources.hubs(self._resource, now) and not self._stream.is_doubtful:
                is_allowed = await self._may_read(self._stream)
                self._denied_until = -math.inf if is_allowed else boottime() + DENIED_FOR
            now = boottime()
            hubs = [] if self._stream.is_doubtful else self._asked_anew(now)
            is_lost = self._cloud.link.is_up(now) and not self._sources.leads(now)
            opening = self._choice.open(hubs, now, random.random(), is_lost=is_lost)
            if not opening.delay:
                break
            await asyncio.sleep(opening.delay)
        if self.source != before:
            scope = self._stream.scope
            logger.info("another source", extra=fields(stream=scope, source=self.source))
        self._fed_at = time.time()

    def disappointed(self, *, is_expired: bool = False) -> bool:
        if self.is_cloud:
            return False
        self._choice.failed(boottime(), is_expired=is_expired)
        return True

    # ── its requests ──

    async def page(
        self,
        path: str,
        params: Mapping[str, str],
        *,
        accept: str = "application/json",
        arrived: Callable[[bytearray], None] | None = None,
        aged: Callable[[float], None] | None = None,
    ) -> bytearray:
        if self.is_cloud:
            return await self._cloud.page(path, params, accept=accept, arrived=arrived, aged=aged)
        ages: list[float] = []
        body = await self._asked.page(self.source, path, params, accept=accept, aged=ages.append)
        if ages:
            raise Unreachable(f"{self.source} is cut off itself")
        if arrived is not None:
            arrived(body)
        return body

    def batches(
        self, path: str, params: Mapping[str, str]
    ) -> AsyncGenerator[Sequence[bytes], None]:
        if self.is_cloud:
            return self._cloud.batches(path, params)
        return self._of_hub(self._asked.batches(self.source, path, params))

    async def _of_hub(
        self, batches: AsyncGenerator[Sequence[bytes], None]
    ) -> AsyncGenerator[Sequence[bytes], None]:
        async with aclosing(batches):
            async for lines in batches:
                self._choice.heard(boottime())
                yield lines

    def _hubs(self, now: float) -> list[str]:
        """That may feed it: to the one that does it does not matter where its window begins."""
        if now < self._denied_until:
            return []
        hubs = self._sources.hubs(self._resource, now)
        return [it for it in hubs if it == self._choice.hub or self._is_held(it)]

    def _asked_anew(self, now: float) -> list[str]:
        return [it for it in self._hubs(now) if self._is_held(it)]

    def _is_held(self, hub: str) -> bool:
        """Whether a watch from this stream's cursor may begin there; a list may."""
        collection = self._stream.collection
        window = self._sources.window(hub, self._resource)
        return not collection.is_synced or window <= collection.cursor
