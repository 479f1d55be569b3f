"""One GET of a program on this machine, for probes in images without curl.

Imports `socket` and nothing else that costs time: a probe is a new process each few seconds.
Fails safe: no status for no answer in time, for one that is not HTTP, for a refused connection.
"""

import socket
import time

# A longer answer is none of ours.
MAX_ANSWER = 65536


def parse_timeout(text: str) -> float:
    """Seconds of --timeout. Raises ValueError."""
    digits = text.removesuffix("s")
    if not (digits.isascii() and digits.replace(".", "", 1).isdecimal()) or len(digits) > 5:
        raise ValueError(f"--timeout {text!r} is not in seconds, like 2s or 0.5s")
    if float(digits) <= 0:
        raise ValueError(f"--timeout {text!r} must be more than 0")
    return float(digits)


def parse_address(url: str) -> tuple[str, int] | str:
    """Host and port, or the path of a unix socket. Raises ValueError."""
    if url.startswith("unix:/"):
        return url.removeprefix("unix:")
    rest = url.removeprefix("http://").rstrip("/")
    host, _, port = rest.rpartition(":")
    is_port = port.isascii() and port.isdecimal() and len(port) <= 5 and int(port) <= 65535
    if not url.startswith("http://") or not is_port or "/" in rest:
        raise ValueError(
            f"--url {url!r} is not like http://127.0.0.1:4040 or unix:/run/elector.sock"
        )
    return host.strip("[]"), int(port)


def ask(
    address: tuple[str, int] | str, path: str, *, timeout: float, whom: str
) -> tuple[str, str, frozenset[str]]:
    """Status code, text and the names of the headers in lower case; the code is "" where there was
    no answer in time. `whom`: what the text calls who was asked."""
    deadline = time.monotonic() + timeout
    answer = b""
    try:
        with _connect(address, timeout) as connection:
            request = f"GET {path} HTTP/1.0\r\nHost: localhost\r\nConnection: close\r\n\r\n"
            connection.sendall(request.encode())
            while len(answer) < MAX_ANSWER:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise TimeoutError(f"not complete within {timeout:g}s")
                connection.settimeout(left)
                chunk = connection.recv(4096)
                if not chunk:
                    break
                answer += chunk
    except (OSError, UnicodeError) as error:  # UnicodeError: a host name that cannot be one
        return "", f"no answer from {whom}: {error}", frozenset()
    head, end, body = answer.partition(b"\r\n\r\n")
    first, *rest = head.decode("latin-1").split("\r\n")
    words = first.split(" ", 2)
    if not end or len(words) < 2 or not words[0].startswith("HTTP/1."):
        return "", "the answer is not HTTP", frozenset()
    names = frozenset(line.partition(":")[0].lower() for line in rest)
    return words[1], body.decode("utf-8", "replace").strip(), names


def _connect(address: tuple[str, int] | str, timeout: float) -> socket.socket:
    if not isinstance(address, str):
        return socket.create_connection(address, timeout)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout)
        connection.connect(address)
    except OSError:
        connection.close()
        raise
    return connection
