"""A watch over a WebSocket, as fabric8's Java client and dashboards ask for it, seen as `Watching`.

The framing is the package websocket-client's, which the Python client of Kubernetes uses as well.
Guarantees: each message is one event, or the test fails; how the server ended it is in `close_code`
(None: without a closing frame).
"""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import struct
import threading
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

import websocket

from tools.harness.pods.wire.caller import TIMEOUT, Caller, Query, Seen, Watching, target_of

PONG = websocket.ABNF.OPCODE_PONG


class WebSocketWatching(Watching):
    """`headers` come beside the caller's; `token` is sent as browsers do, among `protocols`.
    Raises `websocket.WebSocketBadStatusException` where the handshake is refused."""

    def __init__(
        self,
        caller: Caller,
        path: str,
        query: Query = (),
        *,
        headers: Mapping[str, str] | None = None,
        protocols: Sequence[str] = (),
    ) -> None:
        self.seen: list[Seen] = []
        self.messages: list[str] = []
        self.pongs: list[bytes] = []
        self.close_code: int | None = None
        self.ended_at: float | None = None
        named = {**caller.headers, **(headers or {})}
        self.connection: Any = websocket.create_connection(
            caller.url.replace("http", "ws", 1) + target_of(path, query, watch="true"),
            timeout=TIMEOUT,
            header=[f"{name}: {value}" for name, value in named.items()],
            subprotocols=list(protocols) or None,
            sslopt=_sslopt(caller.context),
        )
        self.connection.settimeout(None)
        self.status = self.connection.status
        self.handshake: Mapping[str, str] = self.connection.headers
        self.protocol: str | None = self.connection.subprotocol
        self.started_at = time.monotonic()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        with contextlib.suppress(OSError, AttributeError):
            # What is being read is not ended by closing; the reader may have closed it.
            self.connection.sock.shutdown(socket.SHUT_RDWR)
        self._thread.join(TIMEOUT)
        self.connection.shutdown()

    def close(self) -> None:
        """As a client does that wants no more: with a closing frame."""
        self.connection.send_close()

    def _read(self) -> None:
        try:
            while True:
                opcode, data = self.connection.recv_data(control_frame=True)
                if opcode == websocket.ABNF.OPCODE_CLOSE:
                    # websocket-client has answered it.
                    self.close_code = struct.unpack("!H", data[:2])[0] if data else None
                    return
                if opcode == PONG:
                    self.pongs.append(data)
                    continue
                assert opcode == websocket.ABNF.OPCODE_TEXT, opcode
                event = json.loads(data)
                self.messages.append(data.decode())
                self.seen.append(Seen(event["type"], event["object"], time.monotonic()))
        except (OSError, websocket.WebSocketException):
            pass
        finally:
            self.ended_at = time.monotonic()


def _sslopt(context: ssl.SSLContext | None) -> Mapping[str, object]:
    return {} if context is None else {"context": context}
