"""Members and the controller of pools: gaps between renewals of a node that is cut off, bytes on
the lent link, memory, what 63 neighbours cost, and how long the pods of a dead node are missed (as
root: its nodes have networks of their own)."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext

from tools.bench import pages
from tools.bench.figures import spread
from tools.bench.pool.crowd import cost, member_in_a_crowd
from tools.bench.pool.dead_node import replaced
from tools.bench.pool.many_nodes import controller_memory
from tools.bench.pool.one_stream import measured
from tools.bench.pool.three_nodes import Site, pool_plane, running_controller
from tools.bench.progress import say
from tools.bench.runner import Bench, Options
from tools.bench.samples import Result, Results
from tools.bench.table import Heads, Row, row
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


def _results(values: Mapping[str, Iterable[float]]) -> list[Result]:
    return [
        Result(what, samples=[{"value": each} for each in found]) for what, found in values.items()
    ]


def _cut(world: None, options: Options) -> list[Result]:
    """Three nodes: a link is cut, then the lender is killed."""
    values: defaultdict[str, list[float]] = defaultdict(list)
    with pool_plane() as plane, running_controller(plane), Site(plane) as site:
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
    return _results(values)


def _crowd(world: None, options: Options) -> list[Result]:
    with pool_plane() as plane, running_controller(plane):
        say("a pool of 64")
        with member_in_a_crowd(plane) as (real, crowd):
            say(f"{options.window:g} s of rest")
            found = cost(real, crowd, window=options.window)
    memory = [found.memory]
    return _results({LAN: [found.lan / 1000], PROCESSOR: [found.processor], CROWDED: memory})


def _streams(world: None, options: Options) -> list[Result]:
    with pool_plane() as plane, running_controller(plane):
        say("a pool of 5 that shares its streams")
        ratios, handed_over, lost = measured(plane, runs=options.runs, window=options.window)
    return _results(
        {
            WAN: ratios,
            LIVE: [it.live for it in lost],
            LISTS: [it.lists for it in lost],
            LED: [it.led for it in lost],
            FED: [it.fed for it in handed_over],
            REQUESTS: [it.requests for it in handed_over],
        }
    )


def _dead(world: None, options: Options) -> Iterator[Result]:
    try:
        deaths = list(replaced(options.runs))
    except NoNamespaces as error:
        say(f"no node dies: networks need root ({error})")
        return
    plain = [it.plain for it in deaths if it.plain is not None]
    yield from _results({REPLACED: [it.kept for it in deaths], REPLACED_PLAIN: plain})


def _controller(world: None, options: Options) -> list[Result]:
    with pool_plane() as plane, running_controller(plane) as pod:
        return _results({CONTROLLER: controller_memory(plane, pod, options.nodes)})


def _pages(world: None, options: Options) -> Iterator[Result]:
    """Of a member that hears two others, and of the controller that leads."""
    with pool_plane() as plane, running_controller(plane) as pod, Site(plane) as site:
        found = [pages.cost(it.member.pid, it.member.port, "pool") for it in site.nodes]
        yield pages.result("a member", found)
        controller = pod.controller
        yield pages.result("the controller", [pages.cost(controller.pid, controller.port, "pool")])


def _rows(results: Results, options: Options) -> Iterator[Row]:
    for what, (unit, target, peers) in TARGETS.items():
        if not results.has(what):
            continue
        if what == REPLACED:
            peers = f"{spread(results.values(REPLACED_PLAIN, 'value'), 's')} in no pool"
        told = f"{what}, {options.nodes} nodes" if what == CONTROLLER else what
        yield row(told, unit, results.values(what, "value"), peers=peers, target=target)
    yield from pages.rows(results)


BENCH = Bench(
    about=__doc__ or "",
    options={
        "runs": (3, "of each cut and kill"),
        "window": (60.0, "seconds of rest"),
        "nodes": (10_000, "of the controller"),
    },
    families={
        "cut": _cut,
        "crowd": _crowd,
        "streams": _streams,
        "dead": _dead,
        "controller": _controller,
        "pages": _pages,
    },
    world=nullcontext,
    rows=lambda results, options: list(_rows(results, options)),
    heads=Heads("measured", peers="beside"),
    notes=lambda results: [PUBLISHED],
    facts=lambda: {"members": 3, "kubelet_renews": 10.0},
)
