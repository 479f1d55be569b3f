"""What every benchmark does around its measuring: choosing families, an end by signal, the report.

Knows no measurement. Guarantees: what was measured before an end is reported, and Ctrl-C or
`kill PID` leave nothing behind. Exit status: 0 when every target was reached, 1 when one was not or
a run of ours failed, 130 after a signal.
"""

import argparse
import dataclasses
import json
import os
import platform
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol

from edge_sidecars.runtime.formats import rfc3339
from tools.bench import pace
from tools.bench.progress import say

ROOT = Path(__file__).parents[2]
INTERRUPTED = 130


class Record(Protocol):
    """Any dataclass."""

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]


class Row(Record, Protocol):
    """A line of the table; `is_met` None: it has no target."""

    @property
    def what(self) -> str: ...
    @property
    def is_met(self) -> bool | None: ...


@dataclasses.dataclass(frozen=True)
class Report:
    """`notes` are lines below the table, `facts` go into the file beside rows and results;
    `has_failed`: a run of ours did."""

    table: str
    rows: Sequence[Row]
    results: Sequence[Record]
    options: Record
    failures: Sequence[str]
    has_failed: bool
    notes: Sequence[str]
    facts: Mapping[str, object]

    def tell(self, out: Path) -> None:
        """The table to standard output, everything to the file."""
        load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
        missed = [each.what for each in self.rows if each.is_met is False]
        judged = sum(each.is_met is not None for each in self.rows)
        for line in (
            f"{self.table}\n",
            *self.notes,
            f"load of the machine at the end: {load} on {os.cpu_count()} cores",
            *(f"FAILED RUN {failure}" for failure in self.failures),
            f"{judged - len(missed)} of {judged} targets reached",
        ):
            print(line)
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(self._document(), indent=1) + "\n", encoding="utf-8")
        print(f"written to {out}")

    def _document(self) -> dict[str, object]:
        cores, load = os.cpu_count(), os.getloadavg()
        return {
            "time": rfc3339.stamp_now(),
            "machine": {"cores": cores, "load": load, "os": platform.platform()},
            "python": platform.python_version(),
            **self.facts,
            "options": dataclasses.asdict(self.options),
            "rows": [dataclasses.asdict(each) for each in self.rows],
            "results": [dataclasses.asdict(each) for each in self.results],
        }


def chosen(
    parser: argparse.ArgumentParser,
    only: str | None,
    *,
    families: Iterable[str],
    options: Record,
) -> list[str]:
    """Of the families those that are asked for, in their own order. Ends the process where `only`
    names another one, or an option is not above 0."""
    known = list(families)
    asked = known if only is None else only.split(",")
    if set(asked) - set(known) or min(dataclasses.astuple(options)) <= 0:
        parser.error(f"--only {only}: there are {', '.join(known)}; numbers are above 0")
    return [name for name in known if name in asked]


def report_file(parser: argparse.ArgumentParser, name: str) -> None:
    """Adds --out."""
    out = ROOT / "tools" / "bench" / "results" / name
    parser.add_argument("--out", type=Path, default=out, help="JSON (%(default)s)")


def run(measure: Callable[[], None], report: Callable[[], Report], out: Path) -> int:
    """The exit status."""
    # `kill PID` ends it as Ctrl-C does: with nothing left behind.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        measure()
    except KeyboardInterrupt:
        pace.stop()
        say("interrupted")
        return INTERRUPTED
    finally:
        found = report()
        if found.results:
            found.tell(out)
    return int(found.has_failed or any(each.is_met is False for each in found.rows))
