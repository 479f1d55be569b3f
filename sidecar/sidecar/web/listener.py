"""A listening socket, and how many connections it may hold.

Knows no request. Guarantee: clients can never use up the file descriptors that the process needs
for its work. One connection too many takes the place of the one that has been idle the longest;
none is taken from a client that waits for its answer.
"""

import asyncio
import errno
import logging
import os
import resource
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from aiohttp.http import HttpProcessingError

from sidecar.values import Address, BadInput
from sidecar.web import aiohttp_web as web
from sidecar.web.places import HANDSHAKE_TIMEOUT, Handler, Places


@dataclass(frozen=True)
class Manners:
    """How a component treats those who come.

    `log`: the logger of what goes wrong in requests. `backlog`: so many are accepted at once, and
    as many more wait in the kernel, or `queue`. `farewell`: seconds for answers on their way when
    the listener closes. `ends_with_client`: nobody goes on for a client that left. `http`: further
    options of aiohttp's RequestHandler.
    """

    log: str
    backlog: int
    farewell: float
    queue: int | None = None
    ends_with_client: bool = True
    http: Mapping[str, float | bool] = field(default_factory=dict)


class Listener:
    """One bound address with its handler, for at most `limit` connections at a time."""

    def __init__(
        self,
        address: Address,
        handler: Handler,
        *,
        manners: Manners,
        limit: int,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._address = address
        self._handler = handler
        self._manners = manners
        self._limit = limit
        self._tls = tls
        log = logging.getLogger(manners.log)
        log.addFilter(_OWN_FAULTS)
        self._web = Places(
            self._answer,
            handler_cancellation=manners.ends_with_client,
            access_log=None,
            logger=log,
            **manners.http,
        )
        self._busy: set[object] = set()
        self._server: asyncio.Server | None = None
        # What was bound: with port 0, the port that the kernel chose.
        self.bound = address

    async def open(self) -> None:
        """Raises `BadInput` when the address cannot be had."""
        address = self._address
        try:
            self._server = await self._listen(address)
            if self._manners.queue is not None:
                _lengthen_queue(self._server, self._manners.queue)
        except OSError as error:
            raise BadInput(
                f"cannot listen on {address}: {error.strerror or error}; "
                "choose another address or stop what holds it"
            ) from error
        if not address.path:
            self.bound = Address(address.host, self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Nobody new comes in; answers on their way get a moment."""
        if self._server is not None:
            self._server.close()
        await self._web.shutdown(timeout=self._manners.farewell)

    async def _listen(self, address: Address) -> asyncio.Server:
        loop = asyncio.get_running_loop()
        backlog, tls = self._manners.backlog, self._tls
        timeout = None if tls is None else HANDSHAKE_TIMEOUT
        if address.path:
            # asyncio would take a socket's name from whoever listens there.
            if await _is_served(address.path):
                raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
            return await loop.create_unix_server(
                self._accept,
                address.path,
                backlog=backlog,
                ssl=tls,
                ssl_handshake_timeout=timeout,
            )
        return await loop.create_server(
            self._accept,
            address.host,
            address.port,
            backlog=backlog,
            ssl=tls,
            ssl_handshake_timeout=timeout,
        )

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


async def _is_served(path: str) -> bool:
    """A socket that was left behind refuses."""
    try:
        async with asyncio.timeout(HANDSHAKE_TIMEOUT):
            _, writer = await asyncio.open_unix_connection(path)
    except TimeoutError:
        return True
    except OSError as error:
        return error.errno == errno.EAGAIN  # its queue is full
    writer.close()
    return True


def connection_limit(
    listeners: int, *, most: int, least: int, reserved: int, spare: int = 0
) -> int:
    """For each of so many listeners, which share this process' descriptors: but for `reserved`
    ones, and `spare` ones of each listener's share."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return most
    return max(min(most, (soft - reserved) // listeners - spare), least)


def _lengthen_queue(server: asyncio.Server, queue: int) -> None:
    """asyncio has one number for both; listen(2) may be called again for the kernel's."""
    for each in server.sockets:
        with socket.socket(fileno=os.dup(each.fileno())) as same:
            same.listen(queue)


class _Refusal(asyncio.Protocol):
    """One connection too many: closed before it costs anything."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # No isinstance: uvloop's transports are none of asyncio's classes.
        cast(asyncio.Transport, transport).abort()


class _OwnFaults(logging.Filter):
    """A request that is no HTTP was answered with 4xx: its sender's fault is no traceback here."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, HttpProcessingError | web.RequestPayloadError)


_OWN_FAULTS = _OwnFaults()
