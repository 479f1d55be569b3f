"""`pool-sidecar status`: role, link, lender and the verdicts on the others; a table or JSON.

Asks the member on this machine for its /status document, and shows it as it is.
"""

from collections.abc import Mapping
from typing import Any

from edge_sidecars.runtime.cli.status_command import (
    StatusCommand,
    StatusDocument,
    age,
    listens_at,
    page,
)
from pool_sidecar.config import DEFAULT_LISTEN, PREFIX
from pool_sidecar.core.pool import Role

_TITLES = ("NODE", "VERDICT", "FOR", "LINK", "ADDRESS")
_READY = {True: "ready", False: "not ready"}


def table(told: Mapping[str, Any]) -> str:
    """Of a /status document."""
    link = f"{told['link']}, via {told['via']}" if told["via"] else told["link"]
    summary = [
        ("MEMBER", f"{told['version']}, up for {age(told['uptimeSeconds'])}"),
        ("NODE", told["node"]),
        ("POOL", told["pool"] or "none"),
        ("READY", "yes" if told["isReady"] else f"no: {told['lack']}"),
        ("ROLE", told["role"]),
        ("LINK", link),
        ("SHARED", _shared(told)),
        ("KUBELET", "answers" if told["kubelet"] else "does not answer"),
        ("LENDS TO", ", ".join(told["borrowers"]) or "nobody"),
        ("HEARTBEATS", str(told["heartbeats"])),
    ]
    return page(summary, (_TITLES, list(map(_row, told["peers"]))))


def _shared(told: Mapping[str, Any]) -> str:
    """What the pool shares, and who leads."""
    hub = told["node"] if told["role"] == Role.LEADER else told["hub"]
    streams = [f"{it['resource']} {_READY[it['ready']]}" for it in told["shared"]]
    return f"{f'from {hub}' if hub else 'no hub'}: {', '.join(streams) or 'nothing'}"


def _row(peer: Mapping[str, Any]) -> tuple[str, ...]:
    seconds = peer["seconds"]
    return (
        peer["node"],
        peer["verdict"] or "unknown",
        "-" if seconds is None else age(seconds),
        peer["link"] or "-",
        ",".join(peer["addresses"]) or "-",
    )


main = StatusCommand(
    program="pool-sidecar",
    document=StatusDocument(
        "pool member",
        "the member",
        frozenset({"version", "node", "pool", "role", "hub", "link", "via", "shared", "peers"}),
    ),
    manual="pool.md",
    url_of="--listen",
    listen=listens_at("listen", DEFAULT_LISTEN, prefix=PREFIX),
    table=table,
).run
