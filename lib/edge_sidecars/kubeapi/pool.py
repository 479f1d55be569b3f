"""Connections that are used again, and which of them may be used once more.

Guarantees: one request at a time on each; one is used again only while it is open, has no unread
byte (which would be taken for the next answer), was idle for less than the pool's seconds and is
younger than `MAX_AGE`; after `retire`, or with other credentials, none of before is. Time runs on
through a suspend, which the other end and everything in between need not have survived.
"""

import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import cast

import aiohttp

from edge_sidecars.kubeapi.connector import Connector
from edge_sidecars.runtime.clock import boottime

# Seconds; behind a load balancer, other API servers get their turn after so many.
MAX_AGE = 120.0


class Channel:
    """A session with one connection, or none yet."""

    def __init__(self, session: aiohttp.ClientSession, *, now: float, generation: int) -> None:
        self.session = session
        self.connector = cast(Connector, session.connector)
        self.generation = generation
        self._opened_at = now
        self._used_at = -math.inf

    def used(self) -> None:
        """A response was read to its end."""
        self._used_at = boottime()

    def is_usable(self, now: float, *, idle: float) -> bool:
        return (
            self.connector.is_reusable
            and now - self._used_at < idle
            and now - self._opened_at < MAX_AGE
        )


class ConnectionPool:
    """`open_session` makes one with a `Connector`; `idle` in seconds, `max_idle` connections
    at most wait for their next use."""

    def __init__(
        self, open_session: Callable[[], aiohttp.ClientSession], *, idle: float, max_idle: int
    ) -> None:
        self._open_session = open_session
        self._idle_limit = idle
        self._max_idle = max_idle
        self._idle: list[Channel] = []
        self._generation = 0
        self._credentials: object = None

    @asynccontextmanager
    async def channel(self, credentials: object, *, idle: float) -> AsyncIterator[Channel]:
        """For one request, which calls `Channel.used`; else the connection is closed. A new one,
        unless another was used within `idle` seconds."""
        if credentials != self._credentials:
            self._credentials = credentials
            self.retire()
        channel = await self._take(idle)
        try:
            yield channel
        finally:
            if self._is_usable(channel) and len(self._idle) < self._max_idle:
                self._idle.append(channel)
            else:
                await channel.session.close()

    def retire(self) -> None:
        """None of the present ones is used again, those that are lent included."""
        self._generation += 1

    async def close(self) -> None:
        while self._idle:
            await self._idle.pop().session.close()

    async def _take(self, idle: float) -> Channel:
        """The one that was used last, which is the likeliest to live, or a new one."""
        while useless := [each for each in self._idle if not self._is_usable(each)]:
            self._idle.remove(useless[0])
            await useless[0].session.close()
        if self._idle and self._idle[-1].is_usable(boottime(), idle=idle):
            return self._idle.pop()
        return Channel(self._open_session(), now=boottime(), generation=self._generation)

    def _is_usable(self, channel: Channel) -> bool:
        is_current = channel.generation == self._generation
        return is_current and channel.is_usable(boottime(), idle=self._idle_limit)
