"""python -m tools.bench.node [--runs 5] [--seconds 600] [--only reboot,heal,rest] [--out FILE]

Measures nodes behind relays with real kubelets, prints a table and writes JSON. Needs what
`make test-node` needs. Leaves nothing behind, also after Ctrl-C. Exit status: 0 when all that was
measured reached its target, 1 when not or when a run failed, 2 with one line where a program or the
Docker engine is missing, 130 after Ctrl-C.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tools.bench.node.families import Options, Result, failures, heals, reboots, rest
from tools.bench.node.rows import rows, table
from tools.bench.progress import say
from tools.bench.report import Report, chosen, report_file, run
from tools.harness.containers.engine.engine import NoEngine, engine
from tools.harness.containers.engine.lab import DockerLab
from tools.harness.controlplane.build import BuildError
from tools.harness.nodes.cluster import NodeCluster
from tools.harness.nodes.programs import versions
from tools.images.base import NoBase, base_image

FAMILIES: dict[str, Callable[[NodeCluster, Options], Result]] = {
    "reboot": reboots,
    "heal": heals,
    "rest": rest,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.node")
    parser.add_argument("--runs", type=int, default=5, help="reboots, and cuts (5)")
    parser.add_argument("--seconds", type=float, default=600.0, help="of rest (600)")
    parser.add_argument("--only", metavar="FAMILY,...", help=f"of {', '.join(FAMILIES)}")
    report_file(parser, "node.json")
    arguments = parser.parse_args()
    options = Options(arguments.runs, arguments.seconds)
    families = chosen(parser, arguments.only, families=FAMILIES, options=options)
    results: list[Result] = []
    try:
        return run(
            lambda: _measure(families, options, results),
            lambda: _report(results, options),
            arguments.out,
        )
    except (BuildError, NoBase, NoEngine) as error:
        print(f"bench-node: {error}", file=sys.stderr)
        return 2


def _measure(families: list[str], options: Options, results: list[Result]) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="edge-sidecars-bench-") as folder,
        engine() as client,
        DockerLab(client, base=base_image(client)) as docker_lab,
        NodeCluster(client, docker_lab, Path(folder)) as cluster,
    ):
        cluster.install_relays()
        cluster.apply_workloads()
        for family in families:
            try:
                results.append(FAMILIES[family](cluster, options))
            except AssertionError as error:
                say(f"{family} FAILED: {error}")
                results.append(Result(family, failures=[str(error)[:2000]]))


def _report(results: list[Result], options: Options) -> Report:
    found = rows(results)
    return Report(
        table(found),
        found,
        results,
        options,
        failures=failures(results),
        has_failed=any(it.failures for it in results),
        notes=["figures of the peers are told: measured earlier, on a machine of this kind"],
        facts=dict(versions()),
    )


if __name__ == "__main__":
    sys.exit(main())
