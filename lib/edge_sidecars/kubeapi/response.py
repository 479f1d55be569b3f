"""The answer of an exchange: its head, and the body as it arrives.

Guarantees: a body that is not whole raises `Unreachable`, where framing tells; chunks are handed
on as soon as they are there; whoever does not read stops the server, not our memory.
"""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import closing
from typing import Protocol

import aiohttp
from aiohttp.client_proto import ResponseHandler
from multidict import CIMultiDictProxy

from edge_sidecars.kubeapi.aiohttp_private import TRANSPORT_ERRORS, describe
from edge_sidecars.kubeapi.connector import Dialer
from edge_sidecars.kubeapi.errors import Unreachable

# Bytes; events of objects of 10 MiB, which aggregated API servers may have.
MAX_LINE = 32 * 1024 * 1024
# Bytes that gather in the kernel while whoever reads a watch is at work on what came before: else
# each event wakes the process, which costs more than the event.
GATHERED = 64 * 1024


class TooLong(Exception):
    """The answer is longer than its reader wants to keep."""


class Receiver(Protocol):
    """What asyncio tells the owner of a connection: `asyncio.Protocol`."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None: ...
    def data_received(self, data: bytes) -> None: ...
    def eof_received(self) -> bool | None: ...
    def pause_writing(self) -> None: ...
    def resume_writing(self) -> None: ...
    def connection_lost(self, exc: Exception | None) -> None: ...


class Answer:
    """`headers` may name one several times; `reason` is what stands after the status."""

    def __init__(self, response: aiohttp.ClientResponse, dialer: Dialer, url: str) -> None:
        self.status = response.status
        self.reason = response.reason or ""
        self.headers: CIMultiDictProxy[str] = response.headers
        self._response = response
        self._dialer = dialer
        self._url = url

    @property
    def peer_names(self) -> frozenset[str]:
        """DNS names of the server's certificate; none without TLS, or where it is not verified.
        To be asked before the exchange ends."""
        return self._dialer.peer_names

    async def chunks(self, *, idle_timeout: float | None = None) -> AsyncIterator[bytes]:
        """All that is there, whenever something is.

        Raises `Unreachable` where the body breaks off, or nothing comes for `idle_timeout` seconds.
        """
        content = self._response.content
        while True:
            try:
                if idle_timeout is None:
                    chunk = await content.readany()
                else:
                    async with asyncio.timeout(idle_timeout):
                        chunk = await content.readany()
            except TimeoutError as error:
                raise Unreachable(f"{self._url}: no byte for {idle_timeout:g}s") from error
            except TRANSPORT_ERRORS as error:
                raise Unreachable(f"{self._url}: {describe(error)}") from error
            if not chunk:
                return
            yield chunk

    def outlast_cut(self) -> None:
        """It has begun, and its reader goes by its bytes: no verdict about the link ends it."""
        self._dialer.outlasts_cut = True

    async def gather(self, seconds: float) -> None:
        """Lets bytes gather below us, after a chunk: of a long answer they come in thousands of
        pieces, each of which costs more than its bytes."""
        connection = self._response.connection
        protocol = None if connection is None else connection.protocol
        transport = None if protocol is None else protocol.transport
        if self._response.content.is_eof() or transport is None or transport.is_closing():
            return
        transport.pause_reading()
        try:
            await asyncio.sleep(seconds)
        finally:
            if not transport.is_closing():
                transport.resume_reading()

    async def read(self, *, limit: int, idle_timeout: float | None = None) -> bytes:
        """The whole body. Raises `TooLong` over `limit` bytes, else as `chunks` does."""
        found, size = [], 0
        async for chunk in self.chunks(idle_timeout=idle_timeout):
            size += len(chunk)
            if size > limit:
                raise TooLong(f"over {limit} bytes")
            found.append(chunk)
        return b"".join(found)

    async def batches(
        self, *, idle_timeout: float | None = None, max_line: int = MAX_LINE
    ) -> AsyncIterator[list[bytes]]:
        """The lines of a watch, without their ends, as many at a time as are there; no empty ones.
        What comes while the caller is at work on some of them comes together.

        Raises `Unreachable` as `chunks` does, for an end within a line and for too long a line.
        """
        begun: list[bytes] = []
        size = 0
        with closing(_Gathering(self._response)) as gathering:
            async for chunk in self.chunks(idle_timeout=idle_timeout):
                end = chunk.rfind(b"\n")
                if end < 0:
                    begun.append(chunk)
                    size += len(chunk)
                    if size > max_line:
                        raise Unreachable(f"{self._url} sends a line without an end")
                    continue
                begun.append(chunk[:end])
                lines = [line for line in b"".join(begun).split(b"\n") if line]
                begun, size = [chunk[end + 1 :]], len(chunk) - end - 1
                if lines:
                    gathering.begin()
                    try:
                        yield lines
                    finally:
                        gathering.end()
        if size:
            raise Unreachable(f"{self._url} ended its answer within a line")

    def take_over(self, receiver: Receiver) -> asyncio.Transport:
        """After a 101, when the connection speaks another protocol than HTTP.

        From here on its bytes go to `receiver`, the first ones before this returns, and whoever
        called closes it. Raises `Unreachable` if it is gone already.
        """
        connection = self._response.connection
        handler = None if connection is None else connection.protocol
        transport = None if handler is None else handler.transport
        if handler is None or transport is None or transport.is_closing():
            raise Unreachable(f"{self._url} closed the upgraded connection")
        early = _Early()
        handler.set_parser(early, None)
        self._dialer.hand_over()
        transport.set_protocol(_Heir(receiver, handler))
        receiver.connection_made(transport)
        if early.content:
            receiver.data_received(bytes(early.content))
        if not transport.is_reading():
            transport.resume_reading()
        return transport


class _Gathering:
    """Lets bytes wait in the kernel. Where it does not know SO_RCVLOWAT for this, they just come;
    an end of the connection is told at once all the same."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        connection = response.connection
        self._protocol = None if connection is None else connection.protocol
        self._socket: socket.socket | None = None
        if self._protocol is not None and self._protocol.is_connected():
            transport = self._protocol.transport
            found = None if transport is None else transport.get_extra_info("socket")
            if found is not None:
                # uvloop's makes such a one for each option that is set.
                self._socket = socket.socket(fileno=found.fileno())

    def begin(self) -> None:
        self._wake_at(GATHERED)

    def end(self) -> None:
        self._wake_at(1)

    def close(self) -> None:
        if self._socket is not None:
            # The descriptor is the transport's.
            self._socket.detach()

    def _wake_at(self, size: int) -> None:
        # The descriptor's number may be another's after the end.
        if (
            self._socket is not None
            and self._protocol is not None
            and self._protocol.is_connected()
        ):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, size)


class _Early:
    """What came right behind the head."""

    def __init__(self) -> None:
        self.content = bytearray()

    def feed_data(self, content: bytes) -> tuple[bool, bytes]:
        self.content += content
        return False, b""

    def feed_eof(self) -> None:
        """Told when the connection ends."""


class _Heir(asyncio.Protocol):
    """Receives for `receiver`; aiohttp learns only that the connection ended, and can forget it."""

    def __init__(self, receiver: Receiver, handler: ResponseHandler) -> None:
        self._handler = handler
        self._receiver = receiver

    def data_received(self, data: bytes) -> None:
        self._receiver.data_received(data)

    def eof_received(self) -> bool | None:
        return self._receiver.eof_received()

    def pause_writing(self) -> None:
        self._receiver.pause_writing()

    def resume_writing(self) -> None:
        self._receiver.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._receiver.connection_lost(exc)
        self._handler.connection_lost(exc)
