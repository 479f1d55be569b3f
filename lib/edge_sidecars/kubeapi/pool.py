"""Connections that are used again, and those that are made beside the requests that want them.

Guarantees of the pool: one request at a time on each connection. One is used again only while it is
open, has no unread byte (which would be taken for the next answer), was idle for less than the
pool's seconds and is younger than its `max_age`. After `retire`, or with other credentials, none of
before is. Time runs on through a suspend, which the other end and everything in between need not
have survived.

Over a slow link TCP and TLS alone take longer than a request may. So in the background the
connecting goes on when the request that began it was given up, and the next request that wants a
connection gets it. Guarantees: a connection is handed to one request; one that waits is used within
`READY_FOR` seconds or closed, and after `retire` those that wait are not used. Where connecting is
quick, nothing is left over.
"""

import asyncio
import contextlib
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import cast

import aiohttp
from aiohttp.resolver import ThreadedResolver

from edge_sidecars.kubeapi.aiohttp_private import (
    Connect,
    ConnectionKey,
    ProxiedConnector,
    ResponseHandler,
    abort,
)
from edge_sidecars.kubeapi.connector import Connector, Resolver, tuned_socket
from edge_sidecars.runtime.clock import boottime

# Seconds; behind a load balancer, other API servers get their turn after so many.
MAX_AGE = 120.0
# Seconds; as long as a kernel repeats its SYN three times, or a round trip of 5 s three times.
CONNECT_TIMEOUT = 15.0
# Seconds; shorter than servers, proxies and address translation keep an idle connection.
READY_FOR = 10.0
# At a time, those that were given up included; the oldest of these ends for a new one, which may
# find a link that is healed.
MAX_CONNECTS = 8
# Seconds; connections that took longer are worth to be used twice.
SLOW = 0.5
# Seconds between two looks at every idle connection of a pool; one that is wanted is looked at
# each time.
SWEEP = 1.0

_Waiter = asyncio.Future[ResponseHandler]


class Channel:
    """A session with one connection, or none yet."""

    def __init__(
        self, session: aiohttp.ClientSession, *, now: float, generation: int, max_age: float
    ) -> None:
        self.session = session
        self.connector = cast(Connector, session.connector)
        self.generation = generation
        self._useless_at = now + max_age
        self._used_at = -math.inf

    def used(self) -> None:
        """A response was read to its end."""
        self._used_at = boottime()

    def is_usable(self, now: float, *, idle: float) -> bool:
        return self.connector.is_reusable and now - self._used_at < idle and now < self._useless_at


class ConnectionPool:
    """`open_session` makes one with a `Connector`; `idle` and `max_age` in seconds, `max_idle`
    connections at most wait for their next use."""

    def __init__(
        self,
        open_session: Callable[[], aiohttp.ClientSession],
        *,
        idle: float,
        max_idle: int,
        max_age: float = MAX_AGE,
    ) -> None:
        self._open_session = open_session
        self._idle_limit = idle
        self._max_idle = max_idle
        self._max_age = max_age
        self._idle: list[Channel] = []
        self._generation = 0
        self._credentials: object = None
        # When all idle ones are to be looked at next.
        self._sweep_at = -math.inf

    def channel(self, credentials: object, *, idle: float) -> "_Lent":
        """For one request, which calls `Channel.used`; else the connection is closed. A new one,
        unless another was used within `idle` seconds."""
        if credentials != self._credentials:
            self._credentials = credentials
            self.retire()
        return _Lent(self, idle)

    async def give_back(self, channel: Channel) -> None:
        if self._is_usable(channel) and len(self._idle) < self._max_idle:
            self._idle.append(channel)
        else:
            await channel.session.close()

    def retire(self) -> None:
        """None of the present ones is used again, those that are lent included."""
        self._generation += 1
        self._sweep_at = -math.inf

    async def close(self) -> None:
        while self._idle:
            await self._idle.pop().session.close()

    async def take(self, idle: float) -> Channel:
        """The one that was used last, which is the likeliest to live, or a new one."""
        now = boottime()
        if now >= self._sweep_at:
            await self._sweep(now)
        while self._idle:
            newest = self._idle.pop()
            if not self._is_usable(newest):
                await newest.session.close()
            elif newest.is_usable(now, idle=idle):
                return newest
            else:
                self._idle.append(newest)
                break
        return Channel(
            self._open_session(),
            now=boottime(),
            generation=self._generation,
            max_age=self._max_age,
        )

    async def _sweep(self, now: float) -> None:
        self._sweep_at = now + SWEEP
        # Each is ours until it is closed: the request for which this is done may be cancelled.
        for each in [it for it in self._idle if not self._is_usable(it)]:
            if each in self._idle:
                self._idle.remove(each)
                await each.session.close()

    def _is_usable(self, channel: Channel) -> bool:
        is_current = channel.generation == self._generation
        return is_current and channel.is_usable(boottime(), idle=self._idle_limit)


class _Lent:
    """A channel for the time of a block. No generator: each request has one of these."""

    def __init__(self, pool: ConnectionPool, idle: float) -> None:
        self._pool = pool
        self._idle = idle

    async def __aenter__(self) -> Channel:
        self._channel = await self._pool.take(self._idle)
        return self._channel

    async def __aexit__(self, *_: object) -> None:
        await self._pool.give_back(self._channel)


@dataclass(frozen=True)
class _Ready:
    key: ConnectionKey
    handler: ResponseHandler
    since: float


class BackgroundConnects:
    """An `aiohttp_private.ConnectionMaker`. `silence` in seconds: its connections are a
    `tuned_socket` each, and names that were resolved once are used while DNS is away."""

    def __init__(self, *, silence: float | None = None) -> None:
        self._resolver = None if silence is None else Resolver(ThreadedResolver())
        if silence is None:
            self.connector: aiohttp.TCPConnector = ProxiedConnector(force_close=True, limit=0)
        else:
            self.connector = ProxiedConnector(
                force_close=True,
                limit=0,
                resolver=self._resolver,
                use_dns_cache=False,
                socket_factory=partial(tuned_socket, silence=silence),
            )
        # Seconds that the last one took, DNS and TLS included.
        self.took = 0.0
        self._waiting: deque[tuple[ConnectionKey, _Waiter]] = deque()
        self._connects: dict[asyncio.Task[None], _Waiter] = {}
        self._ready: list[_Ready] = []

    @property
    def is_slow(self) -> bool:
        """Whether connections are worth to be used twice."""
        return self.took > SLOW

    async def connection(self, key: ConnectionKey, connect: Connect) -> ResponseHandler:
        """One that is there, or the first that is ready. Raises what aiohttp's connector raises."""
        ready = self._take(key)
        if ready is not None:
            return ready
        waiter: _Waiter = asyncio.get_running_loop().create_future()
        waiting = (key, waiter)
        self._waiting.append(waiting)
        self._begin(key, connect, waiter)
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self._put(key, waiter.result())
            raise
        finally:
            with contextlib.suppress(ValueError):
                self._waiting.remove(waiting)

    def retire(self) -> None:
        """None that waits is used: it leads to where something failed."""
        while self._ready:
            _close(self._ready.pop().handler)

    async def close(self) -> None:
        for task in tuple(self._connects):
            task.cancel()
        await asyncio.gather(*self._connects, return_exceptions=True)
        self.retire()
        await self.connector.close()
        if self._resolver is not None:
            await self._resolver.close()

    def _begin(self, key: ConnectionKey, connect: Connect, waiter: _Waiter) -> None:
        if len(self._connects) >= MAX_CONNECTS:
            given_up = (task for task, it in self._connects.items() if it.done())
            oldest = next(given_up, None)
            if oldest is not None:
                oldest.cancel()
        task = asyncio.create_task(self._connect(key, connect, waiter))
        self._connects[task] = waiter
        task.add_done_callback(self._connects.pop)

    async def _connect(self, key: ConnectionKey, connect: Connect, waiter: _Waiter) -> None:
        loop = asyncio.get_running_loop()
        began_at = loop.time()
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                handler = await connect()
        except (aiohttp.ClientError, OSError, UnicodeError) as error:
            if not waiter.done():
                waiter.set_exception(error)
            return
        self.took = loop.time() - began_at
        others = (it for wanted, it in self._waiting if wanted == key and not it.done())
        taker = next(others, None) if waiter.done() else waiter
        if taker is None:
            self._put(key, handler)
        else:
            taker.set_result(handler)

    def _put(self, key: ConnectionKey, handler: ResponseHandler) -> None:
        loop = asyncio.get_running_loop()
        self._ready.append(_Ready(key, handler, loop.time()))
        loop.call_later(READY_FOR, self._close_old)

    def _take(self, key: ConnectionKey) -> ResponseHandler | None:
        self._close_old()
        for ready in reversed(self._ready):
            if ready.key == key:
                self._ready.remove(ready)
                return ready.handler
        return None

    def _close_old(self) -> None:
        too_old = asyncio.get_running_loop().time() - READY_FOR
        for ready in tuple(self._ready):
            if ready.since <= too_old or not ready.handler.is_connected():
                self._ready.remove(ready)
                _close(ready.handler)


def _close(handler: ResponseHandler) -> None:
    if handler.transport is not None:
        abort(handler.transport)
