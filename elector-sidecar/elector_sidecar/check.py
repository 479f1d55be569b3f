"""`elector-sidecar check`: exit 0 only if the elector on this machine says that it leads.

For exec probes and keepalived in images without curl. Imports nothing that costs time. Fails safe:
1 for every answer but 200, for none in time and for a refused connection.
"""

import sys

from sidecar.probe import ask, parse_address, parse_timeout

USAGE = """usage: elector-sidecar check [--url URL] [--min-remaining 2s] [--min-age 3s]
                             [--timeout 2s]

Exit status 0 only if the elector at URL (http://127.0.0.1:4040, or unix:/path) says that this pod
leads, with so much validity left and in a term of such an age; 1 if not or in doubt; 2 for bad use.
"""
DEFAULT_URL = "http://127.0.0.1:4040"
DEFAULT_TIMEOUT = "2s"


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
        timeout = parse_timeout(options["--timeout"])
        address = parse_address(options["--url"])
        path = _path(options)
    except ValueError as error:
        sys.stderr.write(f"elector-sidecar check: {error}\n")
        return 2
    status, text = ask(address, path, timeout=timeout, whom="the elector")
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
