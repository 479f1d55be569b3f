"""An upgraded connection: bytes both ways, in whatever protocol, until both sides have ended.

Guarantees: bytes are passed on as they come and in order; a side that does not read stops the other
one, not our memory; the end of one direction leaves the other one open where both sides can have
that (TLS cannot); what was on its way arrives before the end. A link that goes ends both sides, or
a client would wait for ever. Nothing of it outlives `run`.
"""

import asyncio
from typing import cast

from edge_sidecars.kubeapi import Response
from edge_sidecars.runtime.web import aiohttp_web as web

# Seconds that a side may take to receive the rest, once the other one has gone.
FAREWELL = 5.0


class _Side(asyncio.Protocol):
    """One of two connections; what it receives goes to its `peer`."""

    def __init__(self) -> None:
        self.peer: _Side = self
        self.transport: asyncio.Transport | None = None
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._has_ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        other = self.peer.transport
        if other is not None and not other.is_closing():
            other.write(data)

    def eof_received(self) -> bool:
        """Whether the other direction stays open."""
        self._has_ended = True
        other = self.peer.transport
        if self._is_tls() or other is None or other.is_closing() or not other.can_write_eof():
            return False
        other.write_eof()
        return not self.peer._has_ended

    def pause_writing(self) -> None:
        if self.peer.transport is not None and not self.peer.transport.is_closing():
            self.peer.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.peer.transport is not None and not self.peer.transport.is_closing():
            self.peer.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        if not self.lost.done():
            self.lost.set_result(None)
        self.peer.close()

    def close(self) -> None:
        """After what is on its way has arrived."""
        if self.transport is not None:
            self.transport.close()

    def abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()

    def _is_tls(self) -> bool:
        return self.transport is None or self.transport.get_extra_info("sslcontext") is not None


class _Client(_Side):
    """Takes the connection from the server, which learns only that it ended."""

    def __init__(self, request: web.BaseRequest) -> None:
        super().__init__()
        self._handler = request.protocol

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """What the client sent before it knew of the upgrade."""
        self.data_received(data)
        return False, b""

    def feed_eof(self) -> None:
        """Called when the connection ends."""

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._handler.connection_lost(exc)


async def run(request: web.BaseRequest, answer: Response, cut: asyncio.Future[None]) -> None:
    """From the client's 101, which has been sent, to the end, or until `cut`: the link went, and no
    byte would come. Raises `Unreachable` if upstream is gone already."""
    transport = request.transport
    if transport is None or transport.is_closing():
        return
    client, upstream = _Client(request), _Side()
    client.peer, upstream.peer = upstream, client
    client.connection_made(transport)
    answer.take_over(upstream)
    transport.set_protocol(client)
    request.protocol.set_parser(client)  # type: ignore[arg-type]
    try:
        ends = {client.lost, upstream.lost, cut}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    finally:
        if cut.done():
            upstream.abort()
        client.close()
        upstream.close()
        try:
            await asyncio.wait({client.lost, upstream.lost}, timeout=FAREWELL)
        finally:
            client.abort()
            upstream.abort()
