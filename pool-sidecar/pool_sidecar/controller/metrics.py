"""What is measured about the controller, computed at the scrape."""

from collections.abc import Callable, Sequence

from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.metrics import Kind, Metric, counter, gauge
from pool_sidecar.controller.controller import Controller
from pool_sidecar.core.controller.pool_controller import PoolCount


def measure(controller: Controller) -> list[Metric]:
    counts, leader = tuple(controller.core.counts(boottime())), controller.leader
    events = controller.events.recorder

    def by_pool(of: Callable[[PoolCount], int]) -> Sequence[tuple[str, int]]:
        return [(it.pool, of(it)) for it in counts]

    def some(of: Callable[[PoolCount], int]) -> Sequence[tuple[str, int]]:
        return [(pool, count) for pool, count in by_pool(of) if count]

    return [
        gauge("pool_controller_leader", "1 if this controller leads.", leader.is_leader),
        gauge(
            "pool_controller_ready",
            "1 if everything was listed and the admission policies are in force.",
            not controller.lack,
        ),
        gauge("pool_controller_pools", "Pools that have nodes.", len(counts)),
        gauge(
            "pool_controller_members",
            "Members, by pool.",
            by_pool(lambda it: it.members),
            label="pool",
        ),
        gauge(
            "pool_controller_ready_members",
            "Members whose Nodes are Ready, by pool.",
            by_pool(lambda it: it.ready),
            label="pool",
        ),
        gauge(
            "pool_controller_dead_nodes",
            "Members that are judged dead, by pool; pools without one are left out.",
            some(lambda it: it.dead),
            label="pool",
        ),
        gauge(
            "pool_controller_cut_nodes",
            "Members that get no pods because they borrow their link, by pool; pools without one "
            "are left out.",
            some(lambda it: it.cut),
            label="pool",
        ),
        gauge(
            "pool_controller_cannot_tell",
            "Members that the cloud has lost and that are kept, by pool; pools without one are "
            "left out.",
            some(lambda it: len(it.undecided)),
            label="pool",
        ),
        gauge(
            "pool_controller_keeping_nodes",
            "Members whose annotation keeps their pods, by pool; pools without one are left out.",
            some(lambda it: len(it.keeping)),
            label="pool",
        ),
        gauge(
            "pool_controller_not_reachable",
            "Members that a Ready member of their pool has never heard, by pool; pools without one "
            "are left out.",
            some(lambda it: it.not_reachable),
            label="pool",
        ),
        gauge(
            "pool_controller_refused_nodes",
            "Nodes without a place in their full pool, by pool; pools without one are left out.",
            some(lambda it: it.refused),
            label="pool",
        ),
        gauge(
            "pool_controller_malformed_members",
            "PoolMembers whose status breaks its bounds and counts as none.",
            len(controller.core.defects()),
        ),
        Metric(
            "pool_controller_writes_total",
            Kind.COUNTER,
            "Writes to the API by verb and outcome: ok, a status, unknown, not leading.",
            tuple(
                ({"verb": verb, "outcome": outcome}, float(n))
                for (verb, outcome), n in sorted(controller.writes.guarded.counts.items())
            ),
        ),
        counter(
            "pool_controller_events_total",
            "Events on Nodes, by outcome.",
            [("told", events.told), ("dropped", events.dropped)],
            label="outcome",
        ),
    ]
