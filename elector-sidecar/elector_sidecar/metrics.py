"""What is measured about one elector, and its Prometheus text, computed at the scrape.

Names are client-go's where it has them (`leader_election_*`), ours otherwise. See
https://prometheus.io/docs/instrumenting/exposition_formats/, text format 0.0.4.
"""

from dataclasses import dataclass
from enum import Enum

from elector_sidecar.elector import Elector

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Kind(Enum):
    GAUGE = "gauge"
    COUNTER = "counter"


@dataclass(frozen=True)
class Metric:
    """`samples`: label sets beside `name` (the Lease), with their values."""

    name: str
    kind: Kind
    text: str
    samples: tuple[tuple[dict[str, str], float], ...]


def measure(elector: Elector, now: float) -> list[Metric]:
    status = elector.status(now)
    view = status.view
    requests = sorted(elector.api_requests.items())

    def gauge(name: str, text: str, value: float) -> Metric:
        return Metric(name, Kind.GAUGE, text, (({}, value),))

    def counter(name: str, text: str, value: float) -> Metric:
        return Metric(name, Kind.COUNTER, text, (({}, value),))

    return [
        gauge(
            "leader_election_master_status",
            "1 if this process holds the lease now, else 0.",
            float(status.is_leader),
        ),
        counter(
            "leader_election_slowpath_total",
            "Reads of the lease: what a renewal that goes well does not need.",
            float(elector.api_requests.get(("get", "sent"), 0)),
        ),
        gauge(
            "elector_valid_seconds",
            "Seconds for which leadership is proven; 0 if not leader.",
            status.remaining,
        ),
        gauge(
            "elector_last_contact_seconds",
            "Seconds since the API server answered; -1 before the first time.",
            -1.0 if view.last_contact is None else now - view.last_contact,
        ),
        gauge(
            "elector_eligible",
            "1 if the health gate is open and the API server was reached.",
            float(status.is_eligible),
        ),
        gauge(
            "elector_lease_transitions",
            "leaseTransitions of the lease as last seen.",
            float(view.lease_transitions or 0),
        ),
        counter(
            "elector_terms_total",
            "Terms of leadership begun by this process.",
            float(elector.terms),
        ),
        Metric(
            "elector_api_requests_total",
            Kind.COUNTER,
            'API requests by verb: result "sent" counts all, other results the failed ones.',
            tuple(
                ({"verb": verb, "result": result}, float(count))
                for (verb, result), count in requests
            ),
        ),
    ]


def render(elector: Elector, now: float) -> str:
    lease = elector.config.lease
    lines = []
    for metric in measure(elector, now):
        lines.append(f"# HELP {metric.name} {metric.text}")
        lines.append(f"# TYPE {metric.name} {metric.kind.value}")
        for labels, value in metric.samples:
            told = ",".join(f'{key}="{text}"' for key, text in {"name": lease, **labels}.items())
            lines.append(f"{metric.name}{{{told}}} {value:.15g}")
    return "\n".join(lines) + "\n"
