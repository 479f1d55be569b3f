"""python -m tools.bench.gm [--runs 3] [--only burst,restart,...] [--seconds 30] [--out FILE]

Measures GM and LC on a real API server, prints a table and writes JSON. Leaves no process behind,
also after Ctrl-C. Exit status: 0 when all that was measured reached its target, 1 when not or when
a run failed, 130 after Ctrl-C.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from edge_sidecars.kubeapi import ApiError, Unreachable
from tools.bench import pace
from tools.bench.gm.result import Result, Results
from tools.bench.gm.rows import table
from tools.bench.gm.scenarios import (
    crowd,
    datasets,
    failover,
    jobs,
    latency,
    reconnect,
    shards,
    storm,
)
from tools.bench.gm.targets import rows
from tools.bench.gm.world import Options, World
from tools.bench.process import pace_of_machine
from tools.bench.progress import say
from tools.bench.report import Report, chosen, report_file, run
from tools.harness.controlplane.build import KUBERNETES_VERSION
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.schemas import sedna_kinds

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
    "shards": shards.shares,
    "crowd": crowd.crowd,
    "latency": latency.latencies,
    "failover": failover.failovers,
    "reconnect": reconnect.reconnects,
    "storm": storm.storms,
}


def main() -> int:
    parser = _parser()
    arguments = parser.parse_args()
    options = Options(arguments.runs, arguments.seconds)
    families = chosen(parser, arguments.only, families=FAMILIES, options=options)
    results: list[Result] = []
    paces: dict[str, float] = {}
    return run(
        lambda: _measure(families, options, results, paces),
        lambda: _report(results, options, paces),
        arguments.out,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.gm")
    parser.add_argument("--runs", type=int, default=3, help="of each measurement (3)")
    parser.add_argument("--only", metavar="FAMILY,...", help=f"of {', '.join(FAMILIES)}")
    parser.add_argument(
        "--seconds", type=float, default=30.0, help="of rest in which traffic is counted (30)"
    )
    report_file(parser, "gm.json")
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


def _report(results: list[Result], options: Options, paces: dict[str, float]) -> Report:
    found = rows(Results(results))
    told = ", ".join(f"{family} {pace:.0f}" for family, pace in paces.items())
    return Report(
        table(found),
        found,
        results,
        options,
        failures=Results(results).failures(),
        has_failed=any(result.failures for result in results),
        notes=[
            f"pace of the machine (ms for always the same): {told}",
            "figures of Sedna are the contract's: measured earlier, on a machine of this kind",
            "references: a bare loop of the same writes; one leader; watches without a selector",
        ],
        facts={"pace_ms": paces, "kubernetes": KUBERNETES_VERSION},
    )


if __name__ == "__main__":
    sys.exit(main())
