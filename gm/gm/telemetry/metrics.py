"""What is measured about one GM, computed at the scrape from its status and counters."""

from collections.abc import Mapping
from dataclasses import dataclass

from edge_sidecars.runtime.metrics import Histogram, Metric, histogram, measured
from gm.telemetry.status import GmStatus

TEXTS = {
    "gm_leader": "1 if this GM leads.",
    "gm_leader_remaining_seconds": "Seconds for which the lead is proven.",
    "gm_terms_total": "Terms of leadership that this GM began.",
    "gm_shards": "Shards that this GM owns, with --leadership shards.",
    "gm_shard_moves_total": "Shards that this GM gained.",
    "gm_link_up": "1 if the relay reaches the API server.",
    "gm_synced": "1 if GM has listed all collections once.",
    "gm_objects{kind}": "Sedna's objects that GM follows, by kind.",
    "gm_jobs{kind,state}": "Objects by kind and the type of their last condition, with its stage.",
    "gm_backlog{of}": "Work that waits: objects, retries, events, reports, node_reports; "
    "held_back: objects whose reports wait for earlier ones.",
    "gm_nodes": "Connected LCs.",
    "gm_turned_away_total": "LCs whose connection this GM refused.",
    "gm_reports_total{outcome}": "Reports of LCs, by outcome.",
    "gm_node_report_conflicts_total": "Writes of NodeReports that lost to another write, and are "
    "repeated.",
    "gm_decisions_total{outcome}": "Decisions about objects, by outcome.",
    "gm_writes_total{verb,outcome}": "Writes to the API by verb and outcome: ok, a status, "
    "unknown, not leading.",
    "gm_events_total{outcome}": "Events on objects, by outcome.",
}


@dataclass(frozen=True)
class GmCounters:
    """Since the process began. `writes` by verb and outcome, `decisions` by outcome."""

    writes: Mapping[tuple[str, str], int]
    decisions: Mapping[str, int]
    events_told: int
    events_dropped: int
    conflicts: int
    turned_away: int
    # None without a hub.
    delivery: Histogram | None


def measure(status: GmStatus, counters: GmCounters) -> list[Metric]:
    backlog, reports, leader, shards = status.backlog, status.reports, status.leader, status.shards
    waiting = ("objects", "retries", "events", "reports", "node_reports", "held_back")
    outcomes = ("stored", "folded", "without_effect", "refused", "lost")
    delivery: list[tuple[dict[str, str], Histogram]] = []
    if counters.delivery is not None:
        delivery.append(({}, counters.delivery))
    values = measured(
        TEXTS,
        {
            "gm_leader": leader.is_leader,
            "gm_leader_remaining_seconds": leader.remaining_seconds,
            "gm_terms_total": leader.terms,
            "gm_shards": [] if shards is None else len(shards.owned),
            "gm_shard_moves_total": [] if shards is None else shards.moves,
            "gm_link_up": status.is_link_up,
            "gm_synced": not status.lack,
            "gm_objects": [(it.kind, it.objects) for it in status.collections],
            "gm_jobs": [((it.kind, it.state), it.objects) for it in status.jobs],
            "gm_backlog": [(it, getattr(backlog, it)) for it in waiting],
            "gm_nodes": len(status.nodes),
            "gm_turned_away_total": counters.turned_away,
            "gm_reports_total": [(it, getattr(reports, it)) for it in outcomes],
            "gm_node_report_conflicts_total": counters.conflicts,
            "gm_decisions_total": sorted(counters.decisions.items()),
            "gm_writes_total": sorted(counters.writes.items()),
            "gm_events_total": [
                ("told", counters.events_told),
                ("dropped", counters.events_dropped),
            ],
        },
    )
    return [
        *values,
        histogram(
            "gm_delivery_delay_seconds",
            "Seconds from when GM learns of a change until it goes to an LC's stream, at most.",
            delivery,
        ),
    ]
