"""What is measured about one GM, computed at the scrape from its status and counters."""

from collections.abc import Mapping
from dataclasses import dataclass

from edge_sidecars.runtime.metrics import Kind, Metric
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
    backlog, reports = status.backlog, status.reports

    def gauge(name: str, text: str, value: float) -> Metric:
        return Metric(name, Kind.GAUGE, text, (({}, value),))

    def counter(name: str, text: str, value: float) -> Metric:
        return Metric(name, Kind.COUNTER, text, (({}, float(value)),))

    return [
        gauge("gm_leader", "1 if this GM leads.", float(status.leader.is_leader)),
        gauge(
            "gm_leader_remaining_seconds",
            "Seconds for which the lead is proven.",
            status.leader.remaining,
        ),
        counter("gm_terms_total", "Terms of leadership begun.", status.leader.terms),
        gauge("gm_link_up", "1 if the relay reaches the API server.", float(status.is_link_up)),
        gauge("gm_synced", "1 if everything was listed once.", float(not status.lack)),
        Metric(
            "gm_objects",
            Kind.GAUGE,
            "Objects that are known, by kind.",
            tuple(({"kind": it.kind}, float(it.objects)) for it in status.collections),
        ),
        Metric(
            "gm_jobs",
            Kind.GAUGE,
            "Objects by kind and the type of their last condition, with its stage.",
            tuple(({"kind": it.kind, "state": it.state}, float(it.objects)) for it in status.jobs),
        ),
        Metric(
            "gm_backlog",
            Kind.GAUGE,
            "What waits: objects, objects to be tried again (retries), events, reports to be "
            "stored or in NodeReports; held_back: objects whose reports wait for others.",
            (
                ({"of": "objects"}, float(backlog.objects)),
                ({"of": "retries"}, float(backlog.retries)),
                ({"of": "events"}, float(backlog.events)),
                ({"of": "reports"}, float(backlog.reports)),
                ({"of": "node_reports"}, float(backlog.node_reports)),
                ({"of": "held_back"}, float(backlog.held_back)),
            ),
        ),
        gauge("gm_nodes", "LCs that are connected.", float(len(status.nodes))),
        counter("gm_turned_away_total", "LCs that were not served.", counters.turned_away),
        Metric(
            "gm_reports_total",
            Kind.COUNTER,
            "Reports by what became of them.",
            (
                ({"outcome": "stored"}, float(reports.stored)),
                ({"outcome": "folded"}, float(reports.folded)),
                ({"outcome": "without_effect"}, float(reports.without_effect)),
                ({"outcome": "refused"}, float(reports.refused)),
                ({"outcome": "lost"}, float(reports.lost)),
            ),
        ),
        counter(
            "gm_node_report_conflicts_total",
            "Writes of NodeReports that another was quicker than.",
            counters.conflicts,
        ),
        Metric(
            "gm_decisions_total",
            Kind.COUNTER,
            "Decisions about objects by what became of them.",
            tuple(({"outcome": key}, float(n)) for key, n in sorted(counters.decisions.items())),
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
        Metric(
            "gm_events_total",
            Kind.COUNTER,
            "Events on objects by what became of them.",
            (
                ({"outcome": "told"}, float(counters.events_told)),
                ({"outcome": "dropped"}, float(counters.events_dropped)),
            ),
        ),
    ]
