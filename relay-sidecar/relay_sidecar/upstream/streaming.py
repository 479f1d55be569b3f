"""A long body on its way to a client that has to go on reading.

Guarantees: of what is not read only a part lies in memory beyond the body itself; whoever takes
nothing for `PATIENCE` seconds is cut off, as a watcher that falls behind is (promise R8), so that
no connection is held for ever. Knows nothing of what is sent.
"""

import asyncio
import socket
from collections.abc import Iterable, Iterator

from edge_sidecars.runtime.log import fields, logger
from edge_sidecars.runtime.web import aiohttp_web as web

# Seconds for some hundred KiB, to a process on this machine; a connection that is dead takes as
# long to be noticed (TCP_USER_TIMEOUT).
PATIENCE = 15.0
# Bytes of a body that are sent together.
PIECE = 256 * 1024
# Bytes that may wait for the kernel before a part counts as not taken. A plain transport pauses its
# writer above this, TLS already at it (sslproto, _control_app_writing): with 0 a writer over TLS
# would be paused with nothing left to send, and only what is sent lets it go on.
WAITING = 1
# tcp(7), TCP_NOTSENT_LOWAT: as the system says.
UNLIMITED = 0


async def send_long(
    request: web.BaseRequest, response: web.StreamResponse, parts: Iterable[bytes]
) -> web.StreamResponse:
    """`response` has its headers, the length or chunks among them."""
    await response.prepare(request)
    transport = request.transport
    if transport is None:
        raise ConnectionResetError("the client has left")
    _buffer(transport, high=WAITING, unsent=PIECE)
    try:
        for part in parts:
            async with asyncio.timeout(PATIENCE):
                await response.write(part)
        async with asyncio.timeout(PATIENCE):
            await response.write_eof()
    except TimeoutError:
        logger.info("a client does not read its answer", extra=fields(path=request.path))
        transport.abort()
    finally:
        _buffer(transport, high=None, unsent=UNLIMITED)
    return response


async def write_part(request: web.BaseRequest, response: web.StreamResponse, part: bytes) -> None:
    """Of an answer whose parts come one after the other."""
    try:
        async with asyncio.timeout(PATIENCE):
            await response.write(part)
    except TimeoutError as error:
        logger.info("a client does not read its answer", extra=fields(path=request.path))
        if request.transport is not None:
            request.transport.abort()
        raise ConnectionResetError("the client does not read") from error


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


def in_parts(body: bytes) -> Iterator[bytes]:
    for start in range(0, len(body), PIECE):
        yield body[start : start + PIECE]
