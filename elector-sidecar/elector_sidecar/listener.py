"""Listening sockets, how many connections they may hold, and the proof that they answer.

Guarantee: clients of the HTTP API can never use up the file descriptors that renewals need; an
elector whose own listener does not answer resigns (P9), because nobody could hear its 503.
"""

import asyncio
import resource
from collections.abc import Awaitable, Callable
from typing import Protocol

from aiohttp import web

from .config import Address, BadInput

# More than any pod's containers, probes and scrapers open; each costs a descriptor and some KiB.
MAX_CONNECTIONS = 512
# Kept for the API server, the main, files and the runtime itself.
RESERVED_DESCRIPTORS = 64

CHECK_INTERVAL = 5.0
CHECK_TIMEOUT = 1.0
# One check may lose against a busy machine.
CHECK_FAILURES = 3


class Listener:
    """One bound address with its handler."""

    def __init__(
        self, address: Address, handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
    ) -> None:
        self._address = address
        self._web = web.Server(handler, access_log=None)
        self._server: asyncio.Server | None = None
        self._limit = connection_limit()
        # What was bound: with port 0, the port that the kernel chose.
        self.bound = address

    async def open(self) -> None:
        """Raises `BadInput` when the address cannot be had."""
        loop = asyncio.get_running_loop()
        address = self._address
        try:
            if address.path:
                self._server = await loop.create_unix_server(self._accept, address.path)
            else:
                self._server = await loop.create_server(self._accept, address.host, address.port)
                port = self._server.sockets[0].getsockname()[1]
                self.bound = Address(address.host, port)
        except OSError as error:
            raise BadInput(
                f"cannot listen on {address}: {error.strerror or error}; "
                "choose another address or stop what holds it"
            ) from error

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        await self._web.shutdown(timeout=0.1)

    async def is_alive(self) -> bool:
        """Whether a request over a new connection gets any HTTP answer in time."""
        try:
            async with asyncio.timeout(CHECK_TIMEOUT):
                return await self._answers()
        except (OSError, TimeoutError):
            return False

    async def _answers(self) -> bool:
        host, port, path = self.bound.host, self.bound.port, self.bound.path
        if path:
            reader, writer = await asyncio.open_unix_connection(path)
        else:
            reader, writer = await asyncio.open_connection(_ANY.get(host, host), port)
        try:
            writer.write(b"HEAD /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            return (await reader.readline()).startswith(b"HTTP/1.")
        finally:
            writer.close()

    def _accept(self) -> asyncio.Protocol:
        if len(self._web.connections) >= self._limit:
            return _Refusal()
        return self._web()


class _Refusal(asyncio.Protocol):
    """One connection too many: closed before it costs anything."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.Transport):
            transport.abort()


# Where a listener on every address is reached.
_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def connection_limit() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS
    return max(min(MAX_CONNECTIONS, soft - RESERVED_DESCRIPTORS), 8)


class Report(Protocol):
    def __call__(self, *, is_alive: bool) -> None: ...


async def watch_over(listener: Listener, report: Report) -> None:
    """Tells `report` after each check whether the listener is to be believed alive."""
    failures = 0
    while True:
        await asyncio.sleep(CHECK_INTERVAL)
        failures = 0 if await listener.is_alive() else failures + 1
        report(is_alive=failures < CHECK_FAILURES)
