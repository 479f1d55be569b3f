"""A TCP connection to a server of HTTP whose every byte a test decides.

Knows where an answer's head ends, and nothing else of HTTP.
"""

import socket
import struct
from typing import Self

# Seconds after which a test gives up.
PATIENCE = 20.0
# struct linger {on, seconds}, socket(7): closing sends a reset.
RESET = struct.pack("ii", 1, 0)


class RawClient:
    """Connected to a port of 127.0.0.1 while it is entered."""

    def __init__(self, port: int) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        self.unread = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def send(self, content: bytes) -> None:
        self.sock.sendall(content)

    def until(self, end: bytes) -> bytes:
        """What comes, up to `end`; fails where the connection ends before."""
        while end not in self.unread:
            received = self.sock.recv(65536)
            assert received, f"it ended after {self.unread!r}"
            self.unread += received
        found, middle, self.unread = self.unread.partition(end)
        return found + middle

    def head(self) -> tuple[int, list[tuple[str, str]]]:
        """Status and headers of the next answer."""
        first, *lines = self.until(b"\r\n\r\n").decode().split("\r\n")[:-2]
        pairs = [line.partition(": ")[::2] for line in lines]
        return int(first.split(" ")[1]), pairs

    def some(self) -> bytes:
        """What is there, or comes next."""
        found, self.unread = self.unread or self.sock.recv(65536), b""
        assert found, "it ended"
        return found

    def rest(self) -> bytes:
        """All that comes to the end of the connection."""
        while received := self.sock.recv(65536):
            self.unread += received
        return self.unread

    def reset(self) -> None:
        """Closes with RST instead of FIN."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self.sock.close()
