"""The member's metrics, measured in the request that asks."""

from collections.abc import Iterable

from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.metrics import Metric, histogram, measured
from pool_sidecar.core.pool import Role
from pool_sidecar.core.pool_member import Link, Verdict
from pool_sidecar.member.member import Member

TEXTS = {
    "pool_role{role}": "1 for this member's present role in the pool.",
    "pool_link{link}": "1 for how this node reaches the cloud now: own, lent or none.",
    "pool_via{node}": "1 for the neighbour that lends its link; no series on the own link.",
    "pool_hub_live": "Streams of the hub that are live; 0 without a hub.",
    "pool_stream_healthy{resource}": "1 if a hub of the pool is reachable, or is this node; by "
    "stream.",
    "pool_stream_ready{resource}": "1 if the hub's stream is live, so that members can read it.",
    "pool_borrowers": "Members that borrow this node's link now.",
    "pool_lent_bytes_total": "Bytes passed on for members that borrow this node's link.",
    "pool_member_verdict{verdict}": "Other members, by verdict.",
    "pool_heartbeats_total": "Renewals of this node's Lease by the member instead of kubelet.",
}


def measure(member: Member) -> Iterable[Metric]:
    now, pool = boottime(), member.pool
    role, link, via = pool.role(now), pool.link(now), pool.via(now)
    standings = (pool.peers.standing(name, now) for name in member.directory.peers)
    verdicts = [it.verdict for it in standings if it is not None]
    shared = pool.stream_health(now)
    yield from measured(
        TEXTS,
        {
            "pool_role": [(it.value, it is role) for it in Role],
            "pool_link": [(it.value, it is link) for it in Link],
            "pool_via": [(via, 1.0)] if via else [],
            "pool_hub_live": len(pool.live(pool.hub(now), now)),
            "pool_stream_healthy": [(it.resource, it.is_healthy) for it in shared],
            "pool_stream_ready": [(it.resource, it.is_ready) for it in shared],
            "pool_borrowers": len(member.listener.budget.borrowers),
            "pool_lent_bytes_total": member.listener.tunnels.passed,
            "pool_member_verdict": [(it.value, verdicts.count(it)) for it in Verdict],
            "pool_heartbeats_total": member.heartbeats,
        },
    )
    yield histogram(
        "pool_renewal_gap_seconds",
        "Seconds between two renewals of this node's Lease, of which the member wrote the later.",
        [({}, member.renewal_gaps)],
    )
