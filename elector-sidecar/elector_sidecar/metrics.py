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
            "1 if this process leads now, else 0.",
            ((shared, float(status.is_leader)),),
        ),
        Metric(
            "leader_election_slowpath_total",
            Kind.COUNTER,
            "Extra reads of the Lease; a renewal that succeeds needs none.",
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
            "leaseTransitions of the Lease: how many holders it has had.",
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
        *_of_shards(elector, now, lease),
    ]


def _of_shards(elector: Elector, now: float, lease: dict[str, str]) -> list[Metric]:
    """With --shards only."""
    if elector.sharding is None:
        return []
    view, ownership = elector.sharding.machine.view(now), elector.sharding.machine.ownership
    moves = {
        "taken": ownership.takes,
        "handed over": ownership.hand_overs,
        "lost": ownership.losses,
    }

    def one(name: str, kind: Kind, text: str, value: float) -> Metric:
        return Metric(name, kind, text, ((lease, value),))

    return [
        one(
            "elector_shards_owned",
            Kind.GAUGE,
            "Shards that this member owns now.",
            float(len(view.owned)),
        ),
        one(
            "elector_shards_unowned",
            Kind.GAUGE,
            "Shards that no living member owns, as this member knows the table.",
            float(view.unowned),
        ),
        one(
            "elector_shards_unowned_seconds_total",
            Kind.COUNTER,
            "Seconds in which a shard had no living owner, as this member knows the table; summed.",
            elector.sharding.unowned_seconds(now),
        ),
        one(
            "elector_shard_members",
            Kind.GAUGE,
            "Living members that share the shards.",
            float(len(view.members)),
        ),
        Metric(
            "elector_shard_moves_total",
            Kind.COUNTER,
            "Shards that this member took, handed over or lost.",
            tuple((lease | {"reason": reason}, float(n)) for reason, n in moves.items()),
        ),
        one(
            "elector_shards_waited_for_validity_total",
            Kind.COUNTER,
            "Hand-overs that the main did not confirm: the shard waited for its validity to end.",
            float(ownership.unconfirmed_hand_overs),
        ),
    ]
