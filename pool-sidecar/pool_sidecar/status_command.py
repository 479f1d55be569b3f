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


def table(document: Mapping[str, Any]) -> str:
    """Of a /status document."""
    link = f"{document['link']}, via {document['via']}" if document["via"] else document["link"]
    summary = [
        ("MEMBER", f"{document['version']}, up for {age(document['uptimeSeconds'])}"),
        ("NODE", document["node"]),
        ("POOL", document["pool"] or "none"),
        ("READY", "yes" if document["isReady"] else f"no: {document['lack']}"),
        ("ROLE", document["role"]),
        ("LINK", link),
        ("SHARED", _shared(document)),
        ("KUBELET", "answers" if document["kubelet"] else "does not answer"),
        ("LENDS TO", ", ".join(document["borrowers"]) or "no member"),
        ("HEARTBEATS", str(document["heartbeats"])),
    ]
    return page(summary, (_TITLES, list(map(_row, document["peers"]))))


def _shared(document: Mapping[str, Any]) -> str:
    """What the pool shares, and who leads."""
    hub = document["node"] if document["role"] == Role.LEADER else document["hub"]
    streams = [f"{it['resource']} {_READY[it['ready']]}" for it in document["shared"]]
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
    manual="reference/pool",
    url_of="--listen",
    listen=listens_at("listen", DEFAULT_LISTEN, prefix=PREFIX),
    table=table,
).run
