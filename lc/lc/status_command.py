"""`lc status`: how it stands on this node; a table or JSON.

Asks the LC on this machine for its /status document, and shows it as it is.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.parse import urlsplit

from lc.config.flags import DEFAULT_BIND_PORT, PREFIX, SEDNA_TWINS
from sidecar.flags import Options, Parser
from sidecar.values import BadInput, whole
from sidecar.values import url as checked_url

TIMEOUT = 5.0
# Bytes; a /status document of 10,000 objects is shorter.
MAX_ANSWER = 16 * 1024 * 1024
_FIELDS = {"node", "mode", "link", "store", "reports", "objects"}
_TITLES = ("KIND", "NAMESPACE", "NAME", "STATE")


def main(arguments: list[str], environ: Mapping[str, str]) -> int:
    """0 if an LC answered, 1 if none did, 2 for bad input."""
    try:
        options = _parser(environ).parse_args(arguments)
        told = _asked(options.url)
    except BadInput as error:
        sys.stderr.write(f"lc status: {error}\n")
        return 2
    except ValueError as error:
        sys.stderr.write(f"lc status: {error}\n")
        return 1
    if options.output == "json":
        sys.stdout.write(json.dumps(told, indent=2) + "\n")
    else:
        sys.stdout.write(table(told))
    return 0


def table(told: Mapping[str, Any]) -> str:
    """Of a /status document."""
    store, reports = told["store"], told["reports"]
    kinds = Counter(each["kind"] for each in told["objects"])
    counted = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    summary = [
        ("LC", f"{told['version']} on {told['node']}, up for {_age(told['uptimeSeconds'])}"),
        ("LINK", f"mode {told['mode']}, {_link(told['link'])}"),
        ("STORE", store["failure"] or f"{store['directory']}, {store['id']}"),
        ("REPORTS", _reports(reports)),
        ("OBJECTS", counted or "none"),
    ]
    if store["note"]:
        summary.append(("NOTE", store["note"]))
    summary += [("TRANSFER", _transfer(each)) for each in told["transfers"]]
    lines = _aligned(summary)
    if told["objects"]:
        lines += ["", *_aligned([_TITLES, *map(_row, told["objects"])])]
    if reports["refusals"]:
        lines += ["", *(_refusal(each) for each in reports["refusals"])]
    return "\n".join(lines) + "\n"


def _parser(environ: Mapping[str, str]) -> argparse.ArgumentParser:
    environ = {PREFIX + "BIND_PORT": environ.get(SEDNA_TWINS["bind_port"], ""), **environ}
    port = Options({}, environ, prefix=PREFIX).parsed("bind_port", whole, DEFAULT_BIND_PORT)
    default = f"http://127.0.0.1:{port}"
    it = Parser(prog="lc status", allow_abbrev=False)
    it.add_argument("--url", default=default, help=f"of this node's LC; default {default}")
    it.add_argument("-o", "--output", choices=("table", "json"), default="table")
    return it


def _asked(url: str) -> dict[str, Any]:
    """Never through a proxy: it is this machine that is asked. Raises ValueError."""
    parts = urlsplit(checked_url(url))
    if parts.scheme != "http" or parts.hostname is None:
        raise BadInput(f"--url {url!r} is not like http://127.0.0.1:{DEFAULT_BIND_PORT}")
    connection = HTTPConnection(parts.hostname, parts.port, timeout=TIMEOUT)
    try:
        with closing(connection):
            connection.request("GET", "/status")
            answer = connection.getresponse()
            if answer.status != HTTPStatus.OK:
                raise HTTPException(f"{answer.status} {answer.reason}")
            told = json.loads(answer.read(MAX_ANSWER))
    except (OSError, HTTPException) as error:
        why = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"no answer from the LC at {url}: {why}; name its --url") from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{url}/status is no LC's answer: {error}; name its --url") from error
    if not isinstance(told, dict) or not _FIELDS.issubset(told):
        raise ValueError(f"{url}/status is no LC's answer; name the LC's --url")
    return told


def _link(link: Mapping[str, Any]) -> str:
    state = "up" if link["isUp"] else "down"
    why = f": {link['problem']}" if link["problem"] else ""
    return f"{state} for {_age(link['forSeconds'])}, {link['peer'] or 'nobody yet'}{why}"


def _transfer(transfer: Mapping[str, Any]) -> str:
    return f"{transfer['url']}: {transfer['done']} of {transfer['size'] or '?'} bytes"


def _reports(reports: Mapping[str, Any]) -> str:
    oldest = reports["oldestSeconds"]
    age = "" if oldest is None else f", the oldest for {_age(oldest)}"
    return f"{reports['waiting']} waiting{age}; {reports['refused']} refused"


def _row(it: Mapping[str, Any]) -> tuple[str, ...]:
    return it["kind"], it["namespace"], it["name"], it["note"] or "-"


def _refusal(it: Mapping[str, Any]) -> str:
    return (
        f"REFUSED  {it['kind']} {it['namespace']}/{it['name']} report {it['seq']}: {it['reason']}"
    )


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _age(seconds: float) -> str:
    """Two units at most, as kubectl tells ages."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    units = [(days, "d"), (hours, "h"), (minutes, "m"), (rest, "s")]
    while len(units) > 1 and not units[0][0]:
        units.pop(0)
    return "".join(f"{number}{unit}" for number, unit in units[:2] if number or unit == "s") or "0s"
