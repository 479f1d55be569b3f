"""`sedna-lc status`: the state of this node; a table or JSON.

Asks the LC on this machine for its /status document, and shows it as it is.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from edge_sidecars.runtime.cli.options import Options
from edge_sidecars.runtime.cli.status_command import StatusCommand, StatusDocument, age, page
from edge_sidecars.runtime.cli.values import Address
from lc.config import DEFAULT_BIND_PORT, PREFIX, SEDNA_TWINS
from lc.config.config import loopback

_TITLES = ("KIND", "NAMESPACE", "NAME", "STATE")


def table(body: Mapping[str, Any]) -> str:
    """Of a /status document."""
    store, reports = body["store"], body["reports"]
    kinds = Counter(each["kind"] for each in body["objects"])
    counted = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    summary = [
        (
            "LC",
            f"{body['version']} on {body['node']}, up for {age(body['uptimeSeconds'])}",
        ),
        ("LINK", f"mode {body['mode']}, {_link(body['link'])}"),
        ("STORE", store["failure"] or f"{store['directory']}, {store['id']}"),
        ("REPORTS", _reports(reports)),
        ("OBJECTS", counted or "none"),
    ]
    if store["note"]:
        summary.append(("NOTE", store["note"]))
    summary += [("TRANSFER", _transfer(each)) for each in body["transfers"]]
    shown = page(summary, (_TITLES, list(map(_row, body["objects"]))))
    refusals = [f"{_refusal(each)}\n" for each in reports["refusals"]]
    return "".join([shown, "\n", *refusals] if refusals else [shown])


def _listen(environ: Mapping[str, str]) -> Address:
    options = Options({}, environ, prefix=PREFIX, others=SEDNA_TWINS)
    with options.naming_variables():
        return options.parsed("bind_port", loopback, loopback(str(DEFAULT_BIND_PORT)))


def _link(link: Mapping[str, Any]) -> str:
    state = "up" if link["isUp"] else "down"
    why = f": {link['problem']}" if link["problem"] else ""
    return f"{state} for {age(link['forSeconds'])}, {link['peer'] or 'nobody yet'}{why}"


def _transfer(transfer: Mapping[str, Any]) -> str:
    return f"{transfer['url']}: {transfer['done']} of {transfer['size'] or '?'} bytes"


def _reports(reports: Mapping[str, Any]) -> str:
    oldest = reports["oldestSeconds"]
    waited = "" if oldest is None else f", the oldest for {age(oldest)}"
    unknown = reports["ofUnknownJobs"]
    early = f"; {unknown} of unknown jobs" if unknown else ""
    return f"{reports['waiting']} waiting{waited}{early}; {reports['refused']} refused"


def _row(it: Mapping[str, Any]) -> tuple[str, ...]:
    return it["kind"], it["namespace"], it["name"], it["note"] or "-"


def _refusal(it: Mapping[str, Any]) -> str:
    return (
        f"REFUSED  {it['kind']} {it['namespace']}/{it['name']} report {it['seq']}: {it['reason']}"
    )


main = StatusCommand(
    program="sedna-lc",
    document=StatusDocument(
        "LC", "the LC", frozenset({"node", "mode", "link", "store", "reports", "objects"})
    ),
    manual="reference/lc",
    url_of="this node's LC",
    listen=_listen,
    table=table,
).run
