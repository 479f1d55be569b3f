"""What is measured about one elector, computed at the scrape.

Names are client-go's where it has them (`leader_election_*`), ours otherwise; all have the Lease as
their label `name`. Those with client-go's names have the label `component` too: every controller
that elects by client-go has metrics of these names.
"""

from dataclasses import replace

from edge_sidecars.runtime.metrics import Kind, Metric, counter, gauge, histogram
from elector_sidecar.elector import Elector

COMPONENT = "edge-sidecars-elector"


def measure(elector: Elector, now: float) -> list[Metric]:
    status = elector.status(now)
    view = status.view
    lease = {"name": elector.config.lease}
    requests = elector.api_requests
    of_client_go = (
        gauge(
            "leader_election_master_status",
            "1 if this process leads now, else 0.",
            status.is_leader,
        ),
        counter(
            "leader_election_slowpath_total",
            "Extra reads of the Lease; a renewal that succeeds needs none.",
            requests.get(("get", "sent"), 0),
        ),
    )
    ours = (
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
            status.is_eligible,
        ),
        gauge(
            "elector_lease_transitions",
            "leaseTransitions of the Lease: how many holders it has had.",
            view.lease_transitions or 0,
        ),
        counter(
            "elector_terms_total",
            "Terms of leadership begun by this process.",
            elector.terms,
        ),
        Metric(
            "elector_api_requests_total",
            Kind.COUNTER,
            'API requests by verb: result "sent" counts all, other results the failed ones.',
            tuple(
                ({"verb": verb, "result": result}, float(count))
                for (verb, result), count in sorted(requests.items())
            ),
        ),
        histogram(
            "elector_renewal_duration_seconds",
            "Seconds from sending a renewal of the Lease to its answer, by result: ok, or failed.",
            (({"result": result}, it) for result, it in elector.renewals.items()),
        ),
        *elector.machine.measure(now),
    )
    shared = lease | {"component": COMPONENT}
    return [*(_of(shared, it) for it in of_client_go), *(_of(lease, it) for it in ours)]


def _of(labels: dict[str, str], metric: Metric) -> Metric:
    return replace(
        metric,
        samples=tuple((labels | more, value) for more, value in metric.samples),
        histograms=tuple((labels | more, it) for more, it in metric.histograms),
    )
