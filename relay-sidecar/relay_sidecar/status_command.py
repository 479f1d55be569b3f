"""`relay-sidecar status`: the link, the streams and who reads them; a table or JSON.

Asks the relay on this machine for its /status document, and shows it as it is.
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

from relay_sidecar.config.flags import DEFAULT_STATUS_LISTEN, PREFIX
from sidecar.flags import Options, Parser
from sidecar.values import BadInput, address
from sidecar.values import url as checked_url

TIMEOUT = 5.0
# Bytes; a /status document of 10,000 streams is shorter.
MAX_ANSWER = 16 * 1024 * 1024
_FIELDS = {"version", "uptimeSeconds", "link", "journal", "streams", "watchers"}
_TITLES = ("RESOURCE", "NAMESPACE", "SELECTOR", "STATE", "OBJECTS", "BYTES", "AGE", "WATCHERS")


def main(arguments: list[str], environ: Mapping[str, str]) -> int:
    """0 if a relay answered, 1 if none did, 2 for bad input."""
    try:
        options = _parser(environ).parse_args(arguments)
        told = _asked(options.url)
    except BadInput as error:
        sys.stderr.write(f"relay-sidecar status: {error}\n")
        return 2
    except ValueError as error:
        sys.stderr.write(f"relay-sidecar status: {error}\n")
        return 1
    if options.output == "json":
        sys.stdout.write(json.dumps(told, indent=2) + "\n")
    else:
        sys.stdout.write(table(told))
    return 0


def table(told: Mapping[str, Any]) -> str:
    """Of a /status document."""
    link, journal = told["link"], told["journal"]
    summary = [
        ("RELAY", f"{told['version']}, up for {_age(told['uptimeSeconds'])}"),
        ("READY", "yes" if told["isReady"] else f"no: {told['lack']}"),
        ("LINK", _link(link)),
        ("JOURNAL", journal["failure"] or journal["directory"] or "memory"),
        ("OBJECTS", f"{told['objects']} of {told['maxObjects']}"),
        ("WATCHERS", f"{told['watchers']} of {told['maxWatchers']}"),
    ]
    if journal["note"]:
        summary.append(("NOTE", journal["note"]))
    lines = _aligned(summary)
    if told["streams"]:
        lines += ["", *_aligned([_TITLES, *map(_row, told["streams"])])]
    return "\n".join(lines) + "\n"


def _parser(environ: Mapping[str, str]) -> argparse.ArgumentParser:
    options = Options({}, environ, prefix=PREFIX)
    listen = options.parsed("status_listen", address, address(DEFAULT_STATUS_LISTEN))
    default = f"http://{listen.dialled}"
    it = Parser(prog="relay-sidecar status", allow_abbrev=False)
    it.add_argument("--url", default=default, help=f"of --status-listen; default {default}")
    it.add_argument("-o", "--output", choices=("table", "json"), default="table")
    return it


def _asked(url: str) -> dict[str, Any]:
    """Never through a proxy: it is this machine that is asked. Raises ValueError."""
    parts = urlsplit(checked_url(url))
    if parts.scheme != "http" or parts.hostname is None:
        raise BadInput(f"--url {url!r} is not like http://{DEFAULT_STATUS_LISTEN}")
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
        raise ValueError(f"no answer from the relay at {url}: {why}; name its --url") from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{url}/status is no relay's answer: {error}; name its --url") from error
    if not isinstance(told, dict) or not _FIELDS.issubset(told):
        raise ValueError(f"{url}/status is no relay's answer; name the relay's --url")
    return told


def _link(link: Mapping[str, Any]) -> str:
    if link["server"] is None:
        return "none: this relay is the origin"
    if link["isUp"]:
        return f"up, to {link['server']}"
    since = "" if link["downSeconds"] is None else f" for {_age(link['downSeconds'])}"
    return f"down{since}, to {link['server']}"


def _row(stream: Mapping[str, Any]) -> tuple[str, ...]:
    selectors = [stream["labelSelector"], stream["fieldSelector"]]
    refusal = f": {stream['refusal']}" if stream["refusal"] else ""
    return (
        stream["resource"],
        stream["namespace"] or "*",
        "&".join(filter(None, selectors)) or "-",
        f"{stream['state']}{refusal}",
        str(stream["objects"]),
        str(stream["bytes"]),
        "-" if stream["ageSeconds"] is None else _age(stream["ageSeconds"]),
        str(stream["watchers"]),
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
