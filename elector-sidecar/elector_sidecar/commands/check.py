"""`elector-sidecar check`: exit 0 only if the elector on this machine says that it leads.

For exec probes and keepalived in images without curl. Imports nothing that costs time. Fails safe:
1 for every answer but an elector's 200, for none in time and for a refused connection.
"""

import sys
from collections.abc import Mapping

from edge_sidecars.runtime.cli.probe import ask, parse_options, url_of

USAGE = """usage: elector-sidecar check [--url URL] [--min-remaining 2s] [--min-age 3s]
                             [--timeout 2s]

Exit status 0 only if the elector at URL (http://127.0.0.1:4040, or unix:/path; default: that of
ELECTOR_LISTEN) says that this pod
leads, with so much validity left and in a term of such an age; 1 if not or in doubt; 2 for bad use.

Example:
  elector-sidecar check --min-remaining 2s

Manual: https://edge-sidecars.github.io/edge-sidecars/latest/reference/elector/
"""
CONDITIONS = ("--min-remaining", "--min-age")
DEFAULTS = {"--url": "http://127.0.0.1:4040", "--timeout": "2s"}
VARIABLE = "ELECTOR_LISTEN"
# A header that only an elector's 200 has.
PROOF = "x-leader-valid-until"


def main(arguments: list[str], environ: Mapping[str, str]) -> int:
    try:
        defaults = dict(DEFAULTS)
        if environ.get(VARIABLE):
            defaults["--url"] = url_of(environ[VARIABLE], VARIABLE)
        options = parse_options(arguments, defaults, more=CONDITIONS, command="check", usage=USAGE)
        if options is None:
            return 0
        status, text, headers = ask(options, _path(options), whom="the elector")
    except ValueError as error:
        sys.stderr.write(f"elector-sidecar check: {error}\n")
        return 2
    if status == "200":
        if PROOF in headers:
            return 0
        text = f"the server at {options['--url']} is no elector"
    sys.stderr.write(f"elector-sidecar check: {text}\n")
    return 2 if status == "400" else 1


def _path(options: dict[str, str]) -> str:
    conditions = []
    for name in CONDITIONS:
        value = options.get(name)
        if value is None:
            continue
        # An empty one is a variable that is not set: it must not read as no condition.
        if not (value.isascii() and value.replace(".", "").isalnum()):
            raise ValueError(f"{name} {value!r} is not a duration: write it like 2s or 500ms")
        conditions.append(f"{name[2:].replace('-', '_')}={value}")
    return "/readyz" + ("?" + "&".join(conditions) if conditions else "")
