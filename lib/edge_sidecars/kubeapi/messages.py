"""A request to the API server, as it goes over the wire, and its response: head and body.

Guarantees of the response: a body that is not whole raises `Unreachable`, where framing tells;
chunks are handed on as soon as they are there; a reader that does not read stops the server, not
our memory.
"""

import asyncio
import socket
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable
from contextlib import closing
from dataclasses import KW_ONLY, dataclass
from http import HTTPStatus
from typing import Literal

import aiohttp
from multidict import CIMultiDictProxy
from yarl import URL

from edge_sidecars.apimachinery.status import may_be_own_word
from edge_sidecars.kubeapi.aiohttp_private import (
    TRANSPORT_ERRORS,
    describe,
    handler_of,
    take_over,
)
from edge_sidecars.kubeapi.connector import Connector
from edge_sidecars.kubeapi.errors import ApiError, Unreachable, api_error, status_error
from edge_sidecars.runtime.formats.media_type import is_page

# RFC 9110, 9.2.1: what a server may be asked twice.
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
# Bytes of a body that are handed over at a time.
PIECE = 64 * 1024

Body = bytes | AsyncIterable[bytes] | None
Headers = Iterable[tuple[str, str]]
# Whose credentials the request carries: ours; those in its headers; none, and no header of ours is
# added either (a token is many times as long as a short request).
Identity = Literal["own", "caller", "none"]
# One that earlier requests used, where one is fit for use; one of its own; one of its own that
# changes its protocol (`Response.take_over`).
Connection = Literal["pooled", "fresh", "upgrade"]
# Bytes; events of objects of 10 MiB, which aggregated API servers may have.
MAX_LINE = 32 * 1024 * 1024
# Bytes that gather in the kernel while the reader of a watch is at work on what came before: else
# each event wakes the process, which costs more than the event.
GATHERED = 64 * 1024


@dataclass(frozen=True)
class Request:
    """`target`: path and query as they go over the wire, or the * of an OPTIONS. `headers`: the
    end-to-end ones; without Content-Length a streamed body is sent in chunks.

    Times in seconds. `header_timeout` is for all up to the response's head, None: as long as it
    takes. With `connect_timeout` it counts from when there is a connection, for which that is the
    time; with background connections more, where connecting is known to take longer. `max_idle`: a
    pooled connection was used so recently; None: as the method allows. `is_decoded`: the response's
    body is without its Content-Encoding. `outlasts_abort`: `ApiTransport.abort` does not end it.
    """

    method: str
    target: str
    _: KW_ONLY
    header_timeout: float | None
    connect_timeout: float | None = None
    headers: Headers = ()
    body: Body = None
    identity: Identity = "own"
    connection: Connection = "pooled"
    max_idle: float | None = None
    is_decoded: bool = False
    outlasts_abort: bool = False

    @property
    def is_streamed(self) -> bool:
        """Either side may take as long as it likes."""
        is_whole = self.body is None or isinstance(self.body, bytes)
        return self.connection == "upgrade" or not is_whole

    def url(self, server: str, *, is_forwarded: bool = False) -> URL:
        """`target` is not parsed as a part of a URL: a # in it is none of ours. `is_forwarded`: it
        is sent whole, to a proxy; then * is a URL without a path (RFC 9112, 3.2.4)."""
        base = URL(server, encoded=True)
        path, _, query = self.target.partition("?")
        if self.target == "*":
            path = "" if is_forwarded else "*"
        else:
            path = base.raw_path.rstrip("/") + path
        return URL.build(
            scheme=base.scheme,
            authority=base.raw_authority,
            path=path,
            query_string=query,
            encoded=True,
        )


async def paced(
    body: bytes | AsyncIterable[bytes], *, begin: Callable[[], None], end: Callable[[], None]
) -> AsyncIterator[bytes]:
    """The body in pieces; calls `begin` when the first one is taken, `end` after the last one."""
    begin()
    if isinstance(body, bytes):
        for start in range(0, len(body), PIECE):
            yield body[start : start + PIECE]
    else:
        async for piece in body:
            yield piece
    end()


class TooLong(Exception):
    """The answer is longer than its reader wants to keep."""


class Response:
    """`headers` may name one several times; `reason` is the text after the status. `deadline`: when
    the time for its head ends, by the loop's clock. `waited`: seconds from when the request had its
    connection to the head. `received` is called when bytes of the body are read."""

    def __init__(
        self,
        response: aiohttp.ClientResponse,
        connector: Connector,
        url: str,
        *,
        deadline: float | None,
        waited: float,
        received: Callable[[], None],
    ) -> None:
        self.status = response.status
        self.reason = response.reason or ""
        self.headers: CIMultiDictProxy[str] = response.headers
        self._response = response
        self.deadline = deadline
        self.waited = waited
        self._received = received
        self._connector = connector
        self._url = url

    @property
    def peer_names(self) -> frozenset[str]:
        """DNS names of the server's certificate; none without TLS, or where it is not verified.
        To be asked before `send` ends."""
        return self._connector.peer_names

    def error(self, body: bytes) -> ApiError:
        """What a status other than 2xx means, with the whole body. What is no word of the API
        server, such as a web page: as of a gateway that does not reach it."""
        error = api_error(self.status, body, retry_after=self.headers.get("Retry-After"))
        content_type = self.headers.get("Content-Type", "")
        if may_be_own_word(self.status, content_type, body):
            return error
        what = "a web page" if is_page(content_type) else f"no Status object: {error.message}"
        why = f"with the status {self.status} came {what}"
        return status_error(HTTPStatus.BAD_GATEWAY, "", why)

    async def chunks(self, *, idle_timeout: float | None = None) -> AsyncIterator[bytes]:
        """All that is there, whenever something is.

        Raises `Unreachable` where the body breaks off, or nothing comes for `idle_timeout` seconds.
        """
        while chunk := await self._chunk(idle_timeout):
            yield chunk

    async def _chunk(self, idle_timeout: float | None) -> bytes:
        """The next one of `chunks`; empty at the end."""
        content = self._response.content
        try:
            if idle_timeout is None:
                chunk = await content.readany()
            else:
                # A short answer came with its head: nothing is waited for.
                chunk = content.read_nowait()
                if not chunk and not content.at_eof():
                    async with asyncio.timeout(idle_timeout):
                        chunk = await content.readany()
        except TimeoutError as error:
            raise Unreachable(f"{self._url}: no byte for {idle_timeout:g}s") from error
        except TRANSPORT_ERRORS as error:
            raise Unreachable(f"{self._url}: {describe(error)}") from error
        if chunk:
            self._received()
        return chunk

    def outlast_abort(self) -> None:
        """It has begun, and its reader goes by its bytes: no verdict about the link ends it."""
        self._connector.outlasts_abort = True

    async def gather(self, seconds: float) -> None:
        """Lets bytes gather below us, after a chunk: of a long answer they come in thousands of
        pieces, each of which costs more than its bytes."""
        handler = handler_of(self._response)
        transport = None if handler is None else handler.transport
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
        # Not over `chunks`: each asynchronous generator costs a short answer 2 % of its time.
        found, size = [], 0
        while chunk := await self._chunk(idle_timeout):
            size += len(chunk)
            if size > limit:
                raise TooLong(f"over {limit} bytes")
            found.append(chunk)
        return b"".join(found)

    async def batches(
        self,
        *,
        idle_timeout: float | None = None,
        max_line: int = MAX_LINE,
        gathers: bool = True,
        progress: int | None = None,
    ) -> AsyncIterator[list[bytes]]:
        """The lines of a watch, without their ends, as many at a time as are there; no empty ones.
        `progress`: after so many bytes of a line that goes on, no lines, as a sign of life.
        What comes while the caller is at work on some of them comes together; not `gathers`: the
        caller awaits nothing else, so that nothing would come meanwhile.

        Raises `Unreachable` as `chunks` does, for an end within a line and for too long a line.
        """
        begun: list[bytes] = []
        size = reported = 0
        with closing(_Gathering(self._response)) as gathering:
            async for chunk in self.chunks(idle_timeout=idle_timeout):
                end = chunk.rfind(b"\n")
                if end < 0:
                    begun.append(chunk)
                    size += len(chunk)
                    if size > max_line:
                        raise Unreachable(f"{self._url} sends a line without an end")
                    if progress is not None and size - reported >= progress:
                        reported = size
                        yield []
                    continue
                begun.append(chunk[:end])
                lines = [line for line in b"".join(begun).split(b"\n") if line]
                begun, size, reported = [chunk[end + 1 :]], len(chunk) - end - 1, 0
                if lines and gathers:
                    gathering.begin()
                    try:
                        yield lines
                    finally:
                        gathering.end()
                elif lines:
                    yield lines
        if size:
            raise Unreachable(f"{self._url} ended its answer within a line")

    def take_over(self, receiver: asyncio.Protocol) -> asyncio.Transport:
        """After a 101, when the connection speaks another protocol than HTTP.

        From here on its bytes go to `receiver`, the first ones before this returns, and the caller
        closes it. Raises `Unreachable` if it is gone already.
        """
        transport = take_over(self._response, receiver)
        if transport is None:
            raise Unreachable(f"{self._url} closed the upgraded connection")
        self._connector.hand_over()
        return transport


class _Gathering:
    """Lets bytes wait in the kernel. Where it does not know SO_RCVLOWAT for this, they just come;
    an end of the connection is reported at once all the same."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._handler = handler_of(response)
        self._socket: socket.socket | None = None
        if self._handler is not None and self._handler.transport is not None:
            found = self._handler.transport.get_extra_info("socket")
            if found is not None and self._handler.is_connected():
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
        is_there = self._handler is not None and self._handler.is_connected()
        if self._socket is not None and is_there:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, size)
