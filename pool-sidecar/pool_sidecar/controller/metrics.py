"""What is measured about the controller, computed at the scrape."""

from collections.abc import Callable, Sequence

from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.metrics import Metric, measured
from pool_sidecar.controller.controller import Controller
from pool_sidecar.core.controller.pool_controller import PoolCount

TEXTS = {
    "pool_controller_leader": "1 if this controller leads.",
    "pool_controller_ready": "1 if everything was listed and the admission policies are in force.",
    "pool_controller_pools": "Pools that have nodes.",
    "pool_controller_members{pool}": "Members, by pool.",
    "pool_controller_ready_members{pool}": "Members whose Nodes are Ready, by pool.",
    "pool_controller_dead_nodes{pool}": "Members that are judged dead, by pool; pools without one "
    "are left out.",
    "pool_controller_cut_nodes{pool}": "Members that get no pods because they borrow their link, "
    "by pool; pools without one are left out.",
    "pool_controller_cannot_tell{pool}": "Members that the cloud has lost and that are kept, by "
    "pool; pools without one are left out.",
    "pool_controller_keeping_nodes{pool}": "Members whose annotation keeps their pods, by pool; "
    "pools without one are left out.",
    "pool_controller_not_reachable{pool}": "Members that a Ready member of their pool has never "
    "heard, by pool; pools without one are left out.",
    "pool_controller_refused_nodes{pool}": "Nodes without a place in their full pool, by pool; "
    "pools without one are left out.",
    "pool_controller_malformed_members": "PoolMembers whose status breaks its bounds and counts "
    "as none.",
    "pool_controller_writes_total{verb,outcome}": "Writes to the API by verb and outcome: ok, a "
    "status, unknown, not leading.",
    "pool_controller_events_total{outcome}": "Events on Nodes, by outcome.",
}


def measure(controller: Controller) -> list[Metric]:
    counts, events = tuple(controller.core.counts(boottime())), controller.events.recorder

    def some(of: Callable[[PoolCount], int]) -> Sequence[tuple[str, int]]:
        return [(it.pool, count) for it in counts if (count := of(it))]

    return measured(
        TEXTS,
        {
            "pool_controller_leader": controller.leader.is_leader,
            "pool_controller_ready": not controller.lack,
            "pool_controller_pools": len(counts),
            "pool_controller_members": [(it.pool, it.members) for it in counts],
            "pool_controller_ready_members": [(it.pool, it.ready) for it in counts],
            "pool_controller_dead_nodes": some(lambda it: it.dead),
            "pool_controller_cut_nodes": some(lambda it: it.cut),
            "pool_controller_cannot_tell": some(lambda it: len(it.undecided)),
            "pool_controller_keeping_nodes": some(lambda it: len(it.keeping)),
            "pool_controller_not_reachable": some(lambda it: it.not_reachable),
            "pool_controller_refused_nodes": some(lambda it: it.refused),
            "pool_controller_malformed_members": len(controller.core.defects()),
            "pool_controller_writes_total": sorted(controller.writes.guarded.counts.items()),
            "pool_controller_events_total": [("told", events.told), ("dropped", events.dropped)],
        },
    )
