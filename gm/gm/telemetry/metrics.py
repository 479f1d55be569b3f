"""What is measured about one GM, computed at the scrape from its status and counters."""

from collections.abc import Mapping
from dataclasses import dataclass

from edge_sidecars.runtime.metrics import Kind, Metric, counter, gauge
from gm.telemetry.status import GmStatus


@dataclass(frozen=True)
class GmCounters:
    """Since the process began. `writes` by verb and outcome, `decisions` by outcome."""

    writes: Mapping[tuple[str, str], int]
    decisions: Mapping[str, int]
    events_told: int
    events_dropped: int
    conflicts: int
    turned_away: int


def measure(status: GmStatus, counters: GmCounters) -> list[Metric]:
    backlog, reports, leader = status.backlog, status.reports, status.leader
    return [
        gauge("gm_leader", "1 if this GM leads.", leader.is_leader),
        gauge(
            "gm_leader_remaining_seconds",
            "Seconds for which the lead is proven.",
            leader.remaining_seconds,
        ),
        counter("gm_terms_total", "Terms of leadership that this GM began.", leader.terms),
        gauge(
            "gm_shards",
            "Shards that this GM owns, with --leadership shards.",
            [] if status.shards is None else len(status.shards.owned),
        ),
        counter(
            "gm_shard_moves_total",
            "Shards that this GM gained.",
            [] if status.shards is None else status.shards.moves,
        ),
        gauge("gm_link_up", "1 if the relay reaches the API server.", status.is_link_up),
        gauge("gm_synced", "1 if GM has listed all collections once.", not status.lack),
        gauge(
            "gm_objects",
            "Sedna's objects that GM follows, by kind.",
            [(it.kind, it.objects) for it in status.collections],
            label="kind",
        ),
        Metric(
            "gm_jobs",
            Kind.GAUGE,
            "Objects by kind and the type of their last condition, with its stage.",
            tuple(({"kind": it.kind, "state": it.state}, float(it.objects)) for it in status.jobs),
        ),
        gauge(
            "gm_backlog",
            "Work that waits: objects, retries, events, reports, node_reports; held_back: objects "
            "whose reports wait for earlier ones.",
            [
                ("objects", backlog.objects),
                ("retries", backlog.retries),
                ("events", backlog.events),
                ("reports", backlog.reports),
                ("node_reports", backlog.node_reports),
                ("held_back", backlog.held_back),
            ],
            label="of",
        ),
        gauge("gm_nodes", "Connected LCs.", len(status.nodes)),
        counter(
            "gm_turned_away_total",
            "LCs whose connection this GM refused.",
            counters.turned_away,
        ),
        counter(
            "gm_reports_total",
            "Reports of LCs, by outcome.",
            [
                ("stored", reports.stored),
                ("folded", reports.folded),
                ("without_effect", reports.without_effect),
                ("refused", reports.refused),
                ("lost", reports.lost),
            ],
            label="outcome",
        ),
        counter(
            "gm_node_report_conflicts_total",
            "Writes of NodeReports that lost to another write, and are repeated.",
            counters.conflicts,
        ),
        counter(
            "gm_decisions_total",
            "Decisions about objects, by outcome.",
            sorted(counters.decisions.items()),
            label="outcome",
        ),
        Metric(
            "gm_writes_total",
            Kind.COUNTER,
            "Writes to the API by verb and outcome: ok, a status, unknown, not leading.",
            tuple(
                ({"verb": verb, "outcome": outcome}, float(n))
                for (verb, outcome), n in sorted(counters.writes.items())
            ),
        ),
        counter(
            "gm_events_total",
            "Events on objects, by outcome.",
            [("told", counters.events_told), ("dropped", counters.events_dropped)],
            label="outcome",
        ),
    ]
