"""Listening sockets, and how many connections they may hold.

Guarantee: clients can never use up the file descriptors that upstream, the journal and the other
listener need. One connection too many takes the place of the one that has been idle the longest;
none is taken from a client that waits for its answer or watches.
"""

import asyncio
import logging
import resource
import ssl
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

from aiohttp import web
from aiohttp.http import HttpProcessingError
from aiohttp.web_protocol import RequestHandler, RequestPayloadError

from sidecar.values import Address, BadInput

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

# Kept for connections to upstream, the journal and the runtime itself.
RESERVED_DESCRIPTORS = 128
MIN_CONNECTIONS = 16
# So many wait in the kernel: all informers of a pod come at once.
BACKLOG = 512
# Seconds; Go's transports keep a connection for 90: the client is to end it, not we while a
# request is on its way.
KEPT_FOR = 120.0
# Bytes; as Go's servers: http.DefaultMaxHeaderBytes. Selectors stand in the first line.
MAX_HEADER = 1024 * 1024
# Seconds; whoever does not even get so far takes no place for longer.
HANDSHAKE_TIMEOUT = 10.0
# Seconds for answers on their way when the listener closes.
FAREWELL = 1.0


class Listener:
    """One bound address with its handler, for at most `limit` connections at a time."""

    def __init__(
        self, address: Address, handler: Handler, *, limit: int, tls: ssl.SSLContext | None = None
    ) -> None:
        self._address = address
        self._handler = handler
        self._limit = limit
        self._tls = tls
        # A client that left is not waited for: what was asked for it upstream ends, too.
        self._web = _Places(
            self._answer,
            access_log=None,
            logger=_http_log,
            handler_cancellation=True,
            keepalive_timeout=KEPT_FOR,
            max_line_size=MAX_HEADER,
            max_field_size=MAX_HEADER,
            auto_decompress=False,
        )
        self._busy: set[object] = set()
        self._server: asyncio.Server | None = None
        # What was bound: with port 0, the port that the kernel chose.
        self.bound = address

    async def open(self) -> None:
        """Raises `BadInput` when the address cannot be had."""
        try:
            self._server = await asyncio.get_running_loop().create_server(
                self._accept,
                self._address.host,
                self._address.port,
                backlog=BACKLOG,
                ssl=self._tls,
                ssl_handshake_timeout=None if self._tls is None else HANDSHAKE_TIMEOUT,
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
        except ConnectionResetError:
            if request.transport is not None and not request.transport.is_closing():
                raise
            # The client has left and aiohttp has yet to say so: nobody will hear this.
            return web.Response(status=HTTPStatus.REQUEST_TIMEOUT)
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


class _Places(web.Server):
    """Counts a connection from before it is made until it is lost, or its handshake has failed, of
    which nobody is told."""

    def __init__(self, handler: Handler, *, handler_cancellation: bool, **options: Any) -> None:
        super().__init__(handler, handler_cancellation=handler_cancellation, **options)
        self._made = 0
        self._expected: dict[RequestHandler, float] = {}

    @property
    def taken(self) -> int:
        too_late = asyncio.get_running_loop().time() - HANDSHAKE_TIMEOUT
        while self._expected:
            handler, since = next(iter(self._expected.items()))
            if since > too_late:
                break
            del self._expected[handler]
        return self._made + len(self._expected)

    def __call__(self) -> RequestHandler:
        handler = super().__call__()
        self._expected[handler] = asyncio.get_running_loop().time()
        return handler

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        self._expected.pop(handler, None)
        self._made += 1
        super().connection_made(handler, transport)

    def connection_lost(self, handler: RequestHandler, exc: BaseException | None = None) -> None:
        self._made -= 1
        super().connection_lost(handler, exc)


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


def connection_limit(descriptors: int, *, wanted: int, others: int) -> int:
    """Of a listener beside which `others` connections may come; each costs a descriptor, and one
    that is passed on another to upstream."""
    share = (descriptors - RESERVED_DESCRIPTORS - others) // 2
    return max(min(wanted, share), MIN_CONNECTIONS)


class _OwnFaults(logging.Filter):
    """A request that is no HTTP was answered with 4xx: its sender's fault is no traceback here."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, HttpProcessingError | RequestPayloadError)


_http_log = logging.getLogger("relay.http")
_http_log.addFilter(_OwnFaults())
