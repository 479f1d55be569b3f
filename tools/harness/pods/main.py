"""A main container that only queries localhost: a real HTTP server whose health a test sets.

`GET /healthz` answers the set status (0: hangs), or what a function says at each request;
`POST /drain` answers its own status likewise. Runs in the test process
(`MainServer`), so that a test can look at what it was asked.
"""

import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

from tools.harness.controlplane.reservation import LOOPBACK, Reservation


class MainServer:
    """Listens while it is entered; `close` makes the port refuse, `open` on the same port again."""

    def __init__(self, *, health: int | Callable[[], int] = 200, drain: int = 200) -> None:
        self.health = health
        self.drain = drain
        self._reservation = Reservation()
        self.port = self._reservation.port
        # (seconds on CLOCK_BOOTTIME, method, path, body)
        self.requests: list[tuple[float, str, str, bytes]] = []
        self._server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        self._reservation.release()

    def open(self) -> None:
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                health = owner.health
                self._answer(health if isinstance(health, int) else health())

            def do_POST(self) -> None:
                self._answer(owner.drain if self.path == "/drain" else 200)

            def _answer(self, status: int) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                at = time.clock_gettime(time.CLOCK_BOOTTIME)
                owner.requests.append((at, self.command, self.path, body))
                if status == 0:
                    time.sleep(30)
                    return
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Silence: the test reads `requests`."""

        self._server = ThreadingHTTPServer((LOOPBACK, self.port), Handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def asked(self, path: str) -> int:
        return sum(1 for _, _, asked, _ in self.requests if asked == path)
