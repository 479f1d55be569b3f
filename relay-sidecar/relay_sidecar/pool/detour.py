"""The way to upstream over a neighbour's link, while the own one is cut and the neighbour lends.

    own link --(a line names a lender)--> over the lender --(another one)--> over that one
       ^-----------(a line names none, or none came for its seconds)-----------'

Guarantees: `proxy` says of now where a connection leads; what it carries is TLS between the relay
and the API server, with the same credentials and checks as ever. While it leads over a neighbour,
the own link is probed beside it, and `is_own_up` tells of that one alone: by that the pool decides
when the detour ends. When it begins, what still waits on the own link ends at once. Where it ends
and the own link is down, the link is down at once; where the own link is up, open watches go on
there, at their cursors.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Never

from edge_sidecars.kubeapi.credentials import WatchedFiles
from edge_sidecars.runtime.cli.proxies import HttpProxy
from edge_sidecars.runtime.cli.values import Address
from edge_sidecars.runtime.clock import boottime, is_set
from edge_sidecars.runtime.log import fields, logger
from edge_sidecars.runtime.tasks import Spawn
from relay_sidecar.pool.core.pool_sources import PoolSources, SourcesLine
from relay_sidecar.upstream.link_probe import LinkProbe

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
        """Sees to it that what a line said ends in time."""
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
