"""`<program> livez`: exit 0 only if the program on this machine answers its /livez with 200.

The health check of the images: it needs neither curl nor a shell. Whether it leads, is ready or is
cut off plays no part; a restart would mend none of these.
"""

import sys

from edge_sidecars.runtime.probe import ask, parse_address, parse_timeout
from edge_sidecars.runtime.values import BadInput, address

DEFAULT_TIMEOUT = "2s"
_USAGE = """usage: {program} livez [--url URL] [--timeout {timeout}]

Exit status 0 only if the {program} at URL (default {url}) answers that it
lives; 1 if not or in doubt; 2 for bad use.
"""


def main(arguments: list[str], *, program: str, listen: str) -> int:
    """`listen`: where the program does if nothing else is said, as it is told itself."""
    try:
        url = address(listen).dialled.url
    except BadInput as error:
        sys.stderr.write(f"{program} livez: {error}\n")
        return 2
    usage = _USAGE.format(program=program, timeout=DEFAULT_TIMEOUT, url=url)
    options = {"--url": url, "--timeout": DEFAULT_TIMEOUT}
    rest = []
    for word in arguments:
        rest += word.split("=", 1) if word.startswith("--") else [word]
    if "-h" in rest or "--help" in rest:
        sys.stdout.write(usage)
        return 0
    while rest:
        name = rest.pop(0)
        if name not in options or not rest:
            problem = "lacks its value" if name in options else "is not an option of livez"
            sys.stderr.write(f"{program} livez: {name} {problem}\n{usage}")
            return 2
        options[name] = rest.pop(0)
    try:
        where, timeout = parse_address(options["--url"]), parse_timeout(options["--timeout"])
    except ValueError as error:
        sys.stderr.write(f"{program} livez: {error}\n")
        return 2
    status, text, _ = ask(where, "/livez", timeout=timeout, whom=program)
    if status == "200":
        return 0
    sys.stderr.write(f"{program} livez: {' '.join(filter(None, (status, text)))}\n")
    return 1
