"""The way to upstream over a neighbour's link, while the own one is down and the neighbour lends;
and the lines of /sources that say so.

    own link --(a line names a lender)--> over the lender --(another one)--> over that one
       ^-----------(a line names none, or none came for its seconds)-----------'

Guarantees: what a connection carries is TLS between the relay and the API server, with the same
credentials and checks as ever. Meanwhile the own link is probed beside it (`is_own_up`), by which
the pool decides when the detour ends. When it begins, what waits on the own link ends at once; when
it ends, open watches go on at their cursors on the own link, or the link is down at once. A
pool-sidecar that refuses, ends or garbles its lines is asked with growing delays.
"""

import asyncio
import random
from collections.abc import Callable
from contextlib import aclosing
from typing import Final, Never

from edge_sidecars.kubeapi import ApiClient, ApiError, Unreachable
from edge_sidecars.kubeapi.credentials import WatchedFiles
from edge_sidecars.runtime.backoff import Backoff
from edge_sidecars.runtime.cli.proxies import HttpProxy
from edge_sidecars.runtime.cli.values import Address
from edge_sidecars.runtime.clock import boottime, is_set
from edge_sidecars.runtime.log import fields, logger
from edge_sidecars.runtime.tasks import Spawn
from relay_sidecar.pool.sources import MAX_VALID, PoolSources, SourcesLine
from relay_sidecar.upstream.link_probe import LinkProbe

PATH: Final = "/sources"
OPEN_TIMEOUT: Final = 2.0
# Seconds; it is on this machine, and a restart of it takes half a second.
LONGEST_DELAY: Final = 5.0
# Seconds; a stream that lasted so long was worth its while: it brought three lines.
GOOD: Final = MAX_VALID


async def follow(pool: ApiClient, heard: Callable[[SourcesLine], None]) -> Never:
    """`heard` is called with each line."""
    backoff = Backoff(longest=LONGEST_DELAY)
    following = _Following(pool, heard)
    while True:
        began = boottime()
        why = await following.once()
        if boottime() - began >= GOOD:
            backoff.succeeded()
        delay = backoff.failed(1.0 - random.random() / 2)
        level = logger.debug if following.is_lost else logger.warning
        level("the pool-sidecar does not answer", extra=fields(why=why, delay=delay))
        following.is_lost = True
        await asyncio.sleep(delay)


class _Following:
    def __init__(self, pool: ApiClient, heard: Callable[[SourcesLine], None]) -> None:
        self._pool = pool
        self._heard = heard
        # That it was lost was logged, and it has not answered since.
        self.is_lost = False

    async def once(self) -> str:
        """Until the stream ends; why it did."""
        lines = self._pool.lines(PATH, open_timeout=OPEN_TIMEOUT, params={"watch": "true"})
        try:
            async with aclosing(lines):
                while True:
                    async with asyncio.timeout(MAX_VALID):
                        line = await anext(lines, None)
                    if line is None:
                        return "it ended the stream"
                    self._heard(SourcesLine.parse(line))
                    if self.is_lost:
                        logger.info("the pool-sidecar answers again")
                    self.is_lost = False
        except TimeoutError:
            return f"no line for {MAX_VALID:g}s"
        except ValueError as error:
            return f"not a line of /sources: {error}"
        except (ApiError, Unreachable) as error:
            return str(error)


OWN_LINK: Final = "the own link"


class NeighbourProxy:
    """What an `ApiTransport` asks before each request. `reads_own`: as `PoolSources` has it."""

    def __init__(
        self, connect: Address, token: WatchedFiles[str], *, reads_own: bool = False
    ) -> None:
        self.sources = PoolSources(reads_own=reads_own)
        self._url = f"http://{connect}"
        self._token = token

    def __call__(self) -> HttpProxy | None:
        if not self.sources.via(boottime()):
            return None
        try:
            return HttpProxy(self._url, f"Bearer {self._token.get()}")
        except (OSError, ValueError):
            # Never read: then no line could be asked for either.
            return None


class Detour:
    """`probe` is of the link by which connections are made now; `own_probe` makes one that never
    goes over a neighbour. `moved` is called when open watches are to go on over the own link,
    `refresh` when there may be another hub, or none any more."""

    def __init__(
        self,
        sources: PoolSources,
        probe: LinkProbe,
        *,
        own_probe: Callable[[], LinkProbe],
        moved: Callable[[], None],
        refresh: Callable[[], None],
        spawn: Spawn,
    ) -> None:
        self._sources = sources
        self._probe = probe
        self._own_probe = own_probe
        self._moved = moved
        self._refresh = refresh
        self._spawn = spawn
        self._via = ""
        self._own: tuple[LinkProbe, asyncio.Task[None]] | None = None
        self._kick = asyncio.Event()

    @property
    def via(self) -> str:
        """The neighbour over which connections are made now, "" for none."""
        return self._sources.via(boottime())

    @property
    def is_own_up(self) -> bool:
        """Whether upstream is reached without a neighbour."""
        return (self._probe if self._own is None else self._own[0]).is_up

    def heard(self, line: SourcesLine) -> None:
        self._sources.heard(line, boottime())
        self._follow()
        self._refresh()
        self._kick.set()

    async def run(self) -> Never:
        """Ends in time what a line allowed."""
        while True:
            self._kick.clear()
            self._follow()
            self._refresh()
            left = self._sources.valid_until - boottime()
            await is_set(self._kick, within=left if left > 0 else None)

    def _follow(self) -> None:
        via = self.via
        if via == self._via:
            return
        self._via = via
        logger.info("the way to upstream changed", extra=fields(via=via or OWN_LINK))
        if via:
            # Of the own link the pool knows that it is cut, maybe before this relay does.
            self._probe.way_changed(is_lost=self._own is None)
            if self._own is None:
                own = self._own_probe()
                self._own = own, self._spawn(own.run())
            return
        is_own_up = self.is_own_up
        if self._own is not None:
            self._own[1].cancel()
            self._own = None
        self._probe.way_changed(is_lost=not is_own_up)
        if is_own_up:
            self._moved()
