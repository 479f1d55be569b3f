"""What each listener of this process holds, of how much, and what it refused (limits.md, L7)."""

from collections.abc import Callable
from typing import Final

from edge_sidecars.runtime.metrics import Metric, counter, gauge
from edge_sidecars.runtime.web.foreign_port import FOREIGN_PORTS, ForeignPort
from edge_sidecars.runtime.web.listener import LISTENERS, Listener

# Of one listener, as /status calls them.
FIGURES: Final = (
    "listen",
    "connections",
    "maxConnections",
    "refused",
    "unread",
    "unfinishedBytes",
    "maxUnfinishedBytes",
    "malformed",
)


def figures() -> list[dict[str, str | int]]:
    """The same for people, in the field `listeners` of each /status. Of a port that another
    library serves, its connections alone."""
    ours: list[dict[str, str | int]] = [
        dict(zip(FIGURES, _figures(it), strict=True)) for it in _open()
    ]
    return ours + [dict(zip(FIGURES, it, strict=False)) for it in _foreign()]


def _foreign() -> list[tuple[str, int, int]]:
    """Address, connections and their limit."""
    ports: list[ForeignPort] = sorted(FOREIGN_PORTS, key=lambda it: str(it.bound))
    return [(str(it.bound), it.taken, it.limit) for it in ports]


def _figures(it: Listener) -> tuple[str | int, ...]:
    inflow, malformed = it.intake.inflow, sum(it.intake.refused.values())
    connections = (it.taken, it.limit, it.turned_away, it.intake.unread)
    return (str(it.bound), *connections, inflow.used, inflow.limit, malformed)


def _open() -> list[Listener]:
    return sorted((it for it in LISTENERS if it.is_open), key=lambda it: str(it.bound))


def measure() -> list[Metric]:
    """Each with the address that it listens on."""
    found, foreign = _open(), _foreign()

    def of(value: Callable[[Listener], float]) -> list[tuple[str, float]]:
        return [(str(it.bound), float(value(it))) for it in found]

    return [
        gauge(
            "edge_sidecars_connections_limit",
            "Limit of a listener's connections.",
            of(lambda it: it.limit) + [(at, float(limit)) for at, _, limit in foreign],
            label="listen",
        ),
        gauge(
            "edge_sidecars_connections_used",
            "Open connections of a listener.",
            of(lambda it: it.taken) + [(at, float(taken)) for at, taken, _ in foreign],
            label="listen",
        ),
        counter(
            "edge_sidecars_connections_refused_total",
            "Connections that were refused because the listener was full.",
            of(lambda it: it.turned_away),
            label="listen",
        ),
        counter(
            "edge_sidecars_connections_unread_total",
            "Connections that were closed because the client did not read its answer.",
            of(lambda it: it.intake.unread),
            label="listen",
        ),
        gauge(
            "edge_sidecars_unfinished_limit_bytes",
            "Limit of the bytes of unfinished requests.",
            of(lambda it: it.intake.inflow.limit),
            label="listen",
        ),
        gauge(
            "edge_sidecars_unfinished_used_bytes",
            "Bytes of unfinished requests.",
            of(lambda it: it.intake.inflow.used),
            label="listen",
        ),
        counter(
            "edge_sidecars_unfinished_evicted_total",
            "Connections that were closed because unfinished requests exceeded their limit.",
            of(lambda it: it.intake.inflow.evicted),
            label="listen",
        ),
        counter(
            "edge_sidecars_requests_malformed_total",
            "Requests that are too long, too late, or not HTTP.",
            of(lambda it: sum(it.intake.refused.values())),
            label="listen",
        ),
    ]
