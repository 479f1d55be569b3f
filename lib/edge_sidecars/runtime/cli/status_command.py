"""A `status` command, or one like it: shows people the document of a process on this machine.

Knows no document: what its fields mean, and where the process listens, its component says.
Guarantees: a failure is one line on standard error; no proxy is asked; a table is
aligned, with nothing behind its last column.
"""

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.parse import urlsplit

from edge_sidecars.runtime.cli.options import Options, Parser
from edge_sidecars.runtime.cli.values import Address, BadInput, address
from edge_sidecars.runtime.cli.values import url as checked_url

# Seconds; a process of this machine that does not answer within so many does not answer.
TIMEOUT = 5.0
# Bytes; a /status document of 10,000 streams, nodes or objects is shorter.
MAX_STATUS = 16 * 1024 * 1024
FAILED = 1
BAD_INPUT = 2

Told = dict[str, Any]
Rows = Sequence[Sequence[str]]


@dataclass(frozen=True)
class StatusDocument:
    """Which one is asked for. `noun` and `called` are words for the process: `relay`, `the relay`;
    `fields` of it tell it from another's; `longest` is in bytes."""

    noun: str
    called: str
    fields: frozenset[str]
    path: str = "/status"
    longest: int = MAX_STATUS

    def ask(self, connection: HTTPConnection, url: str) -> Told:
        """Closes the connection. Raises ValueError, with `url` for people."""
        try:
            with closing(connection):
                connection.request("GET", self.path)
                with connection.getresponse() as answer:
                    if answer.status != HTTPStatus.OK:
                        raise HTTPException(f"{answer.status} {answer.reason}")
                    told = json.loads(answer.read(self.longest))
        except (OSError, HTTPException) as error:
            reason = error.strerror if isinstance(error, OSError) else None
            why = " ".join((reason or str(error)).split()) or type(error).__name__
            raise ValueError(
                f"no answer from {self.called} at {url}: {why}; name its --url"
            ) from error
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{self._is_none(url)}: {error}; name its --url") from error
        if not isinstance(told, dict) or not self.fields.issubset(told):
            raise ValueError(f"{self._is_none(url)}; name {self.called}'s --url")
        return told

    def _is_none(self, url: str) -> str:
        return f"{url}{self.path} is no {self.noun}'s answer"


@dataclass(frozen=True, kw_only=True)
class StatusCommand:
    """`program` and `name` are the command's for people. `url_of` tells what --url is of; `listen`
    is where the process listens, by the environment: it raises `BadInput`."""

    program: str
    document: StatusDocument
    url_of: str
    listen: Callable[[Mapping[str, str]], Address]
    table: Callable[[Told], str]
    manual: str
    name: str = "status"

    def run(self, arguments: list[str], environ: Mapping[str, str]) -> int:
        """0 if the process answered, 1 if it did not, 2 for bad input."""
        try:
            options = self._parser(environ).parse_args(arguments)
            connection = connection_to(options.url, like=f"http://{self.listen({})}")
            told = self.document.ask(connection, options.url)
        except BadInput as error:
            return self._failed(error, BAD_INPUT)
        except ValueError as error:
            return self._failed(error, FAILED)
        if options.output == "json":
            sys.stdout.write(json.dumps(told, indent=2) + "\n")
        else:
            sys.stdout.write(self.table(told))
        return 0

    def _parser(self, environ: Mapping[str, str]) -> argparse.ArgumentParser:
        default = f"http://{self.listen(environ).dialled}"
        prog = f"{self.program} {self.name}"
        it = Parser(prog=prog, example=f"{prog} --output json", manual=self.manual)
        it.add_argument(
            "--url", metavar="URL", default=default, help=f"of {self.url_of}; default {default}"
        )
        add_output(it)
        return it

    def _failed(self, error: ValueError, status: int) -> int:
        sys.stderr.write(f"{self.program} {self.name}: {' '.join(str(error).split())}\n")
        return status


def add_output(parser: argparse.ArgumentParser) -> None:
    """The flag `--output`."""
    parser.add_argument(
        "-o",
        "--output",
        choices=("table", "json"),
        default="table",
        metavar="table|json",
        help="default table",
    )


def listens_at(option: str, default: str, *, prefix: str) -> Callable[[Mapping[str, str]], Address]:
    """Where a process listens, by the env twin of its option."""

    def listen(environ: Mapping[str, str]) -> Address:
        options = Options({}, environ, prefix=prefix)
        with options.naming_variables():
            return options.parsed(option, address, address(default))

    return listen


def connection_to(url: str, *, like: str) -> HTTPConnection:
    """Never through a proxy: it is this machine that is asked. Raises `BadInput`, which names what
    a URL is to be `like`."""
    parts = urlsplit(checked_url(url))
    if parts.scheme != "http" or parts.hostname is None:
        raise BadInput(f"--url {url!r} is not like {like}")
    return HTTPConnection(parts.hostname, parts.port, timeout=TIMEOUT)


def page(summary: Rows, *tables: tuple[Sequence[str], Rows]) -> str:
    """The summary, then each table that has rows, below its titles."""
    parts = [summary, *([titles, *rows] for titles, rows in tables if rows)]
    return "\n\n".join("\n".join(aligned(rows)) for rows in parts) + "\n"


def aligned(rows: Rows, *, gap: int = 2) -> list[str]:
    """A line for each row, with every column as wide as its widest cell; `gap`: spaces between."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        (" " * gap)
        .join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        .rstrip()
        for row in rows
    ]


def age(seconds: float) -> str:
    """Two units at most, as kubectl tells ages."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    units = [(days, "d"), (hours, "h"), (minutes, "m"), (rest, "s")]
    while len(units) > 1 and not units[0][0]:
        units.pop(0)
    return "".join(f"{number}{unit}" for number, unit in units[:2] if number or unit == "s") or "0s"
