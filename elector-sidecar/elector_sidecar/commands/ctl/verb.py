"""What a sub-command of `kubectl elector` is, and how it writes: tables for people, JSON for
programs. Colours only on a terminal, and only where nothing depends on them.
"""

import argparse
import json
import os
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from edge_sidecars.runtime.cli.status_command import Rows, age, aligned
from edge_sidecars.runtime.formats import rfc3339
from elector_sidecar.commands.ctl.cluster import Cluster
from elector_sidecar.core.history import LAST_TIME
from elector_sidecar.core.lease import Lease, wall_seconds

GREEN, RED, YELLOW = 32, 31, 33


@dataclass(frozen=True, kw_only=True)
class Verb:
    """`run` returns the exit status, and raises `BadInput` or `Failed`. `add`: its own arguments;
    `names_lease`: has a Lease as its first one; `has_output`: has `--output`."""

    text: str
    run: Callable[[Cluster, argparse.Namespace], Awaitable[int]]
    add: Callable[[argparse.ArgumentParser], None] | None = None
    names_lease: bool = True
    has_output: bool = True
    example: str = "my-controller"
    takes_all_namespaces: bool = False


def is_coloured(environ: Mapping[str, str]) -> bool:
    """See https://no-color.org."""
    is_dumb = environ.get("TERM", "dumb") == "dumb"
    return sys.stdout.isatty() and not is_dumb and not environ.get("NO_COLOR")


def coloured(line: str, colour: int | None) -> str:
    return f"\033[{colour}m{line}\033[0m" if colour and is_coloured(os.environ) else line


def write_table(rows: Rows, colours: Mapping[int, int] | None = None) -> None:
    """`colours`: of rows, by their place. Three spaces between columns, as kubectl has them."""
    lines = aligned([[printable(cell) for cell in row] for row in rows], gap=3)
    for place, line in enumerate(lines):
        sys.stdout.write(coloured(line, (colours or {}).get(place)) + "\n")


def write_json(document: object, *, indent: int | None = 2) -> None:
    sys.stdout.write(json.dumps(document, indent=indent) + "\n")
    sys.stdout.flush()


def write_document(
    given: argparse.Namespace, document: object, tables: Sequence[Rows], empty: str
) -> None:
    """As `--output` says; `empty` where no table has a row below its titles."""
    if given.output == "json":
        write_json(document)
        return
    shown = [rows for rows in tables if len(rows) > 1]
    if not shown:
        sys.stderr.write(f"{empty}\n")
    for place, rows in enumerate(shown):
        sys.stdout.write("\n" if place else "")
        write_table(rows)


def proven_until(lease: Lease) -> float | None:
    """Epoch seconds by the holder's clock, up to which no other may lead; None without a holder, or
    where somebody wrote a time that is none."""
    renewed, duration = wall_seconds(lease.spec.renew_time), lease.spec.lease_duration
    if not lease.spec.holder_identity or renewed is None or duration is None:
        return None
    until = renewed + duration
    return until if 0 <= until < LAST_TIME else None


def seconds_left(until: float | None, now: float) -> str:
    """For people. `now`: epoch seconds, as `until`."""
    if until is None:
        return "-"
    left = until - now
    return f"{left:.0f}s" if left > 0 else f"over {age(-left)} ago"


def stamp(wall: float | None) -> str | None:
    return None if wall is None else rfc3339.stamp_of(wall, "seconds")


def since(text: str | None, now: float) -> str:
    """How long ago a time was; `now`: epoch seconds."""
    moment = wall_seconds(text)
    return "-" if moment is None else age(max(now - moment, 0))


def printable(text: str) -> str:
    """Without what would be a command to a terminal: such a character is written as Python's
    escape of it."""
    return "".join(it if it.isprintable() else ascii(it)[1:-1] for it in text)
