"""Connections that are made beside the requests that want them, with time of their own.

Over a slow link TCP and TLS alone take longer than a request may. So the connecting goes on when
the request that began it was given up, and the next request that wants a connection gets it.
Guarantees: a connection is handed to one request; one that waits is used within `READY_FOR` seconds
or closed, and after `retire` those that wait are not used. Where connecting is quick, nothing is
left over.
"""

import asyncio
import contextlib
from collections import deque
from dataclasses import dataclass

import aiohttp

from edge_sidecars.kubeapi.aiohttp_private import (
    Connect,
    ConnectionKey,
    ResponseHandler,
    abort,
)

# Seconds; as long as a kernel repeats its SYN three times, or a round trip of 5 s three times.
CONNECT_TIMEOUT = 15.0
# Seconds; shorter than servers, proxies and address translation keep an idle connection.
READY_FOR = 10.0
# At a time, those that were given up included; the oldest of these ends for a new one, which may
# find a link that is healed.
MAX_CONNECTS = 8
# Seconds; connections that took longer are worth to be used twice.
SLOW = 0.5

_Waiter = asyncio.Future[ResponseHandler]


@dataclass(frozen=True)
class _Ready:
    key: ConnectionKey
    handler: ResponseHandler
    since: float


class BackgroundConnects:
    """An `aiohttp_private.ConnectionMaker`."""

    def __init__(self) -> None:
        self.connector = aiohttp.TCPConnector(force_close=True, limit=0)
        # Whether the last one took long.
        self.is_slow = False
        self._waiting: deque[tuple[ConnectionKey, _Waiter]] = deque()
        self._connects: dict[asyncio.Task[None], _Waiter] = {}
        self._ready: list[_Ready] = []

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
        self.is_slow = loop.time() - began_at > SLOW
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
