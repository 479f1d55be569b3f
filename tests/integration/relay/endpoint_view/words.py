"""A stand-in for the pool-sidecar of a node: lines of /sources that a test words.

Guarantees: a line at once after each word and each half second; without the token 401; what it
never does is lend.
"""

from __future__ import annotations

import json
import secrets
import threading
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from tools.harness.controlplane.reservation import LOOPBACK

# Seconds.
EVERY = 0.5
VALID = 6


class PoolWords:
    """`node`: the one on which it runs; `folder`: where its token is to lie."""

    def __init__(self, node: str, folder: Path) -> None:
        self.node = node
        self.token = secrets.token_hex(8)
        self.token_file = folder / f"pool-token-{self.token}"
        self.token_file.write_text(self.token)
        self._line = self._word((), ())
        self._changed = threading.Condition()
        self._count = 0
        self._is_mute = False
        words = self

        class Sources(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                if self.headers.get("Authorization") != f"Bearer {words.token}":
                    self.send_error(HTTPStatus.UNAUTHORIZED)
                    return
                self.send_response(HTTPStatus.OK)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                with suppress(OSError):
                    words._tell(self)

            def log_message(self, format: str, *arguments: object) -> None:
                """Not to standard error."""

        self._server = ThreadingHTTPServer((LOOPBACK, 0), Sources)
        self._server.daemon_threads = True
        self.url = f"http://{LOOPBACK}:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def flags(self) -> list[str]:
        """Of a relay that follows it."""
        return [f"--pool={self.url}", f"--pool-token-file={self.token_file}"]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.mute()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def say(self, *, alive: tuple[str, ...] = (), silent: tuple[str, ...] = ()) -> None:
        """From now on, also where it was mute; the node itself is alive."""
        with self._changed:
            self._line, self._is_mute = self._word(alive, silent), False
            self._count += 1
            self._changed.notify_all()

    def mute(self) -> None:
        """Lines come no more; the connection stays."""
        with self._changed:
            self._is_mute = True
            self._changed.notify_all()

    def _word(self, alive: tuple[str, ...], silent: tuple[str, ...]) -> bytes:
        told: dict[str, Any] = {
            "node": self.node,
            "role": "Follower",
            "candidate": False,
            "link": "Own",
            "hub": None,
            "detour": False,
            "via": "",
            "peers": [{"node": it} for it in alive],
            "verdicts": dict.fromkeys(silent, "Silent"),
            "validSeconds": VALID,
        }
        return json.dumps(told).encode() + b"\n"

    def _tell(self, client: BaseHTTPRequestHandler) -> None:
        while True:
            with self._changed:
                count, line, is_mute = self._count, self._line, self._is_mute
            if not is_mute:
                client.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                client.wfile.flush()
            with self._changed:
                if self._count == count:
                    self._changed.wait(EVERY)
