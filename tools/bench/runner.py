"""Runs one benchmark: chooses families, measures, prints the table and writes the JSON.

A benchmark is a `Bench`: a table of families, each a function that measures in a world, and the
rows that judge what they measured. Guarantees: what was measured before an end is reported; Ctrl-C
and `kill PID` leave nothing behind; a family that fails is a failed result, and the next one runs.
"""

import argparse
import dataclasses
import json
import os
import platform
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

from edge_sidecars.kubeapi import ApiError, Unreachable
from edge_sidecars.runtime.formats import rfc3339
from tools.bench import pace
from tools.bench.process import pace_of_machine
from tools.bench.progress import say
from tools.bench.samples import OURS, Result, Results
from tools.bench.table import Heads, Row, table
from tools.harness.controlplane.build import KUBERNETES_VERSION, BuildError

RESULTS = Path(__file__).parent / "results"
INTERRUPTED = 130
# Characters of a failure that the report shows.
FAILURE = 2000

World = TypeVar("World")


class Unprepared(Exception):
    """What the world of a benchmark needs is not there; the message says what."""


@dataclasses.dataclass(frozen=True)
class Options:
    """What a benchmark does not offer is 0."""

    runs: int = 0
    seconds: float = 0.0
    window: float = 0.0
    cut: float = 0.0
    events: int = 0
    nodes: int = 0


@dataclasses.dataclass(frozen=True)
class Bench(Generic[World]):
    """`options`: default and help of each that it offers; `parts`: families that another one
    contains, by name; `rows` have only what was measured."""

    about: str
    options: Mapping[str, tuple[float, str]]
    families: Mapping[str, Callable[[World, Options], Iterable[Result]]]
    world: Callable[[], AbstractContextManager[World]]
    rows: Callable[[Results, Options], Sequence[Row]]
    heads: Heads
    notes: Callable[[Sequence[Result]], Sequence[str]] = lambda results: ()
    facts: Callable[[], Mapping[str, object]] = dict
    parts: Mapping[str, str] = dataclasses.field(default_factory=dict)


def main(name: str, bench: Bench[World], arguments: Sequence[str]) -> int:
    """The exit status: 0 when all that was measured reached its target, 1 when not or when a run of
    ours failed, 2 where something is missing, 130 after Ctrl-C."""
    parser = _parser(name, bench)
    given = parser.parse_args(arguments)
    options = Options(**{it: getattr(given, it) for it in bench.options})
    asked = list(bench.families) if given.only is None else given.only.split(",")
    if set(asked) - set(bench.families) or min(getattr(options, it) for it in bench.options) <= 0:
        known = ", ".join(bench.families)
        parser.error(f"--only {given.only}: there are {known}; numbers are above 0")
    families = [it for it in bench.families if it in asked and bench.parts.get(it, "") not in asked]
    # `kill PID` ends it as Ctrl-C does: with nothing left behind.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    measured = Measured()
    try:
        with bench.world() as world:
            for family in families:
                measured.add(family, partial(bench.families[family], world, options))
    except KeyboardInterrupt:
        pace.stop()
        say("interrupted")
        return INTERRUPTED
    except (BuildError, Unprepared) as error:
        sys.stderr.write(f"bench {name}: {error}\n")
        return 2
    finally:
        rows = bench.rows(Results(measured.results), options)
        if measured.results:
            _report(bench, rows, measured, options, given.out)
    has_failed = any(it.failures for it in measured.results if it.side == OURS)
    return int(has_failed or any(it.is_met is False for it in rows))


class Measured:
    """Grows as families are measured; `paces`: of the machine, at the start of each."""

    def __init__(self) -> None:
        self.results: list[Result] = []
        self.paces: dict[str, float] = {}

    def add(self, family: str, measure: Callable[[], Iterable[Result]]) -> None:
        """What does not come about is a failed run."""
        started_at = time.monotonic()
        self.paces[family] = pace_of_machine()
        try:
            # One by one: an interrupt leaves what came before it.
            for result in measure():
                self.results.append(result)
        except (AssertionError, pace.TookTooLong, ApiError, Unreachable) as error:
            say(f"{family} FAILED: {error}")
            self.results.append(Result(family, failures=[str(error)[:FAILURE]]))
        say(f"{family}: took {(time.monotonic() - started_at) / 60:.1f} min")


def _parser(name: str, bench: Bench[World]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m tools.bench {name}", description=bench.about)
    for option, (default, text) in bench.options.items():
        parser.add_argument(
            f"--{option}", type=type(default), default=default, help=f"{text} (%(default)g)"
        )
    parser.add_argument("--only", metavar="FAMILY,...", help=f"of {', '.join(bench.families)}")
    out = RESULTS / f"{name}.json"
    parser.add_argument("--out", type=Path, default=out, help="JSON (%(default)s)")
    return parser


def _report(
    bench: Bench[World], rows: Sequence[Row], measured: Measured, options: Options, out: Path
) -> None:
    """The table to standard output, everything to the file."""
    cores, load = os.cpu_count(), os.getloadavg()
    missed = [it for it in rows if it.is_met is False]
    judged = sum(it.is_met is not None for it in rows)
    paces = ", ".join(f"{family} {pace:.0f}" for family, pace in measured.paces.items())
    for line in (
        f"{table(rows, bench.heads)}\n",
        *bench.notes(measured.results),
        f"pace of the machine (ms for always the same): {paces}",
        f"load of the machine at the end: {', '.join(f'{it:.1f}' for it in load)} on {cores} cores",
        *(f"FAILED RUN {failure}" for failure in Results(measured.results).failures()),
        f"{judged - len(missed)} of {judged} targets reached",
    ):
        print(line)
    document = {
        "time": rfc3339.stamp_now(),
        "machine": {"cores": cores, "load": load, "os": platform.platform()},
        "python": platform.python_version(),
        "kubernetes": KUBERNETES_VERSION,
        "pace_ms": measured.paces,
        **bench.facts(),
        "options": {it: getattr(options, it) for it in bench.options},
        "rows": [dataclasses.asdict(it) for it in rows],
        "results": [dataclasses.asdict(it) for it in measured.results],
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(f"written to {out}")
