"""python -m tools.bench.shards [--runs 5] [--window SECONDS] [--out FILE]

Measures electors with 64 shards on a real API server, beside one elector without shards in the
same run; prints a table and writes JSON. Leaves no process behind, also after Ctrl-C. Exit status:
0 when all that was measured reached its target, 1 when not, 130 after Ctrl-C.
"""

import argparse
import sys
import time
from dataclasses import dataclass
from statistics import quantiles

from tools.bench.figures import columns, spread
from tools.bench.progress import say
from tools.bench.report import Report, report_file, run
from tools.bench.shards.moves import DEFAULTS, requests, scale_up, unowned_after
from tools.bench.target import Target, at_most, never_above
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.elector import ElectorPod
from tools.harness.pods.fleet import Fleet
from tools.harness.pods.shards.sharded import ShardedFleet, owned
from tools.harness.pods.wire.http_client import resident

SHARDS = 64
LEASE_DURATION = 15.0
# Asked one after the other, so that each answer has the machine to itself.
QUESTIONS = 2000
# By its documents and its source: an object that moves is written by the sharder (to drain it) and
# by the shard that lets it go; a Lease is taken once it has been over for its duration again.
PUBLISHED = (
    "not run beside: kubernetes-controller-sharding, two writes per moved object (0 here), a "
    "killed member's objects with an owner 2 L after its last renewal (L + 0.5 s here)"
)


@dataclass(frozen=True)
class Options:
    runs: int
    window: float


@dataclass(frozen=True)
class Row:
    what: str
    measured: str
    beside: str
    target: str
    is_met: bool | None


@dataclass(frozen=True)
class Measured:
    what: str
    unit: str
    values: tuple[float, ...]
    beside: str = ""


TARGETS: dict[str, Target] = {
    "SIGTERM of a member: until all is owned": never_above(0.3, "s"),
    "scale-up, the main confirms": never_above(0.3, "s"),
    "scale-up, the main never confirms": never_above(0.95 * LEASE_DURATION + 0.3, "s"),
    "SIGKILL of a member: until all is owned": never_above(LEASE_DURATION + 0.5 + 2.0, "s"),
    "moves, 3 to 4 members of 64 shards": never_above(16),
    "moves at rest": never_above(0),
    "requests a minute and member at rest": at_most(32),
    "requests a minute of all more than of as many without shards": never_above(30),
    "/owns, p99": at_most(5, "ms"),
    "RSS more than without shards": at_most(3, "MiB"),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.shards")
    parser.add_argument("--runs", type=int, default=5, help="of each change of members (5)")
    parser.add_argument("--window", type=float, default=60.0, help="seconds of rest (60)")
    report_file(parser, "shards.json")
    arguments = parser.parse_args()
    options = Options(arguments.runs, arguments.window)
    if options.runs < 0 or options.window <= 0:
        parser.error("--runs is not below 0, --window above")
    results: list[Measured] = []
    return run(lambda: _measure(options, results), lambda: _report(results, options), arguments.out)


def _measure(options: Options, results: list[Measured]) -> None:
    with ControlPlane() as plane:
        values: dict[str, list[float]] = {}
        for number in range(options.runs):
            say(f"changes of members, run {number + 1} of {options.runs}")
            with ShardedFleet(plane, plane.create_namespace(), shards=SHARDS) as fleet:
                fleet.create_empty_lease()
                _changes(fleet, values)
        results += [
            Measured(what, "" if what.startswith("moves") else "s", tuple(found))
            for what, found in values.items()
        ]
        with (
            ShardedFleet(plane, plane.create_namespace(), shards=SHARDS) as fleet,
            Fleet(plane, plane.create_namespace()) as singles,
        ):
            fleet.create_empty_lease()
            singles.create_empty_lease()
            single = singles.add(timing=DEFAULTS)
            pods = fleet.spread(3, timing=DEFAULTS)
            results += _at_rest(fleet, pods, single, options.window)


def _changes(fleet: ShardedFleet, values: dict[str, list[float]]) -> None:
    def add(what: str, value: float) -> None:
        values.setdefault(what, []).append(value)

    pods = fleet.spread(3, timing=DEFAULTS)
    found = scale_up(fleet, pods, confirms=True)
    add("scale-up, the main confirms", found["seconds"])
    add("moves, 3 to 4 members of 64 shards", found["moved"])
    pods = list(fleet.pods)
    leaving = pods.pop()
    add(
        "SIGTERM of a member: until all is owned",
        unowned_after(leaving.terminate, leaving, pods, SHARDS),
    )
    found = scale_up(fleet, pods, confirms=False)
    add("scale-up, the main never confirms", found["seconds"])
    pods = [pod for pod in fleet.pods if pod.is_running]
    killed = pods.pop()
    add("SIGKILL of a member: until all is owned", unowned_after(killed.kill, killed, pods, SHARDS))


def _at_rest(
    fleet: ShardedFleet, pods: list[ElectorPod], single: ElectorPod, window: float
) -> list[Measured]:
    say(f"{window:g} s of rest")
    counted = [requests(pod) for pod in (*pods, single)]
    sequence = fleet.table()["sequence"]
    time.sleep(window)
    rates = [
        (requests(pod) - before) * 60 / window
        for pod, before in zip((*pods, single), counted, strict=True)
    ]
    moved = float(fleet.table()["sequence"] - sequence)
    say("/owns")
    memory = [resident(pod) / 1024 for pod in (*pods, single)]
    return [
        Measured("moves at rest", "", (moved,)),
        Measured(
            "requests a minute and member at rest", "", tuple(rates[:-1]), f"{rates[-1]:.0f} alone"
        ),
        Measured(
            "requests a minute of all more than of as many without shards",
            "",
            (sum(rates[:-1]) - len(pods) * rates[-1],),
        ),
        Measured(
            "/owns, p99", "ms", (_p99(pods[0], "/owns"),), f"{_p99(single, '/readyz'):.1f} /readyz"
        ),
        Measured(
            "RSS more than without shards",
            "MiB",
            tuple(each - memory[-1] for each in memory[:-1]),
            f"{memory[-1]:.1f} alone",
        ),
    ]


def _p99(pod: ElectorPod, path: str) -> float:
    """Milliseconds, each over a connection of its own."""
    mine = owned(pod)[0] if path == "/owns" else 0
    taken = []
    for _ in range(QUESTIONS):
        answer = pod.ask(f"{path}?shard={mine}" if path == "/owns" else path)
        if answer is None or answer.status != 200:
            raise AssertionError(f"{path} of {pod.name}: {answer}")
        taken.append((answer.received - answer.sent) * 1000)
    return quantiles(taken, n=100)[98]


def _report(results: list[Measured], options: Options) -> Report:
    rows = []
    for it in results:
        target = TARGETS[it.what]
        is_met = target.is_reached(it.values)
        rows.append(Row(it.what, spread(it.values, it.unit), it.beside, target.text, is_met))
    header = ("what", "measured", "beside", "target", "")
    lines = [(r.what, r.measured, r.beside, r.target, "ok" if r.is_met else "MISSED") for r in rows]
    return Report(
        table=columns(header, lines),
        rows=rows,
        results=results,
        options=options,
        failures=(),
        has_failed=False,
        notes=(PUBLISHED,),
        facts={"shards": SHARDS, "lease_duration": LEASE_DURATION},
    )


if __name__ == "__main__":
    sys.exit(main())
