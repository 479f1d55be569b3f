"""python -m tools.bench.elector [--runs 10] [--only takeover,...] [--out FILE] [--window SECONDS]

Measures elector-sidecar beside client-go 0.36 on a real API server, prints a table and writes
JSON. Leaves no process behind, also after Ctrl-C. Exit status: 0 when all that was measured
reached its target, 1 when not or when a run of ours failed, 130 after Ctrl-C.
"""

import argparse
import dataclasses
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from tools.bench.elector.install import install
from tools.bench.elector.poller import Poller
from tools.bench.elector.rows import Results, table
from tools.bench.elector.scenarios import (
    cost,
    frozen,
    lease_edits,
    outage,
    readyz,
    startup,
    takeover,
)
from tools.bench.elector.scenarios.scenario import Result, Scenario, play_beside
from tools.bench.elector.side import OURS, World
from tools.bench.elector.targets import rows
from tools.bench.progress import say
from tools.bench.report import Report, chosen, report_file, run
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.peers.build import candidate_binary, client_go_version

CLIENT_GO = "0.36"
TIMINGS = {
    "elector-sidecar": "lease 15 s, renewal every 2 s, request time-out 3 s (defaults)",
    "client-go": "lease 15 s, renew deadline 10 s, retry period 2 s (defaults)",
}


@dataclasses.dataclass(frozen=True)
class Options:
    runs: int
    window: float


def _played(*groups: tuple[Scenario, ...]) -> Callable[[World, Options], list[Result]]:
    """Groups one after the other; the scenarios of a group beside each other."""

    def play(world: World, options: Options) -> list[Result]:
        results = []
        for group in groups:
            results += play_beside(world, group, runs=options.runs)
        return results

    return play


FAMILIES: dict[str, Callable[[World, Options], list[Result]]] = {
    "startup": lambda world, options: startup.startups(world, runs=options.runs),
    "readyz": lambda world, options: readyz.latencies(world),
    "cost": lambda world, options: cost.steady_state(world, window=options.window),
    "crowd": lambda world, options: cost.crowd(world, window=options.window),
    "term": _played(takeover.TERM, takeover.MAIN),
    "takeover": _played(takeover.EXPIRY),
    "outage": _played((*outage.OUTAGES, lease_edits.ORPHANED)),
    "lease": _played(lease_edits.EDITS),
    "frozen": _played(frozen.FROZEN),
}


def main() -> int:
    parser = _parser()
    arguments = parser.parse_args()
    options = Options(arguments.runs, arguments.window)
    families = chosen(parser, arguments.only, families=FAMILIES, options=options)
    results: list[Result] = []
    return run(
        lambda: _measure(families, options, results),
        lambda: _report(results, options),
        arguments.out,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.elector")
    parser.add_argument("--runs", type=int, default=10, help="of each fault and start (10)")
    parser.add_argument("--only", metavar="FAMILY,...", help=f"of {', '.join(FAMILIES)}")
    report_file(parser, "elector.json")
    parser.add_argument(
        "--window", type=float, default=120.0, help="seconds of rest measured for cost (120)"
    )
    return parser


def _measure(families: list[str], options: Options, results: list[Result]) -> None:
    """Adds to `results` as it goes, so that what was measured before an end is reported."""
    candidate = candidate_binary(CLIENT_GO)
    with tempfile.TemporaryDirectory(prefix="edge-sidecars-bench-") as folder, ControlPlane() as it:
        say("installing the sidecar as an image would have it")
        sidecar = install(Path(folder))
        idle = Poller(interval=1.0)
        world = World(it, idle, sidecar, candidate, threading.Lock())
        for family in families:
            started_at = time.monotonic()
            results += FAMILIES[family](world, options)
            say(f"{family}: took {(time.monotonic() - started_at) / 60:.1f} min")


def _report(results: list[Result], options: Options) -> Report:
    found = rows(Results(results))
    beside = dict.fromkeys(
        f"{result.beside}"
        + (f" (polled every {result.poll_interval * 1000:g} ms)" if result.poll_interval else "")
        for result in results
    )
    return Report(
        table(found),
        found,
        results,
        options,
        failures=Results(results).failures(),
        has_failed=any(result.failures for result in results if result.side == OURS),
        notes=["measured beside each other, in this order:", *(f"  {each}" for each in beside)],
        facts={"client_go": client_go_version(CLIENT_GO), "timings": TIMINGS},
    )


if __name__ == "__main__":
    sys.exit(main())
