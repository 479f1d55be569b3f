"""Electors with 64 shards on a real API server, beside one without shards in the same run."""

import time
from collections.abc import Mapping
from statistics import quantiles

from tools.bench.progress import say
from tools.bench.runner import Bench, Options
from tools.bench.samples import REFERENCE, Result, Results
from tools.bench.shards.moves import DEFAULTS, requests, scale_up, unowned_after
from tools.bench.table import Heads, Row, row
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


# Those that `changes` measures; the others are of `rest`.
CHANGES: dict[str, Target] = {
    "SIGTERM of a member: until all is owned": never_above(0.3, "s"),
    "scale-up, the main confirms": never_above(0.3, "s"),
    "scale-up, the main never confirms": never_above(0.95 * LEASE_DURATION + 0.3, "s"),
    "SIGKILL of a member: until all is owned": never_above(LEASE_DURATION + 0.5 + 2.0, "s"),
    "moves, 3 to 4 members of 64 shards": never_above(16),
}
REST: dict[str, tuple[str, Target]] = {
    "moves at rest": ("", never_above(0)),
    "requests a minute and member at rest": ("", at_most(32)),
    "requests a minute of all more than of as many without shards": ("", never_above(30)),
    "/owns, p99": ("ms", at_most(5, "ms")),
    "RSS more than without shards": ("MiB", at_most(3, "MiB")),
}


def _changes(plane: ControlPlane, options: Options) -> list[Result]:
    results = {what: Result(what) for what in CHANGES}
    for number in range(options.runs):
        say(f"changes of members, run {number + 1} of {options.runs}")
        with ShardedFleet(plane, plane.create_namespace(), shards=SHARDS) as fleet:
            fleet.create_empty_lease()
            _change(fleet, results)
    return list(results.values())


def _change(fleet: ShardedFleet, results: Mapping[str, Result]) -> None:
    def add(what: str, value: float) -> None:
        results[what].samples.append({"value": value})

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


def _rest(plane: ControlPlane, options: Options) -> list[Result]:
    with (
        ShardedFleet(plane, plane.create_namespace(), shards=SHARDS) as fleet,
        Fleet(plane, plane.create_namespace()) as singles,
    ):
        fleet.create_empty_lease()
        singles.create_empty_lease()
        single = singles.add(timing=DEFAULTS)
        pods = fleet.spread(3, timing=DEFAULTS)
        return _at_rest(fleet, pods, single, options.window)


def _at_rest(
    fleet: ShardedFleet, pods: list[ElectorPod], single: ElectorPod, window: float
) -> list[Result]:
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
    found = {
        "moves at rest": ([moved], None),
        "requests a minute and member at rest": (rates[:-1], rates[-1]),
        "requests a minute of all more than of as many without shards": (
            [sum(rates[:-1]) - len(pods) * rates[-1]],
            None,
        ),
        "/owns, p99": ([_p99(pods[0], "/owns")], _p99(single, "/readyz")),
        "RSS more than without shards": ([it - memory[-1] for it in memory[:-1]], memory[-1]),
    }
    results = []
    for what, (values, beside) in found.items():
        results.append(Result(what, samples=[{"value": it} for it in values]))
        if beside is not None:
            results.append(Result(what, REFERENCE, [{"value": beside}]))
    return results


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


def _rows(results: Results, options: Options) -> list[Row]:
    judged = {it: ("" if it.startswith("moves") else "s", CHANGES[it]) for it in CHANGES} | REST
    return [
        row(what, unit, *results.pair(what, "value"), target=target, is_paired=False)
        for what, (unit, target) in judged.items()
        if results.has(what)
    ]


BENCH = Bench(
    about=__doc__ or "",
    options={"runs": (5, "of each change of members"), "window": (60.0, "seconds of rest")},
    families={"changes": _changes, "rest": _rest},
    world=ControlPlane,
    rows=_rows,
    heads=Heads("measured", "without shards"),
    notes=lambda results: [PUBLISHED],
    facts=lambda: {"shards": SHARDS, "lease_duration": LEASE_DURATION},
)
