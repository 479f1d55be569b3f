"""python -m bench.elector [--runs 10] [--only takeover,cost,...] [--out FILE] [--window SECONDS]

Measures elector-sidecar beside client-go 0.36 on a real API server, prints a table and writes
JSON. Leaves no process behind, also after Ctrl-C. Exit status: 0 when all that was measured
reached its target, 1 when not or when a run of ours failed, 130 after Ctrl-C.
"""

import argparse
import dataclasses
import json
import os
import platform
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from bench import pace
from bench.elector import cost, frozen, lease_edits, outage, readyz, startup, takeover
from bench.elector.install import ROOT, install
from bench.elector.poller import Poller
from bench.elector.rows import Results, Row, table
from bench.elector.scenario import Result, Scenario, play_beside
from bench.elector.side import OURS, World
from bench.elector.targets import rows
from bench.progress import say
from tests.controlplane.cluster import ControlPlane
from tests.peers.build import candidate_binary, client_go_version

CLIENT_GO = "0.36"
INTERRUPTED = 130
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
    arguments = _parser().parse_args()
    families = list(FAMILIES) if arguments.only is None else arguments.only.split(",")
    unknown = [family for family in families if family not in FAMILIES]
    if unknown or arguments.runs < 1 or arguments.window <= 0:
        known = ", ".join(FAMILIES)
        _parser().error(f"--only {arguments.only}: there are {known}; --runs and --window above 0")
    # `kill PID` ends it as Ctrl-C does: with nothing left behind.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    options = Options(arguments.runs, arguments.window)
    results: list[Result] = []
    try:
        _measure(families, options, results)
    except KeyboardInterrupt:
        pace.stop()
        say("interrupted")
        return INTERRUPTED
    finally:
        found = rows(Results(results))
        if results:
            _report(found, results, options, arguments.out)
    has_failed = any(result.failures for result in results if result.side == OURS)
    return int(has_failed or any(each.is_met is False for each in found))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.elector")
    parser.add_argument("--runs", type=int, default=10, help="of each fault and start (10)")
    parser.add_argument("--only", metavar="FAMILY,...", help=f"of {', '.join(FAMILIES)}")
    out = ROOT / "bench" / "results" / "elector.json"
    parser.add_argument("--out", type=Path, default=out, help="JSON (%(default)s)")
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


def _report(found: list[Row], results: list[Result], options: Options, out: Path) -> None:
    """The table to standard output, everything to the file."""
    print(table(found))
    beside = dict.fromkeys(
        f"{result.beside}"
        + (f" (polled every {result.poll_interval * 1000:g} ms)" if result.poll_interval else "")
        for result in results
    )
    print("\nmeasured beside each other, in this order:")
    print("".join(f"  {line}\n" for line in beside), end="")
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    print(f"load of the machine at the end: {load} on {os.cpu_count()} cores")
    failures = Results(results).failures()
    print("".join(f"FAILED RUN {failure}\n" for failure in failures), end="")
    missed = [each.what for each in found if each.is_met is False]
    judged = sum(each.is_met is not None for each in found)
    print(f"\n{judged - len(missed)} of {judged} targets reached")
    document = {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": {"cores": os.cpu_count(), "load": os.getloadavg(), "os": platform.platform()},
        "python": platform.python_version(),
        "client_go": client_go_version(CLIENT_GO),
        "timings": TIMINGS,
        "options": dataclasses.asdict(options),
        "rows": [dataclasses.asdict(each) for each in found],
        "results": [dataclasses.asdict(each) for each in results],
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(f"written to {out}")


if __name__ == "__main__":
    sys.exit(main())
