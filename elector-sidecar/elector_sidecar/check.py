"""`elector-sidecar check`: exit 0 only if the elector on this machine says that it leads.

For exec probes and keepalived in images without curl. Imports `socket` and nothing else that
costs time. Fails safe: 1 for every answer but 200, for none in time and for a refused connection.
"""

import socket
import sys

USAGE = """usage: elector-sidecar check [--url URL] [--min-remaining 2s] [--min-age 3s]
                             [--timeout 2s]

Exit status 0 only if the elector at URL (http://127.0.0.1:4040, or unix:/path) says that this pod
leads, with so much validity left and in a term of such an age; 1 if not or in doubt; 2 for bad use.
"""
DEFAULT_URL = "http://127.0.0.1:4040"
DEFAULT_TIMEOUT = 2.0


def main(arguments: list[str]) -> int:
    options = {"--url": DEFAULT_URL, "--min-remaining": "", "--min-age": "", "--timeout": "2"}
    rest = [part for word in arguments for part in word.split("=", 1)]
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
        timeout = float(options["--timeout"].removesuffix("s"))
        address = _address(options["--url"])
    except ValueError as error:
        sys.stderr.write(f"elector-sidecar check: {error}\n")
        return 2
    status, text = _ask(address, _path(options), timeout)
    if status == "200":
        return 0
    sys.stderr.write(f"elector-sidecar check: {text}\n")
    return 2 if status == "400" else 1


def _path(options: dict[str, str]) -> str:
    query = "&".join(
        f"{name[2:].replace('-', '_')}={options[name]}"
        for name in ("--min-remaining", "--min-age")
        if options[name]
    )
    return "/readyz" + ("?" + query if query else "")


def _address(url: str) -> tuple[str, int] | str:
    if url.startswith("unix:/"):
        return url.removeprefix("unix:")
    rest = url.removeprefix("http://").rstrip("/")
    host, _, port = rest.rpartition(":")
    if not url.startswith("http://") or not port.isdecimal() or "/" in rest:
        raise ValueError(f"--url {url!r} is not like {DEFAULT_URL} or unix:/run/elector.sock")
    return host.strip("[]"), int(port)


def _ask(address: tuple[str, int] | str, path: str, timeout: float) -> tuple[str, str]:
    """Status code and text; the code is "" where there was no answer."""
    try:
        if isinstance(address, str):
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            connection.settimeout(timeout)
            connection.connect(address)
        else:
            connection = socket.create_connection(address, timeout)
        with connection:
            request = f"GET {path} HTTP/1.0\r\nHost: localhost\r\nConnection: close\r\n\r\n"
            connection.sendall(request.encode())
            answer = b""
            while chunk := connection.recv(4096):
                answer += chunk
    except OSError as error:
        return "", f"no answer from the elector: {error}"
    head, _, body = answer.partition(b"\r\n\r\n")
    words = head.split(b" ", 2)
    if len(words) < 2 or not words[0].startswith(b"HTTP/1."):
        return "", "the answer is not HTTP"
    return words[1].decode("latin-1"), body.decode("utf-8", "replace").strip()
