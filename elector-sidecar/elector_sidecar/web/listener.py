"""Listening sockets, how many connections they may hold, and the proof that they answer.

Guarantee: clients of the HTTP API can never use up the file descriptors that renewals need; an
elector whose own listener does not answer resigns (P9), because nobody could hear its 503.
"""

import asyncio
import logging
import os
import resource
import socket
from collections.abc import Awaitable, Callable
from typing import Protocol

from aiohttp.http import HttpProcessingError

from elector_sidecar.config.config import Address, BadInput
from elector_sidecar.web import aiohttp_web as web

# More than any pod's containers, probes and scrapers open; each costs a descriptor and some KiB.
MAX_CONNECTIONS = 512
# Kept for the API server, the main, files and the runtime itself.
RESERVED_DESCRIPTORS = 64
# asyncio accepts so many at once, before the first of them can be refused or take a place.
BACKLOG = 16
# So many more wait in the kernel, which costs no descriptor, instead of for a repeated SYN.
QUEUE = 128
# Such bursts in descriptors: one accepted, one taking places, one whose places are being closed.
BURSTS = 3
MIN_CONNECTIONS = 8

CHECK_INTERVAL = 5.0
CHECK_TIMEOUT = 1.0
# One check may lose against a busy machine.
CHECK_FAILURES = 3
# Seconds of deafness after which the process ends. The lead is given up long before.
DEAF_LIMIT = 30.0


class DeafListener(Exception):
    """The listener cannot be reached any more; the message names its address."""


Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Listener:
    """One bound address with its handler, for at most `limit` connections at a time.

    One too many takes the place of the one that has been idle the longest; none is taken from a
    client that waits for its answer.
    """

    def __init__(self, address: Address, handler: Handler, *, limit: int) -> None:
        self._address = address
        self._handler = handler
        self._limit = limit
        # A client that left is not waited for any more: its handler would keep its place.
        self._web = _Places(
            self._answer, access_log=None, logger=_http_log, handler_cancellation=True
        )
        self._busy: set[object] = set()
        self._server: asyncio.Server | None = None
        # What was bound: with port 0, the port that the kernel chose.
        self.bound = address

    async def open(self) -> None:
        """Raises `BadInput` when the address cannot be had."""
        loop = asyncio.get_running_loop()
        address = self._address
        try:
            if address.path:
                self._server = await loop.create_unix_server(
                    self._accept, address.path, backlog=BACKLOG
                )
            else:
                self._server = await loop.create_server(
                    self._accept, address.host, address.port, backlog=BACKLOG
                )
                port = self._server.sockets[0].getsockname()[1]
                self.bound = Address(address.host, port)
            _lengthen_queue(self._server)
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

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        connection = request.protocol
        self._busy.add(connection)
        try:
            return await self._handler(request)
        finally:
            self._busy.discard(connection)

    def _accept(self) -> asyncio.Protocol:
        if self._web.taken < self._limit:
            return self._web()
        for connection in self._web.connections:  # the oldest first
            if connection not in self._busy and connection.transport is not None:
                connection.force_close()
                return self._web()
        return _Refusal()


def _lengthen_queue(server: asyncio.Server) -> None:
    """asyncio has one number for both; listen(2) may be called again for the kernel's."""
    for each in server.sockets:
        with socket.socket(fileno=os.dup(each.fileno())) as same:
            same.listen(QUEUE)


class _Places(web.Server):
    """Counts a connection from before it is made until its handler has seen that it is lost."""

    taken = 0

    def __call__(self) -> web.RequestHandler:
        self.taken += 1
        return super().__call__()

    def connection_lost(
        self, handler: web.RequestHandler, exc: BaseException | None = None
    ) -> None:
        self.taken -= 1
        super().connection_lost(handler, exc)


class _Refusal(asyncio.Protocol):
    """One connection too many: closed before it costs anything."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.Transport):
            transport.abort()


# Where a listener on every address is reached.
_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def connection_limit(listeners: int) -> int:
    """For each of so many listeners, which share this process' descriptors."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS
    share = (soft - RESERVED_DESCRIPTORS) // listeners - BURSTS * BACKLOG
    return max(min(MAX_CONNECTIONS, share), MIN_CONNECTIONS)


class _OwnFaults(logging.Filter):
    """A request that is no HTTP was answered with 4xx: its sender's fault is no traceback here."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, HttpProcessingError | web.RequestPayloadError)


_http_log = logging.getLogger("elector.http")
_http_log.addFilter(_OwnFaults())


class Report(Protocol):
    def __call__(self, *, is_alive: bool) -> None: ...


async def watch_over(listener: Listener, report: Report) -> None:
    """Tells `report` after each check whether the listener is to be believed alive.

    Raises `DeafListener` when it stays dead: a new process may get what this one cannot.
    """
    failures = 0
    while failures * CHECK_INTERVAL < DEAF_LIMIT:
        await asyncio.sleep(CHECK_INTERVAL)
        failures = 0 if await listener.is_alive() else failures + 1
        report(is_alive=failures < CHECK_FAILURES)
    raise DeafListener(
        f"{listener.bound} has not answered for {DEAF_LIMIT:g}s, so the lead was given up; "
        "ending, to be restarted"
    )
