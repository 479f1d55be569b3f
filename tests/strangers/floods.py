"""What strangers do to a listener: each flood in a function of its port.

Blocking sockets in threads, a real client's share of the processor. Every flood ends by itself and
closes what it opened; what the server says or resets meanwhile is its right.
"""

import socket
import struct
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial

from tools.harness.controlplane.reservation import LOOPBACK

Flood = Callable[[int], None]
GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n"
LONG_HEAD = GET + b"X: " + b"a" * 1_000_000
# Seconds for a server that answers, or ends the connection.
PATIENCE = 30.0
# struct linger: closing sends a reset, so that no port of this machine waits.
RESET = struct.pack("ii", 1, 0)


@contextmanager
def dialled(port: int) -> Iterator[socket.socket]:
    with socket.create_connection((LOOPBACK, port), timeout=PATIENCE) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        yield sock


def _sends(port: int, content: bytes, *, half_closes: bool = False) -> None:
    with suppress(OSError), dialled(port) as sock:
        sock.sendall(content)
        if half_closes:
            sock.shutdown(socket.SHUT_WR)
        while sock.recv(65536):
            pass


def _many(number: int, one: Callable[[int], None], port: int) -> None:
    with ThreadPoolExecutor(min(number, 100)) as pool:
        for done in [pool.submit(one, port) for _ in range(number)]:
            done.result()


def sending(number: int, content: bytes, *, half_closes: bool = False) -> Flood:
    return partial(_many, number, partial(_sends, content=content, half_closes=half_closes))


def connections(port: int, *, number: int, content: bytes = b"") -> None:
    """Opened one after the other, and held together for a while."""
    with ExitStack() as stack:
        for _ in range(number):
            with suppress(OSError):
                sock = stack.enter_context(dialled(port))
                if content:
                    sock.send(content)
        time.sleep(1.0)


def never_reading(port: int) -> None:
    """As many answers as fit on their way, of which nothing is read."""
    with ExitStack() as stack:
        for _ in range(50):
            with suppress(OSError):
                sock = stack.enter_context(dialled(port))
                sock.settimeout(0.2)
                request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
                sock.sendall(request * 2000)
        time.sleep(1.0)


def endless_body(port: int) -> None:
    chunk = b"1000\r\n" + b"a" * 0x1000 + b"\r\n"

    def one(port: int) -> None:
        with suppress(OSError), dialled(port) as sock:
            sock.settimeout(5.0)
            sock.sendall(GET + b"Transfer-Encoding: chunked\r\n\r\n")
            for _ in range(4096):
                sock.sendall(chunk)

    _many(50, one, port)


FLOODS: dict[str, Flood] = {
    "head of a megabyte": sending(400, LONG_HEAD),
    "slow head": partial(connections, number=400, content=GET),
    "connections": partial(connections, number=5000),
    "half-closed": sending(400, GET + b"\r\n", half_closes=True),
    "pipelined": sending(4, (GET + b"\r\n") * 9_999 + GET + b"Connection: close\r\n\r\n"),
    "handshakes left": partial(
        connections, number=400, content=b"\x16\x03\x01\x02\x00\x01\x00\x01"
    ),
    "not UTF-8": sending(400, GET + b"X: \xff\xfe\r\n\r\n"),
    "no HTTP": sending(400, b"\x00\x01" * 100_000),
    "never reading": never_reading,
    "body without end": endless_body,
}
