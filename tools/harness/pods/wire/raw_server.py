"""A TCP server whose every byte a test decides: slow, cut short, silent or no HTTP at all.

Owns one thread per connection. Guarantees: each complete request is in `requests` before the
test's function goes on, so that what was sent twice is counted twice.
"""

import socket
import ssl
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Self

# Seconds after which a connection that nobody closed ends the test's thread.
TIMEOUT = 30.0


class Connection:
    """One accepted connection; the server closes it when the test's function returns."""

    def __init__(self, sock: socket.socket, server: "RawServer") -> None:
        self._sock = sock
        self._server = server
        self._unread = b""

    def request_head(self) -> bytes:
        """The next request without its body; b"" when the client closed instead."""
        while b"\r\n\r\n" not in self._unread:
            if not self._receive():
                return b""
        head, end, self._unread = self._unread.partition(b"\r\n\r\n")
        return head + end

    def request(self) -> bytes:
        """The next whole request, head and body; b"" when the client closed instead."""
        head = self.request_head()
        if not head:
            return b""
        self._unread = head + self._unread
        length = len(head) + _content_length(head)
        while len(self._unread) < length:
            if not self._receive():
                return b""
        whole, self._unread = self._unread[:length], self._unread[length:]
        self._server.requests.append(whole)
        return whole

    def skip(self, limit: int) -> int:
        """Reads up to `limit` bytes and forgets them; how many there were, 0 at the end."""
        if not self._unread:
            self._receive()
        count = min(len(self._unread), limit)
        self._unread = self._unread[count:]
        return count

    def receive(self) -> bytes:
        """What came behind the last request, or comes next; b"" at the end."""
        if not self._unread:
            self._receive()
        found, self._unread = self._unread, b""
        return found

    def shut_write(self) -> None:
        """The client is told that nothing more comes, and may go on."""
        self._sock.shutdown(socket.SHUT_WR)

    def receive_until(self, end: bytes) -> bytes:
        """What comes behind the last request, up to `end` or to where the client ends it."""
        while end not in self._unread and self._receive():
            pass
        found, middle, self._unread = self._unread.partition(end)
        return found + middle

    def send(self, content: bytes) -> None:
        try:
            self._sock.sendall(content)
        except (BrokenPipeError, ConnectionResetError):
            return  # the client had enough

    def answer(self, body: bytes, *, status: str = "200 OK", headers: str = "") -> None:
        self.send(
            f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{headers}\r\n".encode() + body
        )

    def reset(self) -> None:
        """Closes with RST instead of FIN."""
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._sock.close()

    def sees_end(self, *, within: float) -> bool:
        """Whether the client closes the connection in time."""
        self._sock.settimeout(within)
        try:
            while self._receive():
                pass
        except TimeoutError:
            return False
        except ConnectionResetError:
            return True
        return True

    def _receive(self) -> bool:
        chunk = self._sock.recv(65536)
        self._unread += chunk
        return bool(chunk)


def hold(connection: Connection) -> None:
    """Takes whatever comes and never answers."""
    connection.sees_end(within=TIMEOUT)


class RawServer:
    """Listens on a free loopback port, or on the unix socket `path`, while it is entered.

    With `tls` a connection is served after its handshake, unless the client ends that.
    """

    def __init__(
        self,
        serve: Callable[[Connection], None],
        *,
        path: Path | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._serve = serve
        self._tls = tls
        self.requests: list[bytes] = []
        self.connections = 0
        self.errors: list[Exception] = []
        if path is None:
            self._sock = socket.create_server(("127.0.0.1", 0))
            self.port: int = self._sock.getsockname()[1]
        else:
            self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self._sock.bind(str(path))
            self._sock.listen()
            self.port = 0
        self._threads: list[threading.Thread] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        thread = threading.Thread(target=self._accept, daemon=True)
        self._threads.append(thread)
        thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()
        for thread in self._threads:
            thread.join(TIMEOUT)
        if raised[0] is None:
            assert not self.errors, self.errors

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._sock.accept()
            except OSError:
                return
            self.connections += 1
            thread = threading.Thread(target=self._run, args=(sock,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _run(self, sock: socket.socket) -> None:
        sock.settimeout(TIMEOUT)
        if self._tls is not None:
            try:
                sock = self._tls.wrap_socket(sock, server_side=True)
            except OSError:
                sock.close()
                return
        with sock:
            try:
                self._serve(Connection(sock, self))
            except (AssertionError, OSError) as error:
                self.errors.append(error)


def _content_length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    return 0
