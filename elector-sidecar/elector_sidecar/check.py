"""`elector-sidecar check`: exit 0 only if the elector on this machine says that it leads.

For exec probes and keepalived in images without curl. Imports `socket` and nothing else that
costs time. Fails safe: 1 for every answer but 200, for none in time and for a refused connection.
"""

import socket
import sys
import time

USAGE = """usage: elector-sidecar check [--url URL] [--min-remaining 2s] [--min-age 3s]
                             [--timeout 2s]

Exit status 0 only if the elector at URL (http://127.0.0.1:4040, or unix:/path) says that this pod
leads, with so much validity left and in a term of such an age; 1 if not or in doubt; 2 for bad use.
"""
DEFAULT_URL = "http://127.0.0.1:4040"
DEFAULT_TIMEOUT = "2s"
# A longer answer is none of ours.
MAX_ANSWER = 65536


def main(arguments: list[str]) -> int:
    options = {
        "--url": DEFAULT_URL,
        "--min-remaining": "",
        "--min-age": "",
        "--timeout": DEFAULT_TIMEOUT,
    }
    rest = []
    for word in arguments:
        rest += word.split("=", 1) if word.startswith("--") else [word]
    if "-h" in rest or "--help" in rest:
        sys.stdout.write(USAGE)
        return 0
    while rest:
        name = rest.pop(0)
        if name not in options or not rest:
            problem = "lacks its value" if name in options else "is not an option of check"
            sys.stderr.write(f"elector-sidecar check: {name} {problem}\n{USAGE}")
            return 2
        options[name] = rest.pop(0)
    try:
        timeout = _timeout(options["--timeout"])
        address = _address(options["--url"])
        path = _path(options)
    except ValueError as error:
        sys.stderr.write(f"elector-sidecar check: {error}\n")
        return 2
    status, text = _ask(address, path, timeout)
    if status == "200":
        return 0
    sys.stderr.write(f"elector-sidecar check: {text}\n")
    return 2 if status == "400" else 1


def _path(options: dict[str, str]) -> str:
    conditions = []
    for name in ("--min-remaining", "--min-age"):
        value = options[name]
        if value and not (value.isascii() and value.replace(".", "").isalnum()):
            raise ValueError(f"{name} {value!r} is not a duration: write it like 2s or 500ms")
        if value:
            conditions.append(f"{name[2:].replace('-', '_')}={value}")
    return "/readyz" + ("?" + "&".join(conditions) if conditions else "")


def _timeout(text: str) -> float:
    digits = text.removesuffix("s")
    if not (digits.isascii() and digits.replace(".", "", 1).isdecimal()) or len(digits) > 5:
        raise ValueError(f"--timeout {text!r} is not in seconds, like {DEFAULT_TIMEOUT} or 0.5s")
    if float(digits) <= 0:
        raise ValueError(f"--timeout {text!r} must be more than 0")
    return float(digits)


def _address(url: str) -> tuple[str, int] | str:
    if url.startswith("unix:/"):
        return url.removeprefix("unix:")
    rest = url.removeprefix("http://").rstrip("/")
    host, _, port = rest.rpartition(":")
    is_port = port.isascii() and port.isdecimal() and len(port) <= 5 and int(port) <= 65535
    if not url.startswith("http://") or not is_port or "/" in rest:
        raise ValueError(f"--url {url!r} is not like {DEFAULT_URL} or unix:/run/elector.sock")
    return host.strip("[]"), int(port)


def _ask(address: tuple[str, int] | str, path: str, timeout: float) -> tuple[str, str]:
    """Status code and text; the code is "" where there was no answer in time."""
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
        return "", f"no answer from the elector: {error}"
    head, _, body = answer.partition(b"\r\n\r\n")
    words = head.split(b" ", 2)
    if len(words) < 2 or not words[0].startswith(b"HTTP/1."):
        return "", "the answer is not HTTP"
    return words[1].decode("latin-1"), body.decode("utf-8", "replace").strip()


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
