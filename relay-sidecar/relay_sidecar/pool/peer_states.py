"""What peers know of pool-scoped streams while nobody reaches the API server.

A node that was off while its neighbours went on knows less than they do: each of its pool-scoped
streams takes the list of the peer whose relay stands furthest, with that list's age. Where the
objects are others, its watchers begin anew (410), as after a list of the API server.
Guarantees: only while the link to upstream is down and no hub feeds the stream; a stream never goes
back; it does not count as live by this; a peer is asked for one stream once in `FIRST_LEFT` seconds
at most, and less often while it brings nothing.
"""

import asyncio
import math
import time
from collections.abc import Sequence
from typing import Final, Never

from edge_sidecars.apimachinery.objects import Malformed, Page, read_page
from edge_sidecars.kubeapi import ApiError, Unreachable
from edge_sidecars.runtime.backoff import exponential
from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.log import fields, logger
from relay_sidecar.config.preload import Preload
from relay_sidecar.core.link import UpstreamLink
from relay_sidecar.core.pool_sources import PoolSources
from relay_sidecar.pool.hub_reads import HubReads
from relay_sidecar.pool.own_rights import OwnRights
from relay_sidecar.streams.shared_streams import is_shared
from relay_sidecar.streams.stream import Stream
from relay_sidecar.streams.streams import Streams

# Seconds between two looks; a line of /sources comes as often.
LOOK: Final = 2.0
# Seconds for which a peer is left that was asked, and at most, where it brought nothing.
FIRST_LEFT: Final = 10.0
LONGEST_LEFT: Final = 300.0
# Of Kubernetes: any version will do.
_ANY: Final = {"resourceVersion": "0"}


class PeerStates:
    """`link`: to upstream, over a neighbour too."""

    def __init__(
        self,
        declared: Sequence[Preload],
        sources: PoolSources,
        hubs: HubReads,
        streams: Streams,
        link: UpstreamLink,
        rights: OwnRights,
    ) -> None:
        self._declared = declared
        self._sources = sources
        self._hubs = hubs
        self._streams = streams
        self._link = link
        self._rights = rights
        # Of a stream, by peer: until when it is left, and how often in a row it brought nothing.
        self._left: dict[Stream, dict[str, tuple[float, int]]] = {}

    async def run(self) -> Never:
        while True:
            await asyncio.sleep(LOOK)
            await self.look()

    async def look(self) -> None:
        self._left = {it: left for it, left in self._left.items() if not it.is_dropped}
        for stream in [it for it in self._streams if self._is_behind(it)]:
            peer = self._furthest(stream)
            if peer and await self._rights.may_read(stream):
                await self._take(stream, peer)

    def _is_behind(self, stream: Stream) -> bool:
        """Whether it may take what a peer knows."""
        now = boottime()
        return (
            not self._link.is_up(now)
            and any(is_shared(it, stream.scope) for it in self._declared)
            and not self._sources.hubs(str(stream.scope.resource), now)
            and stream.collection.is_synced
            and not stream.is_doubtful
        )

    def _furthest(self, stream: Stream) -> str:
        now, left = boottime(), self._left.get(stream, {})
        ahead = self._sources.ahead(str(stream.scope.resource), stream.version, now)
        return next((it for it in ahead if now >= left.get(it, (-math.inf, 0))[0]), "")

    async def _take(self, stream: Stream, peer: str) -> None:
        failures = self._left.get(stream, {}).get(peer, (0.0, 0))[1]
        try:
            page, confirmed_at = await self._asked(stream, peer)
            is_taken = self._is_behind(stream) and await self._streams.reflectors.adopt(
                stream, page, confirmed_at=confirmed_at
            )
        except (ApiError, Unreachable, Malformed) as error:
            logger.debug("no state of a peer", extra=fields(stream=stream.scope, why=error))
            is_taken = False
        failures = 0 if is_taken else failures + 1
        left = exponential(failures, first=FIRST_LEFT, longest=LONGEST_LEFT)
        self._left.setdefault(stream, {})[peer] = boottime() + left, failures
        if is_taken:
            logger.info(
                "a peer knew more",
                extra=fields(
                    stream=stream.scope,
                    peer=peer,
                    version=stream.version,
                    age=round(time.time() - confirmed_at, 1),
                ),
            )

    async def _asked(self, stream: Stream, peer: str) -> tuple[Page, float]:
        """The list, and the wall time at which it was so. Raises `ApiError`, `Unreachable`,
        `Malformed`."""
        asked_at, ages = time.time(), list[float]()
        params = dict(stream.scope.params) | _ANY
        page = read_page(await self._hubs.page(peer, stream.scope.path, params, aged=ages.append))
        if page.continue_token:
            raise Malformed("a part of a list, though all of it was asked for")
        if page.unreadable:
            raise Malformed(f"{page.unreadable} items that cannot be read")
        return page, asked_at - max(ages, default=0.0)
