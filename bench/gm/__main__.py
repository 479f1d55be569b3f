"""python -m bench.gm [--runs 3] [--only burst,restart,...] [--seconds 30] [--out FILE]

Measures GM and LC on a real API server, prints a table and writes JSON. Leaves no process behind,
also after Ctrl-C. Exit status: 0 when all that was measured reached its target, 1 when not or when
a run failed, 130 after Ctrl-C.
"""

import argparse
import dataclasses
import json
import os
import platform
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench import pace
from bench.gm import crowd, datasets, failover, jobs, latency, storm
from bench.gm.result import Result, Results
from bench.gm.rows import Row, table
from bench.gm.targets import rows
from bench.gm.world import Options, World
from bench.process import pace_of_machine
from bench.progress import say
from kubeapi import ApiError, Unreachable
from tests.controlplane import sedna_kinds
from tests.controlplane.build import KUBERNETES_VERSION
from tests.controlplane.cluster import ControlPlane

ROOT = Path(__file__).parents[2]
INTERRUPTED = 130

FAMILIES: dict[str, Callable[[World, Options], list[Result]]] = {
    "burst": datasets.burst,
    "deleted": datasets.deletions,
    "restart": datasets.restarts,
    "statuses": datasets.statuses,
    "idle": datasets.idle,
    "lc-memory": datasets.memory,
    "jobs": jobs.rates,
    "jobs-lost": jobs.lost,
    "jobs-doubled": jobs.doubled,
    "crowd": crowd.crowd,
    "latency": latency.latencies,
    "failover": failover.failovers,
    "storm": storm.storms,
}


def main() -> int:
    arguments = _parser().parse_args()
    asked = list(FAMILIES) if arguments.only is None else arguments.only.split(",")
    options = Options(arguments.runs, arguments.seconds)
    if set(asked) - set(FAMILIES) or min(dataclasses.astuple(options)) <= 0:
        known = ", ".join(FAMILIES)
        _parser().error(f"--only {arguments.only}: there are {known}; numbers are above 0")
    # `kill PID` ends it as Ctrl-C does: with nothing left behind.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    results: list[Result] = []
    paces: dict[str, float] = {}
    try:
        _measure([name for name in FAMILIES if name in asked], options, results, paces)
    except KeyboardInterrupt:
        pace.stop()
        say("interrupted")
        return INTERRUPTED
    finally:
        found = rows(Results(results))
        if results:
            _report(found, results, options, paces, arguments.out)
    has_failed = any(result.failures for result in results)
    return int(has_failed or any(each.is_met is False for each in found))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.gm")
    parser.add_argument("--runs", type=int, default=3, help="of each measurement (3)")
    parser.add_argument("--only", metavar="FAMILY,...", help=f"of {', '.join(FAMILIES)}")
    parser.add_argument(
        "--seconds", type=float, default=30.0, help="of rest in which traffic is counted (30)"
    )
    out = ROOT / "bench" / "results" / "gm.json"
    parser.add_argument("--out", type=Path, default=out, help="JSON (%(default)s)")
    return parser


def _measure(
    families: list[str], options: Options, results: list[Result], paces: dict[str, float]
) -> None:
    """Adds to `results` as it goes, so that what was measured before an end is reported; what does
    not come about is a failed run."""
    with tempfile.TemporaryDirectory(prefix="edge-sidecars-bench-") as folder, ControlPlane() as it:
        sedna_kinds.install(it)
        with World(it, Path(folder)) as world:
            for family in families:
                started_at = time.monotonic()
                paces[family] = pace_of_machine()
                try:
                    results += FAMILIES[family](world, options)
                except (AssertionError, pace.TookTooLong, ApiError, Unreachable) as error:
                    say(f"{family} FAILED: {error}")
                    results.append(Result(family, failures=[str(error)[:2000]]))
                say(f"{family}: took {(time.monotonic() - started_at) / 60:.1f} min")


def _report(
    found: list[Row],
    results: list[Result],
    options: Options,
    paces: dict[str, float],
    out: Path,
) -> None:
    """The table to standard output, everything to the file."""
    print(table(found))
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    print(f"\nload of the machine at the end: {load} on {os.cpu_count()} cores")
    told = ", ".join(f"{family} {pace:.0f}" for family, pace in paces.items())
    print(f"pace of the machine (ms for always the same): {told}")
    print("figures of Sedna are the contract's: measured earlier, on a machine of this kind")
    print("references: a bare loop of the same writes; watches without a selector")
    failures = Results(results).failures()
    print("".join(f"FAILED RUN {failure}\n" for failure in failures), end="")
    missed = [each.what for each in found if each.is_met is False]
    judged = sum(each.is_met is not None for each in found)
    print(f"{judged - len(missed)} of {judged} targets reached")
    document = {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": {"cores": os.cpu_count(), "load": os.getloadavg(), "os": platform.platform()},
        "pace_ms": paces,
        "python": platform.python_version(),
        "kubernetes": KUBERNETES_VERSION,
        "options": dataclasses.asdict(options),
        "rows": [dataclasses.asdict(each) for each in found],
        "results": [dataclasses.asdict(each) for each in results],
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(f"written to {out}")


if __name__ == "__main__":
    sys.exit(main())
