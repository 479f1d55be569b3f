"""What is measured about one elector, computed at the scrape.

Names are client-go's where it has them (`leader_election_*`), ours otherwise; all have the Lease as
their label `name`. Those with client-go's names have the label `component` too: every controller
that elects by client-go has metrics of these names.
"""

from edge_sidecars.runtime.metrics import Kind, Metric
from elector_sidecar.elector import Elector

COMPONENT = "edge-sidecars-elector"


def measure(elector: Elector, now: float) -> list[Metric]:
    status = elector.status(now)
    view = status.view
    lease = {"name": elector.config.lease}
    shared = lease | {"component": COMPONENT}
    requests = sorted(elector.api_requests.items())

    def gauge(name: str, text: str, value: float) -> Metric:
        return Metric(name, Kind.GAUGE, text, ((lease, value),))

    def counter(name: str, text: str, value: float) -> Metric:
        return Metric(name, Kind.COUNTER, text, ((lease, value),))

    return [
        Metric(
            "leader_election_master_status",
            Kind.GAUGE,
            "1 if this process holds the lease now, else 0.",
            ((shared, float(status.is_leader)),),
        ),
        Metric(
            "leader_election_slowpath_total",
            Kind.COUNTER,
            "Reads of the lease: what a renewal that goes well does not need.",
            ((shared, float(elector.api_requests.get(("get", "sent"), 0))),),
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
                (lease | {"verb": verb, "result": result}, float(count))
                for (verb, result), count in requests
            ),
        ),
    ]
