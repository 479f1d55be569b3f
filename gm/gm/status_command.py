"""`gm status`: who leads, which LCs are connected, what waits, jobs by state; a table or JSON.

Asks the GM on this machine for its /status document, and shows it as it is.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.parse import urlsplit

from gm.config.flags import DEFAULT_LISTEN, PREFIX
from sidecar.flags import Options, Parser
from sidecar.values import BadInput, address
from sidecar.values import url as checked_url

TIMEOUT = 5.0
# Bytes; a /status document of 10,000 nodes is shorter.
MAX_ANSWER = 16 * 1024 * 1024
_FIELDS = {"version", "mode", "leader", "backlog", "reports", "nodes", "jobs"}
_NODE_TITLES = ("NODE", "BY", "VERSION", "CONNECTED", "SERVED", "BACKLOG", "REPORTS", "LAST REPORT")
_JOB_TITLES = ("KIND", "STATE", "OBJECTS")


def main(arguments: list[str], environ: Mapping[str, str]) -> int:
    """0 if a GM answered, 1 if none did, 2 for bad input."""
    try:
        options = _parser(environ).parse_args(arguments)
        told = _asked(options.url)
    except BadInput as error:
        sys.stderr.write(f"gm status: {error}\n")
        return 2
    except ValueError as error:
        sys.stderr.write(f"gm status: {error}\n")
        return 1
    text = json.dumps(told, indent=2) + "\n" if options.output == "json" else table(told)
    sys.stdout.write(text)
    return 0


def table(told: Mapping[str, Any]) -> str:
    """Of a /status document."""
    backlog, reports = told["backlog"], told["reports"]
    summary = [
        ("GM", f"{told['version']}, {told['mode']}, up for {_age(told['uptimeSeconds'])}"),
        ("READY", "yes" if told["isReady"] else f"no: {told['lack']}"),
        ("LINK", "up" if told["isLinkUp"] else "down"),
        ("LEADER", _leader(told["leader"])),
        (
            "WAITING",
            f"{backlog['objects']} objects, {backlog['reports']} reports to be stored, "
            f"{backlog['nodeReports']} in NodeReports ({backlog['heldBack']} objects held back), "
            f"{backlog['events']} events",
        ),
        (
            "REPORTS",
            f"{reports['stored']} stored, {reports['folded']} taken in, "
            f"{reports['withoutEffect']} without effect, {reports['refused']} refused",
        ),
    ]
    if reports["lastRefusal"]:
        summary.append(("REFUSED", reports["lastRefusal"]))
    lines = _aligned(summary)
    if told["nodes"]:
        lines += ["", *_aligned([_NODE_TITLES, *map(_node, told["nodes"])])]
    if told["jobs"]:
        jobs = [(each["kind"], each["state"], str(each["objects"])) for each in told["jobs"]]
        lines += ["", *_aligned([_JOB_TITLES, *jobs])]
    return "\n".join(lines) + "\n"


def _parser(environ: Mapping[str, str]) -> argparse.ArgumentParser:
    options = Options({}, environ, prefix=PREFIX)
    listen = options.parsed("listen", address, address(DEFAULT_LISTEN))
    default = f"http://{listen.dialled}"
    it = Parser(prog="gm status", allow_abbrev=False)
    it.add_argument("--url", default=default, help=f"of --listen; default {default}")
    it.add_argument("-o", "--output", choices=("table", "json"), default="table")
    return it


def _asked(url: str) -> dict[str, Any]:
    """Never through a proxy: it is this machine that is asked. Raises ValueError."""
    parts = urlsplit(checked_url(url))
    if parts.scheme != "http" or parts.hostname is None:
        raise BadInput(f"--url {url!r} is not like http://{DEFAULT_LISTEN}")
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
        raise ValueError(f"no answer from GM at {url}: {why}; name its --url") from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{url}/status is no GM's answer: {error}; name its --url") from error
    if not isinstance(told, dict) or not _FIELDS.issubset(told):
        raise ValueError(f"{url}/status is no GM's answer; name GM's --url")
    return told


def _leader(leader: Mapping[str, Any]) -> str:
    if leader["isLeader"]:
        return f"this one, term {leader['term']}, proven for {leader['remainingSeconds']:.1f}s"
    return str(leader["holder"] or "unknown")


def _node(node: Mapping[str, Any]) -> tuple[str, ...]:
    last = node["lastReportSeconds"]
    return (
        node["node"],
        node["transport"],
        node["version"] or "-",
        _age(node["ageSeconds"]),
        "yes" if node["isServing"] else "not yet",
        str(node["backlog"]),
        str(node["reports"]),
        "-" if last is None else f"{_age(last)} ago",
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
