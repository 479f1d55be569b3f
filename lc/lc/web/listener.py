"""Listening sockets, and how many connections they may hold.

Guarantee: clients can never use up the file descriptors that the store, datasets and the link need.
One connection too many takes the place of the one that has been idle the longest; none is taken
from a client that waits for its answer.
"""

import asyncio
import logging
import resource
from collections.abc import Awaitable, Callable

from aiohttp.http import HttpProcessingError

from lc.web import aiohttp_web as web
from sidecar.values import Address, BadInput

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

# More than the workers of a node, each of which opens a connection for each report.
MAX_CONNECTIONS = 512
# Kept for datasets, the store, the link and the runtime itself.
RESERVED_DESCRIPTORS = 128
MIN_CONNECTIONS = 8
BACKLOG = 128
# Seconds in which requests that were begun may be answered at the end.
GRACE = 5.0


class Listener:
    """One bound address with its handler, for at most `limit` connections at a time."""

    def __init__(self, address: Address, handler: Handler, *, limit: int) -> None:
        self._address = address
        self._handler = handler
        self._limit = limit
        # What a worker said is taken also where the worker left: it may have been killed.
        self._web = web.Server(self._answer, access_log=None, logger=_http_log)
        self._busy: set[object] = set()
        self._server: asyncio.Server | None = None
        self.bound = address

    async def open(self) -> None:
        """Raises `BadInput` when the address cannot be had."""
        address = self._address
        try:
            self._server = await asyncio.get_running_loop().create_server(
                self._accept, address.host, address.port, backlog=BACKLOG
            )
        except OSError as error:
            raise BadInput(
                f"cannot listen on {address}: {error.strerror or error}; "
                "choose another address or stop what holds it"
            ) from error
        self.bound = Address(address.host, self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Answers what was begun, for so long as that takes within reason."""
        if self._server is not None:
            self._server.close()
        await self._web.shutdown(timeout=GRACE)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        connection = request.protocol
        self._busy.add(connection)
        try:
            return await self._handler(request)
        finally:
            self._busy.discard(connection)

    def _accept(self) -> asyncio.Protocol:
        if len(self._web.connections) < self._limit:
            return self._web()
        for connection in self._web.connections:  # the oldest first
            if connection not in self._busy and connection.transport is not None:
                connection.force_close()
                return self._web()
        return _Refusal()


class _Refusal(asyncio.Protocol):
    """One connection too many: closed before it costs anything."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.Transport):
            transport.abort()


def connection_limit(listeners: int) -> int:
    """For each of so many listeners, which share this process' descriptors."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS
    share = (soft - RESERVED_DESCRIPTORS) // listeners
    return max(min(MAX_CONNECTIONS, share), MIN_CONNECTIONS)


class _OwnFaults(logging.Filter):
    """A request that is no HTTP was answered with 4xx: its sender's fault is no traceback here."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, HttpProcessingError | web.RequestPayloadError)


_http_log = logging.getLogger("lc.http")
_http_log.addFilter(_OwnFaults())
