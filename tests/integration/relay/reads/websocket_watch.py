"""A watch over a WebSocket, as fabric8's Java client and dashboards ask for it, seen as `Watching`.

The framing is the package websocket-client's, which the Python client of Kubernetes uses as well.
Guarantees: each message is one event, or the test fails; how the server ended it is in `close_code`
(None: without a closing frame).
"""

from __future__ import annotations

import json
import select
import ssl
import struct
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import websocket

from tools.harness.pods.wire.caller import TIMEOUT, Caller, Query, Seen, Watching, target_of

PONG = websocket.ABNF.OPCODE_PONG
# Seconds between two looks whether it is over.
POLL_INTERVAL = 0.1


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
        # One thread at a time: until Python 3.13 a TLS connection is not safe for two.
        self._lock = threading.Lock()
        self._is_over = False
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

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        self._thread.join(TIMEOUT)
        self.connection.shutdown()

    def close(self) -> None:
        """As a client does that wants no more: with a closing frame."""
        with self._lock:
            self.connection.send_close()

    def ping(self, payload: bytes) -> None:
        with self._lock:
            self.connection.ping(payload)

    def say(self, message: str | bytes) -> None:
        """A message of text, or of bytes."""
        opcodes = websocket.ABNF.OPCODE_TEXT, websocket.ABNF.OPCODE_BINARY
        with self._lock:
            self.connection.send(message, opcodes[isinstance(message, bytes)])

    def send_bytes(self, content: bytes) -> None:
        """As they are, whatever frames that makes. Raises OSError where the connection is over."""
        with self._lock:
            if self.connection.sock is None:
                raise ConnectionResetError("the connection is closed")
            self.connection.sock.sendall(content)

    def _read(self) -> None:
        try:
            while self._wait_readable():
                with self._lock:
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

    def _wait_readable(self) -> bool:
        """False when nothing is to be read any more."""
        sock = self.connection.sock
        while not self._is_over:
            with self._lock:
                has_rest = isinstance(sock, ssl.SSLSocket) and sock.pending() > 0
            if has_rest or select.select([sock], [], [], POLL_INTERVAL)[0]:
                return True
        return False


def _sslopt(context: ssl.SSLContext | None) -> Mapping[str, object]:
    return {} if context is None else {"context": context}
