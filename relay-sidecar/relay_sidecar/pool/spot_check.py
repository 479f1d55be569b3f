"""Compares what hubs tell with what the API server says: one object of chance every five minutes.

Guarantees: a hub that showed other bytes at the same version, or an object that the API server does
not have (any more) and that is still shown `UNSEEN_FOR` seconds later, feeds nothing here for an
hour; the stream that held it is listed from the API server. Nothing is asked over a neighbour's
link. Bytes can be compared since a hub passes them on as they are.
"""

import asyncio
import json
import random
from collections.abc import Callable
from typing import Final, Never

from edge_sidecars.apimachinery.objects import Item, Malformed, read_item
from edge_sidecars.apimachinery.scope import ListScope
from edge_sidecars.kubeapi import ApiError, Unreachable
from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.log import fields, logger
from relay_sidecar.pool.core.pool_sources import PoolSources
from relay_sidecar.streams.stream import Stream
from relay_sidecar.streams.streams import Streams
from relay_sidecar.upstream.reflector.feed import CLOUD
from relay_sidecar.upstream.reflector.source import UpstreamSource

# Seconds (pool.md 4); half as long and half as much again, so that nodes do not ask together.
EVERY: Final = 300.0
# Seconds after which a hub that is live has shown what the API server already said.
UNSEEN_FOR: Final = 30.0
# Seconds.
SHUNNED_FOR: Final = 3600.0


class SpotCheck:
    """`is_own_link_up`: whether the API server is reached without a neighbour."""

    def __init__(
        self,
        streams: Streams,
        sources: PoolSources,
        cloud: UpstreamSource,
        *,
        is_own_link_up: Callable[[], bool],
    ) -> None:
        self._streams = streams
        self._sources = sources
        self._cloud = cloud
        self._is_own_link_up = is_own_link_up

    async def run(self) -> Never:
        while True:
            await asyncio.sleep(EVERY * (0.5 + random.random()))
            await self.check()

    async def check(self) -> None:
        fed = [it for it in self._streams if self._hub(it) and it.collection.objects]
        if not fed or not self._is_own_link_up():
            return
        stream = random.choice(fed)
        hub, item = self._hub(stream), random.choice(stream.items())
        try:
            why = await self._lie(stream, item)
        except (ApiError, Unreachable, Malformed) as error:
            logger.debug("hub is not checked", extra=fields(stream=stream.scope, why=error))
            return
        if why and self._hub(stream) == hub:
            logger.warning(
                "a hub lies",
                extra=fields(hub=hub, stream=stream.scope, object="/".join(item.key), why=why),
            )
            self._streams.counters.lying_hubs += 1
            self._sources.shun(hub, boottime() + SHUNNED_FOR)
            stream.relist()
            # Of its other streams too, another source comes first now.
            self._streams.refresh()

    async def _lie(self, stream: Stream, item: Item) -> str:
        """Why the hub cannot be right; "" where it may be."""
        told = await self._told(stream, item)
        if told is not None and told.version == item.version:
            return "" if _is_same(told.raw, item.raw) else "other bytes at the same version"
        await asyncio.sleep(UNSEEN_FOR)
        shown = stream.collection.objects.get(item.key)
        if shown is None or shown.version != item.version or not stream.is_live():
            return ""
        if told is not None:
            # A version of before what is here: of an API server that is behind.
            return "it withholds a change" if told.version > item.version else ""
        return "" if await self._told(stream, item) is not None else "there is no such object"

    async def _told(self, stream: Stream, item: Item) -> Item | None:
        """By the API server; None where it has none. Raises `ApiError`, `Unreachable`,
        `Malformed`."""
        namespace, name = item.key
        scope = ListScope(stream.scope.resource, namespace)
        try:
            body = await self._cloud.page(f"{scope.path}/{name}", {})
        except ApiError as error:
            if error.status == 404:
                return None
            raise
        return read_item(bytes(body))

    def _hub(self, stream: Stream) -> str:
        """Which one feeds it, live; "" where none does."""
        return stream.source if stream.source != CLOUD and stream.is_live() else ""


def _is_same(one: bytes, other: bytes) -> bool:
    """In whatever order of fields; where a hub nests deeper than can be read, byte for byte."""
    try:
        return bool(json.loads(one) == json.loads(other))
    except RecursionError:
        return one == other
