"""`sedna-gm status`: who leads, which LCs are connected, what waits, jobs by state.

Asks the GM on this machine for its /status document, and shows it as it is.
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
from gm.config import DEFAULT_LISTEN, PREFIX

_NODE_TITLES = ("NODE", "BY", "VERSION", "CONNECTED", "SERVED", "BACKLOG", "REPORTS", "LAST REPORT")
_MEMBER_TITLES = ("GM", "SHARDS", "SETTLED")
_JOB_TITLES = ("KIND", "STATE", "OBJECTS")


def table(body: Mapping[str, Any]) -> str:
    """Of a /status document."""
    backlog, reports = body["backlog"], body["reports"]
    summary = [
        ("GM", f"{body['version']}, {body['mode']}, up for {age(body['uptimeSeconds'])}"),
        ("READY", "yes" if body["isReady"] else f"no: {body['lack']}"),
        ("LINK", "up" if body["isLinkUp"] else "down"),
        ("LEADER", _leader(body["leader"])) if not body.get("shards") else _shards(body["shards"]),
        (
            "WAITING",
            f"{backlog['objects']} objects, {backlog['retries']} to be tried again, "
            f"{backlog['reports']} reports to be stored, "
            f"{backlog['nodeReports']} in NodeReports ({backlog['heldBack']} objects held back), "
            f"{backlog['events']} events",
        ),
        (
            "REPORTS",
            f"{reports['stored']} stored, {reports['folded']} taken in, "
            f"{reports['withoutEffect']} without effect, {reports['refused']} refused, "
            f"{reports['lost']} lost",
        ),
    ]
    if reports["lastRefusal"]:
        summary.append(("REFUSED", reports["lastRefusal"]))
    members = list(map(_member, (body.get("shards") or {}).get("members", ())))
    shown = [(_MEMBER_TITLES, members)] if members else []
    nodes = list(map(_node, body["nodes"]))
    jobs = [(each["kind"], each["state"], str(each["objects"])) for each in body["jobs"]]
    return page(summary, *shown, (_NODE_TITLES, nodes), (_JOB_TITLES, jobs))


def _leader(leader: Mapping[str, Any]) -> str:
    if leader["isLeader"]:
        return f"this one, term {leader['term']}, proven for {leader['remainingSeconds']:.1f}s"
    return str(leader["holder"] or "unknown")


def _shards(shards: Mapping[str, Any]) -> tuple[str, str]:
    proven = f", proven for {shards['remainingSeconds']:.1f}s" if shards["owned"] else ""
    rest = f"; {shards['unowned']} are nobody's" if shards["unowned"] else ""
    leaving = f", {len(shards['handingOver'])} being handed over" if shards["handingOver"] else ""
    owned = f"{len(shards['owned'])} of {shards['shards']} here{leaving}{proven}{rest}"
    return "SHARDS", f"{owned} ({shards['reason']})"


def _member(member: Mapping[str, Any]) -> tuple[str, ...]:
    return member["pod"], str(member["owned"]), "yes" if member["isSettled"] else "not yet"


def _node(node: Mapping[str, Any]) -> tuple[str, ...]:
    last = node["lastReportSeconds"]
    return (
        node["node"],
        node["transport"],
        node["version"] or "-",
        age(node["ageSeconds"]),
        "yes" if node["isServing"] else "not yet",
        str(node["backlog"]),
        str(node["reports"]),
        "-" if last is None else f"{age(last)} ago",
    )


main = StatusCommand(
    program="sedna-gm",
    document=StatusDocument(
        "GM", "GM", frozenset({"version", "mode", "leader", "backlog", "reports", "nodes", "jobs"})
    ),
    manual="reference/gm",
    url_of="--listen",
    listen=listens_at("listen", DEFAULT_LISTEN, prefix=PREFIX),
    table=table,
).run
