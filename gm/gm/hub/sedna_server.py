"""The websocket carrier of streams, for Sedna's own LCs.

Guarantees: The same as for our LCs where Sedna's protocol can give them: everything that concerns
the node at connect, changes in order, a slow LC holds only its own queue, a dead peer is found by
pings. What an LC has sent when its stream ends is read to the end and taken. What it cannot: there
is no acknowledgement, no end of a snapshot, and no authentication: a client that reaches the port
is believed to be the node that it names.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from contextlib import suppress
from typing import Final

from aiohttp import WSCloseCode, WSMsgType
from aiohttp.web_ws import WebSocketResponse

from edge_sidecars.runtime.cli.values import Address, BadInput
from edge_sidecars.runtime.log import fields, logger
from edge_sidecars.runtime.web import aiohttp_web as web
from edge_sidecars.runtime.web.endpoints import text
from edge_sidecars.runtime.web.listener import Listener, ListenerOptions
from edge_sidecars.sedna_api.core.messages import Hello
from edge_sidecars.sedna_api.core.report import unnumbered_store
from gm.hub.core.sedna_messages import NotASednaMessage, Translator
from gm.hub.core.session import SessionEnded
from gm.hub.hub import Hub
from gm.hub.stream import NodeStream, Task, carry
from gm.hub.stream_server import CannotListen

NODE_HEADER: Final = "Node-Name"
# Seconds between pings, half of it for the answer; gorilla answers by itself.
HEARTBEAT: Final = 10.0
# Bytes: a report's body in base64, and its header.
MAX_FRAME: Final = 128 * 1024
# Seconds between two frames. Sedna's LC handles each in a thread of its own and without a lock, so
# that a burst loses its order and may end the process.
PACE: Final = 0.005
# Seconds for the closing handshake with an LC that does not read.
CLOSE_TIMEOUT: Final = 1.0
# Of a hub without a limit of its own.
MAX_CONNECTIONS: Final = 2048
OPTIONS: Final = ListenerOptions(
    log="gm.sedna",
    backlog=128,
    shutdown_grace=CLOSE_TIMEOUT,
    # What an LC has sent when it leaves is read to the end.
    ends_with_client=False,
    guards=True,
)
# Bytes of the reason in a close frame: 125 less the code (RFC 6455, section 5.5).
MAX_REASON: Final = 123


class SednaServer:
    """Serves from `start` to `stop`; the hub's `drain` comes before `stop`."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._listener: Listener | None = None

    async def start(self, host: str, port: int) -> int:
        """Listens and returns the port. Raises `CannotListen`."""
        listener = Listener(
            Address(host, port),
            self._connect,
            options=OPTIONS,
            limit=MAX_CONNECTIONS if self._hub.max_lcs is None else self._hub.max_lcs,
        )
        try:
            await listener.open()
        except BadInput as error:
            raise CannotListen(f"{host}:{port}: {error}") from error
        self._listener = listener
        return listener.bound.port

    async def stop(self) -> None:
        """Ends what is left; nothing listens any more."""
        if self._listener is not None:
            await self._listener.close()

    async def _connect(self, request: web.BaseRequest) -> web.StreamResponse:
        # Sedna's GM serves any path.
        node = request.headers.get(NODE_HEADER, "")
        if request.method != "GET":
            return text(405, f"{request.method} is not allowed: LCs GET a websocket")
        if "Origin" in request.headers:
            return text(403, "a web page opens no stream: LCs send no Origin")
        if not node:
            return text(400, f"the header {NODE_HEADER} is missing")
        turned_away = self._hub.turn_away()
        if turned_away is not None:
            return text(503, turned_away.detail)
        socket = WebSocketResponse(
            heartbeat=HEARTBEAT, max_msg_size=MAX_FRAME, timeout=CLOSE_TIMEOUT
        )
        await socket.prepare(request)
        # Its reports have no numbers: those of one connection are one store's.
        store_id = unnumbered_store(time.time(), str(uuid.uuid4()))
        stream = self._hub.enter(Hello(node, store_id, {}, "sedna"), transport="sedna")
        if isinstance(stream, SessionEnded):
            await socket.close(code=WSCloseCode.TRY_AGAIN_LATER, message=stream.detail.encode())
            return socket
        try:
            await _carry(socket, stream, Translator(node, store_id))
        finally:
            self._hub.leave(stream)
        await socket.close(code=WSCloseCode.GOING_AWAY)
        return socket


async def _carry(socket: WebSocketResponse, stream: NodeStream, translator: Translator) -> None:
    async def take_leave(_: Task, reading: Task) -> None:
        if not reading.done():
            await _close(socket, "" if stream.ended is None else stream.ended.detail)
            # LC repeats nothing: what it has sent before it answers the close is still taken.
            await asyncio.wait({reading}, timeout=CLOSE_TIMEOUT)

    writing = _write_all(socket, stream, translator)
    await carry(stream, writing, _read_all(socket, stream, translator), take_leave)


async def _close(socket: WebSocketResponse, detail: str) -> None:
    """Begins the closing handshake; `WebSocketResponse.close` would drop what is yet to be read."""
    code = WSCloseCode.GOING_AWAY.to_bytes(2, "big")
    # The connection may be gone already.
    with suppress(ConnectionError):
        await socket.send_frame(code + detail.encode()[:MAX_REASON], WSMsgType.CLOSE)


async def _write_all(socket: WebSocketResponse, stream: NodeStream, translator: Translator) -> None:
    while (message := await stream.next_message()) is not None:
        frame = translator.down(message)
        if frame is None:
            continue
        try:
            await socket.send_str(frame)
        except ConnectionError:
            # Closed meanwhile; reading ends as well.
            return
        await asyncio.sleep(PACE)


async def _read_all(socket: WebSocketResponse, stream: NodeStream, translator: Translator) -> None:
    async for frame in socket:
        if frame.type is not WSMsgType.TEXT:
            continue
        try:
            report = translator.up(frame.data)
        except NotASednaMessage as error:
            stream.refused += 1
            logger.warning(
                "a message is ignored", extra=fields(node=stream.node, transport="sedna", why=error)
            )
            continue
        if report is not None:
            await stream.deliver(report)
