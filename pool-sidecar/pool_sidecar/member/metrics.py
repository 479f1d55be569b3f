"""The member's metrics, measured in the request that asks."""

from collections.abc import Iterable

from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.metrics import Metric, counter, gauge
from pool_sidecar.core.pool import Role
from pool_sidecar.core.pool_member import Link, Verdict
from pool_sidecar.member.member import Member


def measure(member: Member) -> Iterable[Metric]:
    now = boottime()
    pool = member.pool
    role, link, via = pool.role(now), pool.link(now), pool.via(now)
    standings = {name: pool.peers.standing(name, now) for name in member.directory.peers}
    verdicts = [it.verdict for it in standings.values() if it is not None]
    live = pool.live(pool.hub(now), now)
    shared = pool.stream_health(now)
    borrowers = member.listener.budget.borrowers
    return (
        gauge(
            "pool_role",
            "1 for this member's present role in the pool.",
            _one_of(Role, role),
            label="role",
        ),
        gauge(
            "pool_link",
            "1 for how this node reaches the cloud now: own, lent or none.",
            _one_of(Link, link),
            label="link",
        ),
        gauge(
            "pool_via",
            "1 for the neighbour that lends its link; no series on the own link.",
            _via(via),
            label="node",
        ),
        gauge("pool_hub_live", "Streams of the hub that are live; 0 without a hub.", len(live)),
        gauge(
            "pool_stream_healthy",
            "1 if a hub of the pool is reachable, or is this node; by stream.",
            [(it.resource, float(it.is_healthy)) for it in shared],
            label="resource",
        ),
        gauge(
            "pool_stream_ready",
            "1 if the hub's stream is live, so that members can read it.",
            [(it.resource, float(it.is_ready)) for it in shared],
            label="resource",
        ),
        gauge("pool_borrowers", "Members that borrow this node's link now.", len(borrowers)),
        counter(
            "pool_lent_bytes_total",
            "Bytes passed on for members that borrow this node's link.",
            member.listener.tunnels.passed,
        ),
        gauge(
            "pool_member_verdict",
            "Other members, by verdict.",
            [(it.value, verdicts.count(it)) for it in Verdict],
            label="verdict",
        ),
        counter(
            "pool_heartbeats_total",
            "Renewals of this node's Lease by the member instead of kubelet.",
            member.heartbeats,
        ),
    )


def _one_of(kind: type[Role] | type[Link], present: Role | Link) -> list[tuple[str, float]]:
    return [(it.value, float(it is present)) for it in kind]


def _via(via: str) -> list[tuple[str, float]]:
    return [(via, 1.0)] if via else []
