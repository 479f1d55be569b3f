"""One GET of a program on this machine, for probes in images without curl; `<program> livez`.

Imports `socket` and nothing else that costs time: a probe is a new process each few seconds.
Fails safe: no status for no answer in time, for one that is not HTTP, for a refused connection.
"""

import socket
import sys
import time

# A longer answer is none of ours.
MAX_ANSWER = 65536
DEFAULT_TIMEOUT = "2s"
_USAGE = """usage: {program} livez [--url URL] [--timeout {timeout}]

Exit status 0 only if the {program} at URL (default {url}) answers that it
lives; 1 if not or in doubt; 2 for bad use.

Example:
  {program} livez --timeout 1s
"""


def parse_options(
    arguments: list[str],
    defaults: dict[str, str],
    *,
    more: tuple[str, ...] = (),
    command: str,
    usage: str,
) -> dict[str, str] | None:
    """The options' texts by name: `defaults`, and which of these or of `more` are given; None where
    only the usage was asked for, which is shown. Raises ValueError for bad use."""
    options = dict(defaults)
    given: dict[str, str] = {}
    rest = []
    for word in arguments:
        rest += word.split("=", 1) if word.startswith("--") else [word]
    if "-h" in rest or "--help" in rest:
        sys.stdout.write(usage)
        return None
    while rest:
        name = rest.pop(0)
        is_known = name in defaults or name in more
        if not is_known or not rest:
            problem = "lacks its value" if is_known else f"is not an option of {command}"
            known = ", ".join(dict.fromkeys([*defaults, *more]))
            raise ValueError(f"{name} {problem}: it takes {known}")
        value = rest.pop(0)
        if name in given:
            raise ValueError(f"{name} is given twice, {given[name]!r} and {value!r}: drop one")
        given[name] = value
    return options | given


def ask(options: dict[str, str], path: str, *, whom: str) -> tuple[str, str, frozenset[str]]:
    """Status code, text and the names of the headers in lower case; the code is "" where there was
    no answer in time. `options`: --url and --timeout; `whom`: what the text calls who was asked.
    Raises ValueError for bad options."""
    address, timeout = _address(options["--url"]), _seconds(options["--timeout"])
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
        why = getattr(error, "strerror", None) or error
        return "", f"no answer from {whom} at {options['--url']}: {why}", frozenset()
    head, end, body = answer.partition(b"\r\n\r\n")
    first, *rest = head.decode("latin-1").split("\r\n")
    words = first.split(" ", 2)
    if not end or len(words) < 2 or not words[0].startswith("HTTP/1."):
        return "", "the answer is not HTTP", frozenset()
    names = frozenset(line.partition(":")[0].lower() for line in rest)
    return words[1], body.decode("utf-8", "replace").strip(), names


def _seconds(text: str) -> float:
    """Seconds of --timeout. Raises ValueError."""
    digits = text.removesuffix("s")
    if not (digits.isascii() and digits.replace(".", "", 1).isdecimal()) or len(digits) > 5:
        raise ValueError(f"--timeout {text!r} is not in seconds, like 2s or 0.5s")
    if float(digits) <= 0:
        raise ValueError(f"--timeout {text!r} must be more than 0")
    return float(digits)


def _address(url: str) -> tuple[str, int] | str:
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


def url_of(listen: str, variable: str) -> str:
    """Raises ValueError, which begins with the variable that has `listen`."""
    # Probes whose address is a constant do without.
    from edge_sidecars.runtime.cli.values import BadInput, address

    try:
        return address(listen).dialled.url
    except BadInput as error:
        raise ValueError(f"{variable} {error}".strip()) from error


def livez(arguments: list[str], *, program: str, listen: str, variable: str = "") -> int:
    """The health check of the images, which needs neither curl nor a shell: 0 only if the program
    on this machine answers its /livez with 200. Whether it leads, is ready or is cut off plays no
    part; a restart would mend none of these.

    `listen`: where the program does without a flag, as its own default has it; `variable`: the
    one that has it, "" for none."""
    try:
        url = url_of(listen, variable)
        usage = _USAGE.format(program=program, timeout=DEFAULT_TIMEOUT, url=url)
        defaults = {"--url": url, "--timeout": DEFAULT_TIMEOUT}
        options = parse_options(arguments, defaults, command="livez", usage=usage)
        if options is None:
            return 0
        status, text, _ = ask(options, "/livez", whom=program)
    except ValueError as error:
        sys.stderr.write(f"{program} livez: {error}\n")
        return 2
    if status == "200":
        return 0
    sys.stderr.write(f"{program} livez: {' '.join(filter(None, (status, text)))}\n")
    return 1
