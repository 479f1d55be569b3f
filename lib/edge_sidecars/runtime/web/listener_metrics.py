"""What each listener of this process holds, of how much, and what it refused (limits.md, L7)."""

from collections.abc import Callable

from edge_sidecars.runtime.metrics import Metric, counter, gauge
from edge_sidecars.runtime.web.listener import LISTENERS, Listener


def figures() -> list[dict[str, str | int]]:
    """The same for people, in the field `listeners` of each /status."""
    return [
        {
            "listen": str(it.bound),
            "connections": it.taken,
            "maxConnections": it.limit,
            "refused": it.turned_away,
            "unread": it.intake.unread,
            "unfinishedBytes": it.intake.inflow.used,
            "maxUnfinishedBytes": it.intake.inflow.limit,
            "malformed": sum(it.intake.refused.values()),
        }
        for it in _open()
    ]


def _open() -> list[Listener]:
    return sorted((it for it in LISTENERS if it.is_open), key=lambda it: str(it.bound))


def measure() -> list[Metric]:
    """Each with the address that it listens on."""
    found = _open()

    def of(value: Callable[[Listener], float]) -> list[tuple[str, float]]:
        return [(str(it.bound), float(value(it))) for it in found]

    return [
        gauge(
            "edge_sidecars_connections_limit",
            "Connections that a listener may have.",
            of(lambda it: it.limit),
            label="listen",
        ),
        gauge(
            "edge_sidecars_connections_used",
            "Connections that a listener has.",
            of(lambda it: it.taken),
            label="listen",
        ),
        counter(
            "edge_sidecars_connections_refused_total",
            "Connections that found no place.",
            of(lambda it: it.turned_away),
            label="listen",
        ),
        counter(
            "edge_sidecars_connections_unread_total",
            "Connections that were cut because the client did not read.",
            of(lambda it: it.intake.unread),
            label="listen",
        ),
        gauge(
            "edge_sidecars_unfinished_limit_bytes",
            "What a listener keeps at most of requests that are not whole.",
            of(lambda it: it.intake.inflow.limit),
            label="listen",
        ),
        gauge(
            "edge_sidecars_unfinished_used_bytes",
            "What a listener keeps of requests that are not whole.",
            of(lambda it: it.intake.inflow.used),
            label="listen",
        ),
        counter(
            "edge_sidecars_unfinished_evicted_total",
            "Connections that had sent most of it when it was too much.",
            of(lambda it: it.intake.inflow.evicted),
            label="listen",
        ),
        counter(
            "edge_sidecars_requests_malformed_total",
            "What came and is no request: too long, too late, or not HTTP.",
            of(lambda it: sum(it.intake.refused.values())),
            label="listen",
        ),
    ]
