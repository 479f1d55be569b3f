"""python -m tools.bench.pool [--runs 3] [--window SECONDS] [--nodes 10000] [--out FILE]

Measures members and the controller of pools on a real API server: gaps between renewals of a node
that is cut off, bytes on the lent link, memory, what 63 neighbours cost, and how long the pods of
a dead node are missed (as root: its nodes have networks of their own); prints a table and writes
JSON. Leaves no process behind, also after Ctrl-C. Exit status: 0 when all that was measured
reached its target, 1 when not, 130 after Ctrl-C.
"""

import argparse
import sys
from collections import defaultdict
from dataclasses import dataclass

from tools.bench.figures import columns, spread
from tools.bench.pool.crowd import cost, member_in_a_crowd
from tools.bench.pool.dead_node import replaced
from tools.bench.pool.many_nodes import controller_memory
from tools.bench.pool.one_stream import measured
from tools.bench.pool.three_nodes import Site, pool_plane, running_controller
from tools.bench.progress import say
from tools.bench.report import Report, report_file, run
from tools.bench.target import Target, at_most, never_above
from tools.nemesis.vip.network import NoNamespaces

GAP_CUT = "gap between renewals, link cut"
GAP_KILLED = "gap between renewals, lender killed"
LENT = "heartbeat on the lent link"
FIRST = "RSS of a member that made its key"
MEMBER = "RSS of a member, after a restart"
LAN = "LAN of a member, 64 members"
PROCESSOR = "processor of a member, 64 members"
CROWDED = "RSS of a member, 64 members"
CONTROLLER = "RSS of the controller"
WAN = "links' bytes of changes, pool of 5, by one relay's"
LIVE = "followers live again, hub killed"
LISTS = "their lists for it"
LED = "another hub, hub killed"
FED = "followers on the next hub, hub stopped"
REQUESTS = "their requests to the API server for it"
REPLACED = "a dead node's pods run elsewhere, 0 s for `dead`"
# Beside it.
REPLACED_PLAIN = "the same of a node in no pool"

# pool.md, section 1.
TARGETS: dict[str, tuple[str, Target, str]] = {
    GAP_CUT: ("s", never_above(20, "s"), "50 s of grace"),
    GAP_KILLED: ("s", never_above(20, "s"), "50 s of grace"),
    FIRST: ("MiB", never_above(48, "MiB"), "coordinator 370-590 MB a pool"),
    LENT: ("B/s", at_most(400, "B/s"), ""),
    MEMBER: ("MiB", never_above(48, "MiB"), "coordinator 370-590 MB a pool"),
    LAN: ("KB/s", at_most(40, "KB/s"), ""),
    PROCESSOR: ("%", at_most(4, "% of a core"), ""),
    CROWDED: ("MiB", never_above(48, "MiB"), ""),
    CONTROLLER: ("MiB", never_above(200, "MiB"), ""),
    WAN: ("", at_most(1.15), "5 without a pool"),
    LIVE: ("s", never_above(8, "s"), "YurtHub's leader hub: 40-50 s (its documents)"),
    LISTS: ("", never_above(0), ""),
    LED: ("s", never_above(21, "s"), ""),
    FED: ("s", never_above(4, "s"), ""),
    REQUESTS: ("", never_above(0), ""),
    REPLACED: ("s", never_above(75, "s"), ""),
}
PUBLISHED = (
    "not run beside: YurtCoordinator, an API server and etcd a pool (its documents); grace: "
    "kube-controller-manager's --node-monitor-grace-period"
)


@dataclass(frozen=True)
class Options:
    runs: int
    window: float
    nodes: int


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


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.pool")
    parser.add_argument("--runs", type=int, default=3, help="of each cut and kill (3)")
    parser.add_argument("--window", type=float, default=60.0, help="seconds of rest (60)")
    parser.add_argument("--nodes", type=int, default=10_000, help="of the controller (10000)")
    report_file(parser, "pool.json")
    arguments = parser.parse_args()
    options = Options(arguments.runs, arguments.window, arguments.nodes)
    if min(options.runs, options.window, options.nodes) <= 0:
        parser.error("numbers are above 0")
    values: defaultdict[str, list[float]] = defaultdict(list)
    return run(lambda: _measure(options, values), lambda: _report(values, options), arguments.out)


def _measure(options: Options, values: defaultdict[str, list[float]]) -> None:
    with pool_plane() as plane, running_controller(plane):
        with Site(plane) as site:
            values[FIRST] += site.memory()
            site.restart()
            for number in range(options.runs):
                say(f"a cut and a kill, run {number + 1} of {options.runs}")
                # Another one each time: one that was cut looks after its Lease for a minute more.
                node = site.nodes[number % len(site.nodes)]
                gap, lent = site.cut(node, window=options.window)
                values[GAP_CUT].append(gap)
                values[LENT].append(lent)
                values[GAP_KILLED].append(site.kill_lender(node))
                values[MEMBER] += site.memory()
                node.link.heal()
                site.wait_well()
        say("a pool of 64")
        with member_in_a_crowd(plane) as (real, crowd):
            say(f"{options.window:g} s of rest")
            found = cost(real, crowd, window=options.window)
        values[LAN].append(found.lan / 1000)
        values[PROCESSOR].append(found.processor)
        values[CROWDED].append(found.memory)
    with pool_plane() as plane, running_controller(plane):
        say("a pool of 5 that shares its streams")
        ratios, handed_over, lost = measured(plane, runs=options.runs, window=options.window)
        values[WAN] += ratios
        values[LIVE] += (it.live for it in lost)
        values[LISTS] += (it.lists for it in lost)
        values[LED] += (it.led for it in lost)
        values[FED] += (it.fed for it in handed_over)
        values[REQUESTS] += (it.requests for it in handed_over)
    try:
        for death in replaced(options.runs):
            values[REPLACED].append(death.kept)
            if death.plain is not None:
                values[REPLACED_PLAIN].append(death.plain)
    except NoNamespaces as error:
        say(f"no node dies: networks need root ({error})")
    with pool_plane() as plane, running_controller(plane) as pod:
        values[CONTROLLER] += controller_memory(plane, pod, options.nodes)


def _report(values: defaultdict[str, list[float]], options: Options) -> Report:
    units = {what: unit for what, (unit, _, _) in TARGETS.items()} | {REPLACED_PLAIN: "s"}
    results = [Measured(what, units[what], tuple(found)) for what, found in values.items()]
    rows = []
    for it in results:
        if it.what not in TARGETS:
            continue
        unit, target, beside = TARGETS[it.what]
        if it.what == REPLACED:
            beside = f"{spread(values[REPLACED_PLAIN], 's')} in no pool"
        what = f"{it.what}, {options.nodes} nodes" if it.what == CONTROLLER else it.what
        is_met = target.is_reached(it.values)
        rows.append(Row(what, spread(it.values, unit), beside, target.text, is_met))
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
        facts={"members": 3, "kubelet_renews": 10.0},
    )


if __name__ == "__main__":
    sys.exit(main())
