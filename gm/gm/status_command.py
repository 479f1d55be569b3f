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


def table(told: Mapping[str, Any]) -> str:
    """Of a /status document."""
    backlog, reports = told["backlog"], told["reports"]
    summary = [
        ("GM", f"{told['version']}, {told['mode']}, up for {age(told['uptimeSeconds'])}"),
        ("READY", "yes" if told["isReady"] else f"no: {told['lack']}"),
        ("LINK", "up" if told["isLinkUp"] else "down"),
        ("LEADER", _leader(told["leader"])) if not told.get("shards") else _shards(told["shards"]),
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
    members = list(map(_member, (told.get("shards") or {}).get("members", ())))
    shown = [(_MEMBER_TITLES, members)] if members else []
    nodes = list(map(_node, told["nodes"]))
    jobs = [(each["kind"], each["state"], str(each["objects"])) for each in told["jobs"]]
    return page(summary, *shown, (_NODE_TITLES, nodes), (_JOB_TITLES, jobs))


def _leader(leader: Mapping[str, Any]) -> str:
    if leader["isLeader"]:
        return f"this one, term {leader['term']}, proven for {leader['remainingSeconds']:.1f}s"
    return str(leader["holder"] or "unknown")


def _shards(shards: Mapping[str, Any]) -> tuple[str, str]:
    proven = f", proven for {shards['remainingSeconds']:.1f}s" if shards["owned"] else ""
    nobody = f"; {shards['unowned']} are nobody's" if shards["unowned"] else ""
    leaving = f", {len(shards['handingOver'])} being handed over" if shards["handingOver"] else ""
    owned = f"{len(shards['owned'])} of {shards['shards']} here{leaving}{proven}{nobody}"
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
