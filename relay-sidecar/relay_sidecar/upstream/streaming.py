"""Bodies and upgraded connections on their way to a client, never whole in memory.

Guarantees: beyond the body itself only a part of what is not read is in memory; a client that takes
nothing is disconnected (--write-timeout, promise R8); an answer, or its gzip, that breaks off
upstream breaks off here. Of an upgraded connection bytes are passed on in order; a side that does
not read stops the other one; one direction may end before the other where both sides can have that;
when the link goes, both sides end.
"""

import asyncio
import os
import socket
import zlib
from collections.abc import Iterator
from typing import Protocol, cast

from aiohttp import hdrs

from edge_sidecars.apimachinery.request.accept import is_gzip, takes_gzip
from edge_sidecars.kubeapi import Response, Unreachable
from edge_sidecars.runtime.web import aiohttp_web as web

# Seconds that upstream may pause within an answer; a connection that is dead takes as long to be
# noticed (TCP_USER_TIMEOUT).
PATIENCE = 15.0
# Bytes of a body that are sent together.
PIECE = 256 * 1024
# Bytes that are shown to the kernel at once: each piece of them costs, also where it is not taken.
# Of a list that is much larger, others have their turn in between.
LEAST_ROOM = 512 * 1024
MOST_ROOM = 4 * 1024 * 1024
# Bytes with which a writer waits for a kernel that is full, where the rest goes there from where it
# lies: each byte of a part is copied first.
WEDGE = 16 * 1024
# Bytes that may wait for the kernel before a part counts as not taken. A plain transport pauses its
# writer above this, TLS already at it (sslproto, _control_app_writing): with 0 a writer over TLS
# would be paused with nothing left to send, and only what is sent lets it go on.
WAITING = 1
# tcp(7), TCP_NOTSENT_LOWAT: as the system says.
UNLIMITED = 0
# Bytes of content that are looked at to see how an answer begins; they are in its first `LONG`.
HEAD = 1024
LONG = 128 * 1024
# Seconds between two pieces of a long answer that is passed on: an API server makes a MiB of a list
# in some milliseconds.
GATHER = 0.002


class LongBody(Protocol):
    """See `Pieces`."""

    @property
    def length(self) -> int: ...
    def part(self, at: int, size: int = ..., /) -> bytes | memoryview: ...
    def rest(self, at: int, size: int, /) -> list[bytes | memoryview]: ...


async def send_long(
    request: web.BaseRequest, response: web.StreamResponse, body: LongBody
) -> web.StreamResponse:
    """`response` has its headers, but for the length."""
    response.content_length = length = body.length
    # With the first part, as aiohttp sends its own `Response`: a client that is woken for the head
    # alone costs a tenth of a list.
    response._send_headers_immediately = False
    await response.prepare(request)
    transport = request.transport
    if transport is None:
        raise ConnectionResetError("the client has left")
    _buffer(transport, high=WAITING, unsent=PIECE)
    try:
        sent, room = 0, LEAST_ROOM
        while sent < length:
            is_direct = sent > 0 and _socket_of(request) is not None
            part = body.part(sent, WEDGE) if is_direct else body.part(sent)
            await response.write(part)
            sent += len(part)
            while sent < length:
                taken = _taken_at_once(request, body.rest(sent, room))
                sent += taken
                if taken < room:
                    # About so much it will take the next time.
                    room = max(2 * taken, LEAST_ROOM)
                    break
                if room == MOST_ROOM:
                    await asyncio.sleep(0)
                room = min(2 * room, MOST_ROOM)
        await response.write_eof()
    finally:
        _buffer(transport, high=None, unsent=UNLIMITED)
    return response


def _buffer(transport: asyncio.Transport, *, high: int | None, unsent: int) -> None:
    """A part counts as taken when all of it but `high` bytes is with the kernel, the last one too;
    which takes `unsent` beyond those on their way: of megabytes there, a slow reader would be
    silent for long. Over TLS the part before may still wait, encrypted, between here and there.
    """
    if transport.is_closing():
        return
    transport.set_write_buffer_limits(high=high)
    sock = transport.get_extra_info("socket")
    if sock is not None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, unsent)


def _taken_at_once(request: web.BaseRequest, pieces: list[bytes | memoryview]) -> int:
    """Of these the kernel takes so many bytes now, from where they lie: to a client that reads as
    fast as we write, a list costs a few system calls, and no copy of ours. What it does not take,
    waits as a part, as it does over TLS."""
    sock, transport, writer = _socket_of(request), request.transport, request.writer
    if sock is None or transport is None or transport.get_write_buffer_size():
        return 0
    try:
        taken = os.writev(sock.fileno(), pieces)
    except OSError:
        # Full, or broken: then the transport will find out.
        return 0
    # What aiohttp counts where it writes.
    writer.output_size += taken
    if writer.length is not None:
        writer.length -= taken
    return taken


def _socket_of(request: web.BaseRequest) -> socket.socket | None:
    """To which can be written past the transport: none over TLS, or where the client has left."""
    transport = request.transport
    if transport is None or transport.is_closing():
        return None
    if transport.get_extra_info("sslcontext") is not None:
        return None
    found: socket.socket | None = transport.get_extra_info("socket")
    return found


class StreamObserver(Protocol):
    """Decides whether an answer is handed on as it comes, and sees what is."""

    def may_pass(self, beginning: bytes) -> bool: ...

    def passed(self, piece: bytes) -> None:
        """The next piece of the content, unless that goes on compressed."""
        ...


class StreamedResponse:
    """An answer of upstream that a client gets as it comes."""

    def __init__(self, answer: Response) -> None:
        self._answer = answer
        self._chunks = answer.chunks(idle_timeout=PATIENCE)
        self._is_gzip = is_gzip(answer.headers.get(hdrs.CONTENT_ENCODING, ""))
        self.first = b""

    async def beginning(self) -> bytes:
        """The first `HEAD` bytes of content, where it has so many; `first` are those of the body
        that were read for this."""
        begun = b""
        async for chunk in self._chunks:
            self.first += chunk
            begun = self._beginning()
            if len(begun) >= HEAD or len(self.first) > LONG:
                break
        return begun

    async def send(
        self,
        request: web.BaseRequest,
        response: web.StreamResponse,
        observer: StreamObserver,
    ) -> None:
        """Raises `Unreachable` where it breaks off."""
        inflation = None
        if self._is_gzip and not takes_gzip(request.headers.get(hdrs.ACCEPT_ENCODING, "")):
            inflation = Inflation(PIECE)
            response.headers.popall(hdrs.CONTENT_ENCODING)
            response.headers.popall(hdrs.CONTENT_LENGTH, None)
        await response.prepare(request)
        chunk = self.first
        while chunk:
            for piece in (chunk,) if inflation is None else inflation.pieces(chunk):
                if inflation is not None or not self._is_gzip:
                    observer.passed(piece)
                await response.write(piece)
            await self._answer.gather(GATHER)
            chunk = await anext(self._chunks, b"")
        if inflation is not None:
            inflation.end()
        await response.write_eof()

    def _beginning(self) -> bytes:
        if not self._is_gzip:
            return self.first[:HEAD]
        try:
            return next(Inflation(HEAD).pieces(self.first), b"")
        except Unreachable:
            return b""


class Inflation:
    """A gzip body (RFC 1952: one or more members), inflated as it arrives.

    At most `size` bytes at a time, so that a body that inflates a thousandfold takes no more memory
    than others.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._member = _member()

    def pieces(self, packed: bytes) -> Iterator[bytes]:
        """What `packed` adds to the content. Raises `Unreachable` for what is no gzip."""
        while True:
            if self._member.eof and packed:
                self._member = _member()
            try:
                piece = self._member.decompress(packed, self._size)
            except zlib.error as error:
                raise Unreachable(f"the answer cannot be unpacked: {error}") from error
            if piece:
                yield piece
            packed = self._member.unconsumed_tail or self._member.unused_data
            # A full piece may leave more of them in the decompressor.
            if not packed and (self._member.eof or len(piece) < self._size):
                return

    def end(self) -> None:
        """Raises `Unreachable` where the last member is not whole."""
        if not self._member.eof:
            raise Unreachable("the answer's packed bytes are not whole")


def _member() -> "zlib._Decompress":
    return zlib.decompressobj(16 + zlib.MAX_WBITS)


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


async def run_tunnel(request: web.BaseRequest, answer: Response, cut: asyncio.Future[None]) -> None:
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
