"""An HTTP proxy as companies have it: CONNECT for TLS, whole URLs for plain HTTP.

Owns the names that it alone can look up: what is asked for `names[host]` goes to that port of this
machine, so that a client which reaches its server went through here. Guarantees: each request that
came is in `requests` before anything is done about it; nothing else than `names` is reached.
"""

import socket
import ssl
import threading
from collections.abc import Mapping
from contextlib import suppress
from urllib.parse import urlsplit

from tools.harness.pods.wire.raw_server import Connection, RawServer

# Longer than what a test lets a server be silent.
TIMEOUT = 60.0


class HttpProxy(RawServer):
    """Listens while it is entered. `authorization`: what it wants to have in Proxy-Authorization.

    `refusal`: a status line that it answers everything with. `is_silent`: it takes what comes, and
    never answers.
    """

    def __init__(
        self,
        names: Mapping[str, int],
        *,
        authorization: str = "",
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(self._pass_on, tls=tls)
        self._names = names
        self._authorization = authorization
        self._is_tls = tls is not None
        self.refusal = ""
        self.is_silent = False
        # Ends of connections on their way.
        self._open: set[socket.socket] = set()

    @property
    def url(self) -> str:
        return f"{'https' if self._is_tls else 'http'}://127.0.0.1:{self.port}"

    @property
    def heads(self) -> list[bytes]:
        return [whole.partition(b"\r\n\r\n")[0] for whole in self.requests]

    @property
    def tunnels(self) -> list[str]:
        """Host and port of each CONNECT."""
        first = [head.split(b" ", 2) for head in self.heads]
        return [words[1].decode() for words in first if words[0] == b"CONNECT"]

    @property
    def forwarded(self) -> list[str]:
        """The URL of each other request."""
        first = [head.split(b" ", 2) for head in self.heads]
        return [words[1].decode() for words in first if words[0] != b"CONNECT"]

    def cut(self) -> None:
        """Ends each connection that is on its way."""
        for far in tuple(self._open):
            with suppress(OSError):  # It has ended by itself.
                far.shutdown(socket.SHUT_RDWR)

    def _pass_on(self, near: Connection) -> None:
        while whole := near.request():
            if self.is_silent:
                near.sees_end(within=TIMEOUT)
                return
            if refusal := self._refusal(whole):
                near.send(f"HTTP/1.1 {refusal}\r\nContent-Length: 0\r\n\r\n".encode())
                continue
            self._carry(near, whole)
            return

    def _refusal(self, head: bytes) -> str:
        if self.refusal:
            return self.refusal
        told = f"\r\nproxy-authorization: {self._authorization}\r\n".lower().encode()
        if self._authorization and told not in head.lower():
            return "407 Proxy Authentication Required"
        return "" if self._port(head) else "502 Bad Gateway"

    def _port(self, head: bytes) -> int:
        """0 for a host that nobody knows."""
        target = head.split(b" ", 2)[1].decode()
        parts = urlsplit(target if "://" in target else f"//{target}")
        return self._names.get(parts.hostname or "", 0)

    def _carry(self, near: Connection, whole: bytes) -> None:
        try:
            reached = socket.create_connection(("127.0.0.1", self._port(whole)), 10)
        except OSError:
            near.send(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
            return
        with reached as far:
            far.settimeout(TIMEOUT)
            self._open.add(far)
            try:
                back = threading.Thread(target=_copy, args=(far, near), daemon=True)
                if whole.startswith(b"CONNECT "):
                    near.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
                    back.start()
                    _tunnel(near, far)
                else:
                    back.start()
                    self._forward(near, far, whole)
                back.join(10)
            except OSError:
                return  # One of them has ended.
            finally:
                self._open.discard(far)

    def _forward(self, near: Connection, far: socket.socket, whole: bytes) -> None:
        while whole and not self._refusal(whole):
            far.sendall(_to_origin(whole))
            whole = near.request()
        far.shutdown(socket.SHUT_WR)


def _tunnel(near: Connection, far: socket.socket) -> None:
    while chunk := near.receive():
        far.sendall(chunk)
    far.shutdown(socket.SHUT_WR)


def _to_origin(whole: bytes) -> bytes:
    """As RFC 9112, 3.2.1 and 3.2.4, wants it there."""
    head, _, body = whole.partition(b"\r\n\r\n")
    method, target, rest = head.split(b" ", 2)
    parts = urlsplit(target.decode())
    path = f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}"
    if method == b"OPTIONS" and not parts.path:
        path = "*"
    line, *headers = rest.split(b"\r\n")
    kept = [it for it in headers if not it.lower().startswith(b"proxy-")]
    lines = [b" ".join((method, path.encode(), line)), *kept, b"", body]
    return b"\r\n".join(lines)


def _copy(far: socket.socket, near: Connection) -> None:
    try:
        while chunk := far.recv(65536):
            near.send(chunk)
        near.shut_write()
    except OSError:
        return  # One of them has ended.
