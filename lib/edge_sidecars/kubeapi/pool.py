"""Connections that are kept between requests, and which of them may be used once more.

Guarantees: one request at a time on each; one is used again only while it is open, has no unread
byte (which would be taken for the next answer), was idle for less than `idle` seconds and is
younger than `MAX_AGE`; after `drop`, or with other credentials, none of before is. Time runs on
through a suspend, which the other end and everything in between need not have survived.
"""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection

# Behind a load balancer, other API servers get their turn after so many seconds.
MAX_AGE = 120.0
# So many idle ones at a time, of one ApiServer, unless it is told another number.
MAX_IDLE = 8

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Response(aiohttp.ClientResponse):
    """Knows its connection still when aiohttp, with the last byte, has let go of it."""

    protocol: ResponseHandler | None = None

    async def start(self, connection: Connection) -> aiohttp.ClientResponse:
        self.protocol = connection.protocol
        return await super().start(connection)


class Channel:
    """A session with one connection, or none yet."""

    def __init__(self, session: aiohttp.ClientSession, *, now: float, generation: int) -> None:
        self.session = session
        self.generation = generation
        self._opened_at = now
        self._used_at = now
        self._protocol: ResponseHandler | None = None

    @property
    def is_new(self) -> bool:
        """Whether its connection is still to be made."""
        return self._protocol is None

    def used(self, response: aiohttp.ClientResponse) -> None:
        """Its answer was read to the end."""
        self._protocol = cast(Response, response).protocol
        self._used_at = _now()

    def is_usable(self, now: float, *, idle: float) -> bool:
        return (
            self._protocol is not None
            and self._protocol.is_connected()
            and not self._protocol.should_close
            and now - self._used_at < idle
            and now - self._opened_at < MAX_AGE
        )


class KeptConnections:
    """`open_session` makes one whose responses are `Response`; it is given its `connector`."""

    def __init__(
        self,
        open_session: Callable[[Any], aiohttp.ClientSession],
        *,
        idle: float,
        connector: Callable[..., aiohttp.BaseConnector] = aiohttp.TCPConnector,
        max_idle: int = MAX_IDLE,
    ) -> None:
        self._open_session = open_session
        self._connector = connector
        self._idle_limit = idle
        self._max_idle = max_idle
        self._idle: list[Channel] = []
        self._generation = 0
        self._credentials: tuple[object, ...] = ()

    @asynccontextmanager
    async def channel(
        self, *credentials: object, idle: float | None = None
    ) -> AsyncIterator[Channel]:
        """For one request, which is to be told to `Channel.used`; else the connection is closed.

        `idle`: the request wants a new one unless another was used within so many seconds.
        """
        if credentials != self._credentials:
            self._credentials = credentials
            self.drop()
        channel = await self._take(self._idle_limit if idle is None else idle)
        try:
            yield channel
        finally:
            if self._is_usable(channel) and len(self._idle) < self._max_idle:
                self._idle.append(channel)
            else:
                await channel.session.close()

    def drop(self) -> None:
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
        if self._idle and self._idle[-1].is_usable(_now(), idle=idle):
            return self._idle.pop()
        connector = self._connector(limit=1, keepalive_timeout=self._idle_limit)
        session = self._open_session(connector)
        return Channel(session, now=_now(), generation=self._generation)

    def _is_usable(self, channel: Channel) -> bool:
        is_current = channel.generation == self._generation
        return is_current and channel.is_usable(_now(), idle=self._idle_limit)


def _now() -> float:
    return time.clock_gettime(_CLOCK)
