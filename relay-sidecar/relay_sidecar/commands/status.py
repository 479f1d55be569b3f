"""`relay-sidecar status`: the link, the streams and who reads them; a table or JSON.

Asks the relay on this machine for its /status document, and shows it as it is.
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
from relay_sidecar.config import DEFAULT_STATUS_LISTEN, PREFIX

_TITLES = ("RESOURCE", "NAMESPACE", "SELECTOR", "STATE", "OBJECTS", "BYTES", "AGE", "WATCHERS")


def table(document: Mapping[str, Any]) -> str:
    """Of a /status document."""
    link, journal = document["link"], document["journal"]
    summary = [
        ("RELAY", f"{document['version']}, up for {age(document['uptimeSeconds'])}"),
        ("READY", "yes" if document["isReady"] else f"no: {document['lack']}"),
        ("LINK", link_line(link, document["uptimeSeconds"])),
        ("JOURNAL", journal["failure"] or journal["directory"] or "memory"),
        ("OBJECTS", f"{document['objects']} of {document['maxObjects']}"),
        ("WATCHERS", f"{document['watchers']} of {document['maxWatchers']}"),
    ]
    if journal["note"]:
        summary.append(("NOTE", journal["note"]))
    return page(summary, (_TITLES, list(map(_row, document["streams"]))))


def link_line(link: Mapping[str, Any], uptime: float) -> str:
    """`uptime`: of the relay, in seconds."""
    # A relay of an earlier version names none.
    through = f" through the proxy {link['proxy']}" if link.get("proxy") else ""
    server = f"{link['server']}{through}"
    if link["state"] == "unauthorized":
        return f"up, but the relay's credentials are refused (401), to {server}"
    if link["isUp"]:
        via = f" via {link['via']}" if link.get("via") else ""
        return f"up{via}, to {server}"
    since = _down(link, uptime)
    if link["state"] == "relayed":
        return f"{since}, to {server}, a relay that is cut off itself"
    # A relay of an earlier version says none.
    why = f": {link['cause']}" if link.get("cause") else ""
    return f"{since}, to {server}{why}"


def _down(link: Mapping[str, Any], uptime: float) -> str:
    """How long an outage lasts is known only where this process saw it begin."""
    if link["downSeconds"] is None:
        return "not known yet"
    # A relay of an earlier version does not say it.
    if link.get("wasUp", True):
        return f"down for {age(link['downSeconds'])}"
    return f"not up since this relay started {age(uptime)} ago"


def _row(stream: Mapping[str, Any]) -> tuple[str, ...]:
    selectors = [stream["labelSelector"], stream["fieldSelector"]]
    refusal = f": {stream['refusal']}" if stream["refusal"] else ""
    return (
        # That of the core group ends in a dot; `--preload` and kubectl take it without.
        stream["resource"].rstrip("."),
        stream["namespace"] or "*",
        "&".join(filter(None, selectors)) or "-",
        f"{stream['state']}{refusal}",
        str(stream["objects"]),
        str(stream["bytes"]),
        "-" if stream["ageSeconds"] is None else age(stream["ageSeconds"]),
        str(stream["watchers"]),
    )


main = StatusCommand(
    program="relay-sidecar",
    document=StatusDocument(
        "relay",
        "the relay",
        frozenset({"version", "uptimeSeconds", "link", "journal", "streams", "watchers"}),
    ),
    manual="reference/relay",
    url_of="--status-listen",
    listen=listens_at("status_listen", DEFAULT_STATUS_LISTEN, prefix=PREFIX),
    table=table,
).run
