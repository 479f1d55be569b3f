"""`--notify-url`: the /leader document is POSTed at each change of the election.

Guarantee: the latest state is delivered at least once as long as the URL answers 2xx in the end;
states that were overtaken meanwhile may be skipped. Off the renewal path.
"""

import asyncio

from edge_sidecars.runtime.backoff import Backoff
from edge_sidecars.runtime.cli.values import without_user
from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.log import fields, logger
from elector_sidecar.elector import Elector
from elector_sidecar.main_container import MainContainer
from elector_sidecar.status import ElectorStatus

TIMEOUT = 5.0
# First retry after this, then twice as long each time up to the limit.
RETRY_DELAY = 0.5
RETRY_LIMIT = 10.0
# Bounds the wait for a change, in seconds.
MAX_SLEEP = 60.0


class NotifyUrl:
    def __init__(self, elector: Elector, main: MainContainer, url: str) -> None:
        self._elector = elector
        self._main = main
        self._url = url
        self._told: ElectorStatus | None = None

    @property
    def is_flushed(self) -> bool:
        """Whether the present state has been delivered."""
        status = self._elector.status(boottime())
        return self._told is not None and status.is_same_state(self._told)

    async def close(self) -> None:
        """Nothing is on its way once it is settled."""

    async def run(self) -> None:
        backoff = Backoff(first=RETRY_DELAY, longest=RETRY_LIMIT)
        while True:
            if self.is_flushed:
                await self._elector.changed(MAX_SLEEP)
                continue
            status = self._elector.status(boottime())
            self._elector.tell(status)
            if await self._main.tell(self._url, status.json(), timeout=TIMEOUT):
                self._told = status
                backoff.succeeded()
                continue
            delay = backoff.failed()
            logger.warning(
                "notifying failed", extra=fields(url=without_user(self._url), retry_in=delay)
            )
            await asyncio.sleep(delay)
