"""Connections while they are set up: with time of their own, beside the requests that want them.

Over a slow link TCP and TLS alone take longer than a request may. So a set-up goes on when the
request that began it was given up, and whoever wants a connection next gets it. Guarantees: a
connection is handed to one request; one that waits is used within `READY_FOR` seconds or closed,
and after `drop` those that wait are not used. Where setting up is quick, nothing is left over.
"""

import asyncio
import contextlib
from collections import deque
from contextvars import ContextVar
from dataclasses import dataclass
from types import TracebackType

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ConnectionKey
from aiohttp.tracing import Trace

# Seconds; as long as a kernel repeats its SYN three times, or a round trip of 5 s three times.
SET_UP_TIMEOUT = 15.0
# Seconds; shorter than servers, proxies and address translation keep an idle connection.
READY_FOR = 10.0
# Set-ups at a time, those that were given up included; the oldest of these ends for a new one,
# which may find a link that is healed.
MOST = 8
# Seconds; longer ones are worth to be used twice.
SLOW = 0.5


class Attempt:
    """The time of one request: so many seconds to have a connection, and as many for the answer
    over it."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._deadline = asyncio.timeout(seconds)
        self.is_connected = False
        _attempts.set(self)

    async def __aenter__(self) -> asyncio.Timeout:
        return await self._deadline.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        await self._deadline.__aexit__(kind, error, at)

    def connected(self) -> None:
        if not self.is_connected:
            self.is_connected = True
            if not self._deadline.expired():
                self._deadline.reschedule(asyncio.get_running_loop().time() + self._seconds)


# Of the task that is asking: aiohttp does not pass it on.
_attempts: ContextVar[Attempt] = ContextVar("attempt")


@dataclass(frozen=True)
class _Ready:
    key: ConnectionKey
    protocol: ResponseHandler
    since: float


class SetUps:
    def __init__(self) -> None:
        self._connector = aiohttp.TCPConnector(force_close=True, limit=0)
        self._waiting: deque[tuple[ConnectionKey, asyncio.Future[ResponseHandler]]] = deque()
        self._tasks: dict[asyncio.Task[None], asyncio.Future[ResponseHandler]] = {}
        self._ready: list[_Ready] = []
        # Whether the last one took long.
        self.is_slow = False

    async def connection(
        self, req: aiohttp.ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout
    ) -> ResponseHandler:
        """One that is there, or the first that is ready. Raises what aiohttp's connector raises."""
        key = req.connection_key
        ready = self._take(key)
        if ready is not None:
            return ready
        waiter: asyncio.Future[ResponseHandler] = asyncio.get_running_loop().create_future()
        waiting = (key, waiter)
        self._waiting.append(waiting)
        self._begin(req, traces, timeout, waiter)
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self._keep(key, waiter.result())
            raise
        finally:
            with contextlib.suppress(ValueError):
                self._waiting.remove(waiting)

    def drop(self) -> None:
        """None that waits is used: it leads to where something failed."""
        while self._ready:
            _close(self._ready.pop().protocol)

    async def close(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.drop()
        await self._connector.close()

    def _begin(
        self,
        req: aiohttp.ClientRequest,
        traces: list[Trace],
        timeout: aiohttp.ClientTimeout,
        waiter: asyncio.Future[ResponseHandler],
    ) -> None:
        if len(self._tasks) >= MOST:
            given_up = (task for task, it in self._tasks.items() if it.done())
            oldest = next(given_up, None)
            if oldest is not None:
                oldest.cancel()
        task = asyncio.create_task(self._set_up(req, traces, timeout, waiter))
        self._tasks[task] = waiter
        task.add_done_callback(self._tasks.pop)

    async def _set_up(
        self,
        req: aiohttp.ClientRequest,
        traces: list[Trace],
        timeout: aiohttp.ClientTimeout,
        waiter: asyncio.Future[ResponseHandler],
    ) -> None:
        loop = asyncio.get_running_loop()
        began_at = loop.time()
        try:
            async with asyncio.timeout(SET_UP_TIMEOUT):
                protocol = await self._connector._create_connection(req, traces, timeout)
        except (aiohttp.ClientError, OSError, UnicodeError) as error:
            if not waiter.done():
                waiter.set_exception(error)
            return
        self.is_slow = loop.time() - began_at > SLOW
        key = req.connection_key
        others = (it for wanted, it in self._waiting if wanted == key and not it.done())
        taker = next(others, None) if waiter.done() else waiter
        if taker is None:
            self._keep(key, protocol)
        else:
            taker.set_result(protocol)

    def _keep(self, key: ConnectionKey, protocol: ResponseHandler) -> None:
        loop = asyncio.get_running_loop()
        self._ready.append(_Ready(key, protocol, loop.time()))
        loop.call_later(READY_FOR, self._tidy)

    def _take(self, key: ConnectionKey) -> ResponseHandler | None:
        self._tidy()
        for ready in reversed(self._ready):
            if ready.key == key:
                self._ready.remove(ready)
                return ready.protocol
        return None

    def _tidy(self) -> None:
        too_old = asyncio.get_running_loop().time() - READY_FOR
        for ready in tuple(self._ready):
            if ready.since <= too_old or not ready.protocol.is_connected():
                self._ready.remove(ready)
                _close(ready.protocol)


class Connector(aiohttp.BaseConnector):
    """Makes none by itself."""

    def __init__(
        self,
        set_ups: SetUps,
        *,
        limit: int = 0,
        keepalive_timeout: float | None = None,
        force_close: bool = False,
    ) -> None:
        if force_close:
            super().__init__(limit=limit, force_close=True)
        else:
            super().__init__(limit=limit, keepalive_timeout=keepalive_timeout)
        self._set_ups = set_ups

    async def close(self, *, abort_ssl: bool = True) -> None:
        """As aiohttp's own one for TCP: TLS does not wait for the other end to agree."""
        await super().close(abort_ssl=abort_ssl)

    async def _create_connection(
        self, req: aiohttp.ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout
    ) -> ResponseHandler:
        protocol = await self._set_ups.connection(req, traces, timeout)
        attempt = _attempts.get(None)
        if attempt is not None:
            attempt.connected()
        return protocol


def _close(protocol: ResponseHandler) -> None:
    if protocol.transport is not None:
        protocol.transport.abort()
