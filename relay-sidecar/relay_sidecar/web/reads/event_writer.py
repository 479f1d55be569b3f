"""How the events of one watch get to its client: as the body of an answer, or over a WebSocket.

Guarantees: the answer has begun when `begin` returns; what is written is written in order, and
never more of it lies here than a reader may leave unread. Over a WebSocket each event is a message,
as kube-apiserver has it; what the client sends is not looked at, but for pings, which are answered,
and the end: it closes, or sends what is no frame.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, Protocol

from aiohttp import WSMsgType
from aiohttp.abc import AbstractStreamWriter
from aiohttp.web_ws import WebSocketResponse
from multidict import CIMultiDict

from edge_sidecars.apimachinery.status import Status
from edge_sidecars.runtime.web import aiohttp_web as web
from relay_sidecar.core.upgrade_request import (
    PROTOCOLS,
    asks_for_websocket,
    websocket_protocol,
)
from relay_sidecar.streams.framing import Framing, as_chunk, as_lines, as_messages
from relay_sidecar.web.responses import JSON

# Seconds for the last bytes of a watch; a client that reads nothing for so long is cut off.
FAREWELL: Final = 5.0
# Bytes of a message from a client that watches; it has no reason to send any.
MAX_MESSAGE: Final = 64 * 1024
_ENDS: Final = (WSMsgType.CLOSE, WSMsgType.CLOSING, WSMsgType.CLOSED, WSMsgType.ERROR)


class EventWriter(Protocol):
    """`response` is what the handler of the request returns; its headers are set before `begin`."""

    @property
    def framing(self) -> Framing:
        """Of what is written to the connection past this writer."""
        ...

    @property
    def response(self) -> web.StreamResponse: ...

    async def begin(self) -> None: ...

    async def write(self, events: Sequence[bytes]) -> None: ...

    async def end(self) -> None:
        """The client is to know that this was all."""
        ...


def event_writer(request: web.BaseRequest) -> EventWriter:
    """Raises `Refused` where the client asks for a WebSocket and its handshake is none."""
    if is_over_websocket(request):
        return WebSocketEventWriter(request)
    return HttpEventWriter(request)


async def told(request: web.BaseRequest, status: Status) -> web.StreamResponse:
    """A watch that ends with this at once. Raises `Refused`."""
    writer = event_writer(request)
    await writer.begin()
    await writer.write([status.event()])
    await writer.end()
    return writer.response


def is_over_websocket(request: web.BaseRequest) -> bool:
    # RFC 9110, 7.8: in HTTP/1.0 an upgrade is to be ignored.
    return request.version >= (1, 1) and asks_for_websocket(request.headers)


class HttpEventWriter:
    def __init__(self, request: web.BaseRequest) -> None:
        self._request = request
        self.response = web.StreamResponse(headers=JSON)
        self.framing: Framing = as_chunk if request.version >= (1, 1) else as_lines

    async def begin(self) -> None:
        if self.framing is as_chunk:
            self.response.enable_chunked_encoding()
        else:
            self.response.force_close()
        await self.response.prepare(self._request)

    async def write(self, events: Sequence[bytes]) -> None:
        await self.response.write(b"".join(events))

    async def end(self) -> None:
        await self.response.write_eof()


class WebSocketEventWriter:
    framing: Framing = staticmethod(as_messages)

    def __init__(self, request: web.BaseRequest) -> None:
        protocol = websocket_protocol(request.headers)
        headers = CIMultiDict(request.headers)
        headers.popall(PROTOCOLS, None)
        if protocol:
            headers[PROTOCOLS] = protocol
        # What aiohttp sees of the protocols it may log: never a token among them.
        self._request = request.clone(headers=headers)
        self.response = WebSocketResponse(
            protocols=(protocol,) if protocol else (),
            compress=False,
            max_msg_size=MAX_MESSAGE,
            timeout=FAREWELL,
        )
        self._writer: AbstractStreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        self._writer = await self.response.prepare(self._request)
        self._reading = asyncio.create_task(self._read())

    async def write(self, events: Sequence[bytes]) -> None:
        if self._writer is not None:
            await self._writer.write(as_messages(events))

    async def end(self) -> None:
        if self._reading is not None:
            # Or the connection would end without the client's answer, and its last bytes with it.
            self._reading.cancel()
            await asyncio.wait([self._reading])
        await self.response.close()

    async def _read(self) -> None:
        """Until the client ends it, or the connection ends. What the handler does for this request
        ends then, too: a connection over TLS may be there for long after its last bytes."""
        with suppress(ConnectionError):
            while (await self.response.receive()).type not in _ENDS:
                pass
        self._request.task.cancel()
