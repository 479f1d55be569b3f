"""An elector that says what a test wants: its stream of `/leader` and its `/readyz`, over HTTP.

Guarantees: a line goes to every open stream at once; nothing is sent that the test did not ask
for. Serves from threads of its own while it is entered.
"""

import json
import queue
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

from tools.harness.controlplane.clients.answer import boottime

# Ends a stream, in the place of a line.
END = b""


class StandInElector:
    """`unexpected`: requests that an elector does not know."""

    def __init__(self) -> None:
        self.unexpected: list[str] = []
        self.document: dict[str, object] = {}
        self._streams: list[queue.Queue[bytes]] = []
        self._lock = threading.Lock()
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self.standby()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end_streams()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def lead(self, token: int, *, seconds: float) -> None:
        """A term that is proven for so long from now."""
        until = boottime() + seconds
        self._speak(isLeader=True, validUntil=until, remaining=seconds, fencingToken=token)

    def standby(self) -> None:
        self._speak(isLeader=False, validUntil=None, remaining=0.0, fencingToken=None)

    def garble(self) -> None:
        """A line that is no document, on each stream; `/readyz` stays as it was."""
        self._send(b'{"isLeader": tru\n')

    def end_streams(self) -> None:
        self._send(END)

    def _speak(self, *, remaining: float, **fields: object) -> None:
        self.document = {**fields, "remainingSeconds": remaining, "reason": ""}
        self._send(json.dumps(self.document).encode() + b"\n")

    def _send(self, line: bytes) -> None:
        with self._lock:
            for stream in self._streams:
                stream.put(line)

    # ── its handlers ──

    def opened(self) -> queue.Queue[bytes]:
        stream: queue.Queue[bytes] = queue.Queue()
        with self._lock:
            stream.put(json.dumps(self.document).encode() + b"\n")
            self._streams.append(stream)
        return stream

    def closed(self, stream: queue.Queue[bytes]) -> None:
        with self._lock:
            self._streams.remove(stream)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, elector: StandInElector) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.elector = elector


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == "/leader?watch=true":
            self._stream()
        elif self.path == "/readyz":
            self._readyz()
        else:
            self.server.elector.unexpected.append(self.path)
            self.send_error(404)

    def _readyz(self) -> None:
        document = self.server.elector.document
        until = document["validUntil"]
        is_leader = isinstance(until, float) and boottime() < until
        self.send_response(200 if is_leader else 503)
        if is_leader:
            self.send_header("X-Leader-Valid-Until", f"{until:.6f}")
            self.send_header("X-Leader-Fencing-Token", str(document["fencingToken"]))
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _stream(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        stream = self.server.elector.opened()
        try:
            while line := stream.get():
                self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.close_connection = True
        finally:
            self.server.elector.closed(stream)

    def log_message(self, format: str, *args: object) -> None:
        """Silence."""
