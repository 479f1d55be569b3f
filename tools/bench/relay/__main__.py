"""python -m tools.bench.relay [--runs 3] [--only list,watch,...] [--seconds 5] [--out FILE]

Measures relay-sidecar beside the kube-apiserver that it stands for, prints a table and writes
JSON. Leaves no process behind, also after Ctrl-C. Exit status: 0 when all that was measured
reached its target, 1 when not or when a run failed, 130 after Ctrl-C.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tools.bench.process import pace_of_machine
from tools.bench.progress import say
from tools.bench.relay.result import RELAY, Result, Results
from tools.bench.relay.rows import table
from tools.bench.relay.scenarios import (
    beside,
    fanout,
    many,
    memory,
    offline,
    reads,
    recovery,
    shards,
    sharing,
    slow,
    start,
)
from tools.bench.relay.targets import rows
from tools.bench.relay.world import Options, World
from tools.bench.report import Report, chosen, report_file, run
from tools.harness.controlplane.build import KUBERNETES_VERSION
from tools.harness.controlplane.cluster import ControlPlane

FAMILIES: dict[str, Callable[[World, Options], list[Result]]] = {
    "list": reads.lists,
    "get": reads.gets,
    "newest": reads.newest,
    "caller": reads.of_callers,
    "beside": beside.beside,
    "shards": shards.shards,
    "watch": fanout.watches,
    # Part of watch: alone where only this is asked for.
    "cpu": fanout.cpu,
    "sharing": sharing.sharing,
    "memory": memory.memories,
    "start": start.starts,
    "offline": offline.answers_while_cut,
    "recovery": recovery.recoveries,
    "many": many.many_streams,
    "slow": slow.slow_reader,
}


def main() -> int:
    parser = _parser()
    arguments = parser.parse_args()
    options = Options(arguments.runs, arguments.seconds, arguments.cut, arguments.events)
    families = chosen(parser, arguments.only, families=FAMILIES, options=options)
    if "watch" in families and "cpu" in families:
        families.remove("cpu")
    results: list[Result] = []
    paces: dict[str, float] = {}
    return run(
        lambda: _measure(families, options, results, paces),
        lambda: _report(results, options, paces),
        arguments.out,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.relay")
    parser.add_argument("--runs", type=int, default=3, help="of each measurement (3)")
    parser.add_argument("--only", metavar="FAMILY,...", help=f"of {', '.join(FAMILIES)}")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each load (5)")
    parser.add_argument("--cut", type=float, default=60.0, help="seconds without link (60)")
    parser.add_argument(
        "--events", type=int, default=20_000, help="that the slow reader leaves unread (20000)"
    )
    report_file(parser, "relay.json")
    return parser


def _measure(
    families: list[str], options: Options, results: list[Result], paces: dict[str, float]
) -> None:
    """Adds to `results` as it goes, so that what was measured before an end is reported."""
    with tempfile.TemporaryDirectory(prefix="edge-sidecars-bench-") as folder, ControlPlane() as it:
        world = World(it, Path(folder))
        for family in families:
            started_at = time.monotonic()
            paces[family] = pace_of_machine()
            results += FAMILIES[family](world, options)
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
        has_failed=any(result.failures for result in results if result.side == RELAY),
        notes=[
            f"pace of the machine (ms for always the same): {told}",
            "figures of peers were measured earlier, on a machine of this kind",
        ],
        facts={"pace_ms": paces, "kubernetes": KUBERNETES_VERSION},
    )


if __name__ == "__main__":
    sys.exit(main())
