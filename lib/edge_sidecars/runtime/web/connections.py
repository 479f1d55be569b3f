"""aiohttp's server, which counts its connections, and one connection of it.

Guarantee: a connection counts from before it is made until it is lost, or its handshake has failed;
where handlers outlive their clients, until its handler has ended.

`nc -N` and socat end their side after the request, and still want their answer; aiohttp by itself
takes that for a client that left. Guarantees: requests that came whole are answered; one that is
answered nothing for `PATIENCE` seconds is given up, because a client that left looks the same until
it is written to. Given up at once are a request that is not whole, and a stream that pauses, as
Go's servers do, because its place may be needed; unless it says that it `is_lively`. Over TLS
asyncio ends the connection, whatever is wanted here.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from edge_sidecars.runtime.log import fields, logger, sparing
from edge_sidecars.runtime.web import aiohttp_web as web
from edge_sidecars.runtime.web.intake import Intake, IntakeConnection
from edge_sidecars.runtime.web.places import LOCAL, Places

# Seconds in which an answer begins or goes on; what a client that left has asked for lasts as long.
PATIENCE = 2.0
# Seconds between two looks whether it is done.
POLL = 0.05
# Seconds; a client that does not even get so far takes no place for longer.
HANDSHAKE_TIMEOUT = 10.0

# RFC 9110, 10.2.4.
SERVER = "Server"

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class ServedRequest(web.BaseRequest):
    """Its answer does not name the versions of Python and aiohttp."""

    async def _prepare_hook(self, response: web.StreamResponse) -> None:
        if response.headers.get(SERVER) == web.SERVER_SOFTWARE:
            del response.headers[SERVER]


class Connection(IntakeConnection):
    # Whether what is streamed comes often enough to find out that a client has left.
    is_lively = False
    # Unread bytes at the last look, and since when there has been no fewer.
    _unread = 0
    _unread_since = 0.0
    peer = LOCAL
    _writes_to: asyncio.Transport | None = None
    has_left = False
    # The client has ended its side, or the connection is lost; a process that ended looks so.
    is_ended = False
    # Its listener closes: an endless answer is to end.
    is_closing_down = False
    _until = 0.0
    _sent = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        # aiohttp forgets it when it closes, while bytes may be left to be sent.
        self._writes_to = self.transport

    def connection_lost(self, exc: BaseException | None) -> None:
        self._writes_to = None
        self.is_ended = True
        super().connection_lost(exc)

    async def shutdown(self, timeout: float | None = 15.0) -> None:
        self.is_closing_down = True
        await super().shutdown(timeout)

    def eof_received(self) -> bool | None:  # type: ignore[override]
        """Whether the connection is to stay open for what is still to be sent."""
        self.is_ended = True
        is_whole = self._last_body is not None and self._last_body.is_eof() and not self._is_over
        if self.ssl_context is not None or self._upgraded or not is_whole or self._is_idle:
            return None
        self._until = self._loop.time() + PATIENCE
        self._loop.call_later(POLL, self._look)
        return True

    # ── a client that does not read ──

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = sys.maxsize
        self._look_whether_it_reads()

    def _look_whether_it_reads(self) -> None:
        """Cuts it off after `write_timeout` without progress."""
        transport, patience = self._writes_to, self._intake.write_timeout
        if transport is None or not self._paused:
            return
        now, left = self._loop.time(), transport.get_write_buffer_size()
        if left < self._unread:
            self._unread, self._unread_since = left, now
        elif now - self._unread_since >= patience:
            self._intake.unread += 1
            if sparing.allows("unread", self._intake.name):
                request = self._current_request
                logger.info(
                    "a client does not read its answer",
                    extra=fields(
                        listen=self._intake.name, path="" if request is None else request.path
                    ),
                )
            transport.abort()
            return
        self._loop.call_later(patience / 4, self._look_whether_it_reads)

    @property
    def _is_idle(self) -> bool:
        """Whether it waits for another request."""
        waiter = self._waiter
        return not self._messages and waiter is not None and not waiter.done()

    def _look(self) -> None:
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        now = self._loop.time()
        if self._has_sent() or transport.get_write_buffer_size():
            self._until = now + PATIENCE
        elif self._is_pausing:
            self._until = now
        if self._is_idle or now >= self._until:
            self.force_close()
        else:
            self._loop.call_later(POLL, self._look)

    @property
    def _is_pausing(self) -> bool:
        """Whether a stream has begun, of which nothing is on its way."""
        request = self._current_request
        if request is None or self.is_lively:
            return False
        return request.writer.output_size > 0 and request.writer.length is None

    def _has_sent(self) -> bool:
        """Since the last look."""
        request = self._current_request
        before, self._sent = self._sent, 0 if request is None else request.writer.output_size
        return self._sent != before


class ConnectionLimit(web.Server):
    """A server whose connections have places by the peers that they come from."""

    def __init__(
        self,
        handler: Handler,
        *,
        places: Places,
        intake: Intake,
        handler_cancellation: bool,
        **options: Any,
    ) -> None:
        super().__init__(handler, handler_cancellation=handler_cancellation, **options)
        self.places = places
        self._intake = intake

    def _make_request(
        self, message: Any, payload: Any, protocol: Any, writer: Any, task: Any
    ) -> ServedRequest:
        return ServedRequest(message, payload, protocol, writer, task, self._loop)

    def connection(self, peer: str) -> Connection:
        """Takes a place, which is left when it is lost, or by `leave`."""
        it = Connection(self, intake=self._intake, loop=self._loop, **self._kwargs)
        it.peer = peer
        self.places.takes(peer)
        return it

    def leave(self, connection: Connection) -> None:
        """It was never made, or is over."""
        if not connection.has_left:
            connection.has_left = True
            self.places.leaves(connection.peer)

    def connection_lost(
        self, handler: web.RequestHandler, exc: BaseException | None = None
    ) -> None:
        task = handler._task_handler
        super().connection_lost(handler, exc)
        if not isinstance(handler, Connection):
            return
        if self.handler_cancellation or task is None or task.done():
            self.leave(handler)
        else:
            # A handler that goes on for a client that left keeps its place.
            task.add_done_callback(lambda _: self.leave(handler))
