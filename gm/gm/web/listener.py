"""The listening socket of GM's own endpoints, and how many connections it may hold.

Guarantee: kubelet, Prometheus and people can never use up the descriptors that LCs and the API
need: one connection too many takes the place of the one that has been idle the longest.
"""

import asyncio
import logging
import resource
from collections.abc import Awaitable, Callable

from aiohttp import web
from aiohttp.http import HttpProcessingError
from aiohttp.web_protocol import RequestPayloadError

from sidecar.values import Address, BadInput

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

MAX_CONNECTIONS = 64
BACKLOG = 64
# Seconds for answers on their way when the listener closes.
FAREWELL = 1.0


class Listener:
    """One bound address with its handler."""

    def __init__(self, address: Address, handler: Handler) -> None:
        self._address = address
        self._handler = handler
        self._web = web.Server(
            self._answer, access_log=None, logger=_http_log, handler_cancellation=True
        )
        self._busy: set[object] = set()
        self._server: asyncio.Server | None = None
        # What was bound: with port 0, the port that the kernel chose.
        self.bound = address

    async def open(self) -> None:
        """Raises `BadInput` when the address cannot be had."""
        try:
            self._server = await asyncio.get_running_loop().create_server(
                self._accept, self._address.host, self._address.port, backlog=BACKLOG
            )
        except OSError as error:
            raise BadInput(
                f"cannot listen on {self._address}: {error.strerror or error}; "
                "choose another address or stop what holds it"
            ) from error
        self.bound = Address(self._address.host, self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Nobody new comes in; answers on their way get a moment."""
        if self._server is not None:
            self._server.close()
        await self._web.shutdown(timeout=FAREWELL)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        connection = request.protocol
        self._busy.add(connection)
        try:
            return await self._handler(request)
        finally:
            self._busy.discard(connection)

    def _accept(self) -> asyncio.Protocol:
        connections = self._web.connections
        if len(connections) < MAX_CONNECTIONS:
            return self._web()
        for connection in connections:  # the oldest first
            if connection not in self._busy and connection.transport is not None:
                connection.force_close()
                return self._web()
        return _Refusal()


class _Refusal(asyncio.Protocol):
    """One connection too many: closed before it costs anything."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.Transport):
            transport.abort()


def raise_descriptor_limit() -> int:
    """To what the container allows, as Go's runtime does; returns it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


class _OwnFaults(logging.Filter):
    """A request that is no HTTP was answered with 4xx: its sender's fault is no traceback here."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, HttpProcessingError | RequestPayloadError)


_http_log = logging.getLogger("gm.http")
_http_log.addFilter(_OwnFaults())
