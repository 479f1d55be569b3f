"""What a terminal shows of each kind of component, from the document of its page.

Pure but for rich. A document of another release may lack a field: that is a KeyError or a
TypeError, which `drawn` says in words.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from rich.console import RenderableType

from edge_sidecars.top.panels import (
    BAD,
    DOWN,
    FAINT,
    GOOD,
    UP,
    WARN,
    Span,
    age,
    bar,
    facts,
    headline,
    line,
    moment,
    size,
    strip,
    table,
)

Json = dict[str, Any]
Drawing = list[RenderableType]
DAY = 86400.0
# Terms beside each other, so that one ends visibly where the next begins.
_TERMS = (("█", "blue"), ("▓", GOOD), ("▒", WARN))
_LINKS = {
    "up": ("The link is up", GOOD),
    "unauthorized": ("The relay's credentials are refused", BAD),
    "relayed": ("The upstream relay is cut off itself", BAD),
    "down": ("The link is down", BAD),
}


def drawn(component: str, status: Json, *, wall: float, lag: float) -> Drawing:
    """`wall`: the component's clock in its document; `lag`: seconds since."""
    try:
        return _DRAWINGS[component](status, wall, lag)
    except (KeyError, TypeError, AttributeError, IndexError, ValueError):
        return [headline("Its document is of another release", BAD)]


# ── elector ──


def _elector(status: Json, wall: float, lag: float) -> Drawing:
    leader, moves, shards = status["leader"], status["moves"], status["shards"]
    lease = leader["lease"]
    is_known = leader["lastContactSeconds"] is not None
    if leader["holderPod"]:
        found: Drawing = [headline(f"{leader['holderPod']} leads", GOOD)]
    elif not is_known:
        found = [headline("Who leads is not known", BAD)]
    elif moves and moves["hold"]:
        found = [headline("No pod leads: a hold keeps every elector out", WARN)]
    else:
        found = [headline("No pod leads", BAD)]
    if leader["isLeader"]:
        found.append(_proven("this pod's lead is proven for", leader["remainingSeconds"] - lag))
    since = moment(leader["acquireTime"])
    found.append(
        facts(
            [
                ("Lease", f"{lease['namespace']}/{lease['name']}"),
                ("here", f"{leader['role']}: {leader['reason']}"),
                ("since", f"{age(wall - since)} ago" if since is not None else None),
                ("transitions", leader["leaseTransitions"]),
                ("fencing token", leader["fencingToken"]),
                (
                    "last contact",
                    f"{age(leader['lastContactSeconds'])} ago" if is_known else "none yet",
                ),
            ]
        )
    )
    found += _pending(moves, wall)
    if status["candidates"]:
        rows = [
            (it["pod"], _known_as(it, wall), it["eligible"], it["priority"])
            for it in status["candidates"]
        ]
        found.append(table(("candidate", "known as", "eligible", "priority"), rows))
    found += _terms(status["history"], wall)
    return found + (_shards(shards, lag) if shards else [])


def _proven(label: str, left: float) -> RenderableType:
    left = max(left, 0.0)
    return bar(label, left, max(left, 15.0), f"{left:.1f} s" if left else "no longer")


def _known_as(it: Json, wall: float) -> str:
    led = moment(it["ledUntil"])
    words = (
        "this pod" if it["own"] else "",
        "leads" if it["leads"] else "",
        "named by the switchover" if it["named"] else "",
        "" if led is None else f"led until {age(wall - led)} ago",
    )
    return ", ".join(filter(None, words))


def _pending(moves: Json | None, wall: float) -> Drawing:
    if not moves:
        return []
    found: Drawing = []
    if hold := moves["hold"]:
        left = (moment(hold["until"]) or wall) - wall
        found.append(line(f"A hold keeps every elector out for another {age(left)}.", WARN))
    if switchover := moves["switchover"]:
        to = switchover["to"] or "any other pod"
        found.append(line(f"A switchover to {to} is asked for.", WARN))
    if (asks := moves["asksInSeconds"]) is not None:
        both = f"{moves['priority']}, the leader's {moves['leaderPriority']}"
        found.append(
            line(f"This pod asks for the lead in {age(asks)}: its priority is {both}.", WARN)
        )
    if moves["problem"]:
        found.append(line(f"Not done: {moves['problem']}", BAD))
    return found


def _terms(history: Sequence[Json], wall: float) -> Drawing:
    if not history:
        return []
    spans, rows = [], []
    for place, it in enumerate(history):
        ended = moment(it.get("to")) or wall
        began = moment(it["from"]) or ended
        spans.append(Span(began, ended, _TERMS[place % len(_TERMS)]))
        pod = it["holder"].partition("_")[0]
        why = it.get("why") or ("not known" if it.get("to") else "")
        ago = f"{age(wall - ended)} ago" if it.get("to") else "now"
        rows.append((pod, ago, age(ended - began), why))
    begin = min(it.begin for it in spans)
    shown = table(("term of", "ended", "lasted", "why"), rows[::-1])
    return [strip(begin, wall, spans), shown]


def _shards(shards: Json, lag: float) -> Drawing:
    own = len(shards["owned"])
    found: Drawing = [line(f"{own} of {shards['shards']} shards are this pod's")]
    if own:
        found.append(_proven("they are proven for", shards["remainingSeconds"] - lag))
    if shards["unowned"]:
        found.append(line(f"{shards['unowned']} shards have no owner", BAD))
    rows = [(it["pod"], it["owned"], it["settled"]) for it in shards["members"]]
    return [*found, table(("member", "shards", "settled"), rows)]


# ── relay ──


def _relay(status: Json, wall: float, lag: float) -> Drawing:
    link, memory, journal = status["link"], status["memory"], status["journal"]
    words = _LINKS[link["state"]]
    if link["state"] == "down" and link["downSeconds"] is None:
        words = ("Whether the link is up is not known yet", WARN)
    through = f"the neighbour {link['via']}" if link["via"] else link["proxy"]
    kept = journal["directory"] or "memory"
    found: Drawing = [
        headline(*words),
        facts(
            [
                ("ready", "yes" if status["isReady"] else f"no: {status['lack']}"),
                ("upstream", link["server"]),
                ("through", through),
                ("why down", link["cause"]),
                ("running for", age(status["uptimeSeconds"])),
                ("kept in", line(journal["failure"], BAD) if journal["failure"] else kept),
                ("version", status["version"]),
            ]
        ),
        *_last_day(link, status["uptimeSeconds"], wall),
        _budget("objects", status["objects"], status["maxObjects"]),
    ]
    if memory["limitBytes"]:
        used, limit = memory["usedBytes"], memory["limitBytes"]
        found.append(bar("memory of streams", used, limit, f"{size(used)} of {size(limit)}"))
    found.append(_budget("watches", status["watchers"], status["maxWatchers"]))
    rows = [
        (
            it["resource"].removesuffix("."),
            it["namespace"] or "all",
            " & ".join(filter(None, (it["labelSelector"], it["fieldSelector"]))) or "-",
            f"{it['state']}: {it['refusal']}" if it["refusal"] else it["state"],
            it["objects"],
            age(it["ageSeconds"]),
            it["watchers"],
        )
        for it in status["streams"]
    ]
    titles = ("stream", "namespace", "selector", "state", "objects", "age", "watches")
    return [*found, table(titles, rows)] if rows else found


def _budget(label: str, used: float, limit: float) -> RenderableType:
    return bar(label, used, limit, f"{used} of {limit}")


def _last_day(link: Json, uptime: float, wall: float) -> Drawing:
    outages = [
        (moment(it["began"]) or wall, (moment(it["began"]) or wall) + it["seconds"], it["why"])
        for it in link["outages"]
    ]
    if link["downSeconds"] is not None:
        outages.append((wall - link["downSeconds"], wall, link["cause"]))
    begin = wall - DAY
    known = min([wall - uptime, *(it[0] for it in outages)])
    shown = [it for it in outages if it[1] > begin]
    spans = [Span(known, wall, UP), *(Span(first, last, DOWN) for first, last, _ in shown)]
    lost = sum(last - max(first, begin) for first, last, _ in shown)
    label = f"{len(shown)} outages in the last 24 hours, {age(lost)} in all"
    rows = [
        (f"{age(wall - first)} ago", "still" if last == wall else age(last - first), why or "-")
        for first, last, why in reversed(shown)
    ]
    words = line(label if shown else "no outage in the last 24 hours", FAINT)
    found: Drawing = [strip(begin, wall, spans), words]
    return [*found, table(("outage", "lasted", "why"), rows)] if rows else found


# ── pool ──


def _pool(status: Json, wall: float, lag: float) -> Drawing:
    return _controller(status, lag) if "pools" in status else _member(status)


def _member(status: Json) -> Drawing:
    if status["ownLink"]:
        words = ("Reaches the cloud by its own link", GOOD)
    elif status["via"]:
        words = (f"Reaches the cloud through {status['via']}", WARN)
    else:
        words = ("Is cut off from the cloud", BAD)
    lends = [f"{status['node']} lends its link to {it}" for it in status["borrowers"]]
    if status["via"]:
        lends.insert(0, f"{status['via']} lends its link to {status['node']}")
    styles = {"Alive": GOOD, "Degraded": WARN, "Silent": BAD}
    rows = [
        (
            it["node"],
            line(it["verdict"] or "never heard", styles.get(it["verdict"], FAINT)),
            age(it["seconds"]),
            it["link"],
        )
        for it in status["peers"]
    ]
    return [
        headline(*words),
        facts(
            [
                ("node", status["node"]),
                ("pool", status["pool"]),
                ("ready", "yes" if status["isReady"] else f"no: {status['lack']}"),
                ("role", status["role"]),
                ("hub", status["hub"] or "none"),
                ("kubelet", "answers" if status["kubelet"] else "does not answer"),
                ("lent since the start", size(status["lentBytes"])),
                ("running for", age(status["uptimeSeconds"])),
                ("version", status["version"]),
            ]
        ),
        *(line(it) for it in lends),
        table(("peer", "verdict", "for", "its link"), rows) if rows else line("no peer", FAINT),
    ]


def _controller(status: Json, lag: float) -> Drawing:
    leader = status["leader"]
    words = "This controller leads" if leader["isLeader"] else "No controller leads"
    if leader["holder"] and not leader["isLeader"]:
        words = f"{leader['holder']} leads"
    is_led = leader["isLeader"] or leader["holder"]
    found: Drawing = [headline(words, GOOD if is_led else BAD)]
    if leader["isLeader"]:
        found.append(_proven("the lead is proven for", leader["remainingSeconds"] - lag))
    rows = [
        (
            it["pool"],
            *(it[name] for name in ("members", "ready", "dead", "cut", "refused", "notReachable")),
            "; ".join(f"{each['node']}: {each['why']}" for each in it["cannotTell"]) or "-",
        )
        for it in status["pools"]
    ]
    titles = ("pool", "members", "ready", "dead", "cut", "refused", "not reachable", "cannot tell")
    return [
        *found,
        facts(
            [
                ("ready", "yes" if status["isReady"] else f"no: {status['lack']}"),
                ("may write", leader["mayAct"]),
                ("running for", age(status["uptimeSeconds"])),
                ("version", status["version"]),
            ]
        ),
        table(titles, rows) if rows else line("no pool", FAINT),
    ]


# ── GM and LC ──


def _gm(status: Json, wall: float, lag: float) -> Drawing:
    leader, shards, backlog = status["leader"], status["shards"], status["backlog"]
    if shards:
        words = f"This GM owns {len(shards['owned'])} of {shards['shards']} shards"
        is_led, left = bool(shards["owned"]), shards["remainingSeconds"]
    else:
        words = "This GM leads" if leader["isLeader"] else f"{leader['holder'] or 'No GM'} leads"
        is_led, left = leader["isLeader"] or leader["holder"], leader["remainingSeconds"]
    found: Drawing = [headline(words, GOOD if is_led else BAD)]
    if left:
        found.append(_proven("that is proven for", left - lag))
    if shards and shards["unowned"]:
        found.append(line(f"{shards['unowned']} shards have no owner", BAD))
    found.append(
        facts(
            [
                ("ready", "yes" if status["isReady"] else f"no: {status['lack']}"),
                ("link", "up" if status["isLinkUp"] else "down"),
                ("mode", status["mode"]),
                ("waiting", f"objects {backlog['objects']}, reports {backlog['reports']}"),
                ("refused", _refused(status["reports"])),
                ("running for", age(status["uptimeSeconds"])),
                ("version", status["version"]),
            ]
        )
    )
    jobs = [(it["kind"], it["state"] or "none yet", it["objects"]) for it in status["jobs"]]
    nodes = [
        (it["node"], it["transport"], it["isServing"], it["backlog"], age(it["ageSeconds"]))
        for it in status["nodes"]
    ]
    if jobs:
        found.append(table(("jobs", "stage", "number"), jobs))
    if nodes:
        found.append(table(("local controller", "by", "served", "waiting", "for"), nodes))
    return found


def _refused(reports: Json) -> str:
    count, why = reports["refused"], reports["lastRefusal"]
    return f"reports {count}, the last: {why}" if count and why else f"reports {count}"


def _lc(status: Json, wall: float, lag: float) -> Drawing:
    link, store, reports = status["link"], status["store"], status["reports"]
    peer = "the relay" if status["mode"] == "relay" else "GM"
    is_up = "up" if link["isUp"] else "down"
    oldest = reports["oldestSeconds"]
    waits = f", the oldest for {age(oldest)}" if oldest is not None else ""
    kinds = Counter(it["kind"] for it in status["objects"])
    found: Drawing = [
        headline(f"The link to {peer} is {is_up}", GOOD if link["isUp"] else BAD),
        facts(
            [
                ("node", status["node"]),
                ("peer", f"{link['peer'] or 'none yet'}, {is_up} for {age(link['forSeconds'])}"),
                ("why", link["problem"]),
                ("reports", f"{reports['waiting']} waiting{waits}; {reports['refused']} refused"),
                ("store", line(store["failure"], BAD) if store["failure"] else store["directory"]),
                ("set aside", store["note"]),
                (
                    "objects",
                    ", ".join(f"{number} {kind}" for kind, number in sorted(kinds.items())),
                ),
                ("running for", age(status["uptimeSeconds"])),
                ("version", status["version"]),
            ]
        ),
    ]
    for it in status["transfers"]:
        of = size(it["size"]) if it["size"] else "a size that is not known"
        shown = f"{size(it['done'])} of {of}"
        found.append(bar(it["url"], it["done"], it["size"] or 0.0, shown))
    refusals = [(it["kind"], it["name"], it["seq"], it["reason"]) for it in reports["refusals"]]
    if refusals:
        found.append(table(("refused", "name", "report", "why"), refusals))
    rows = [
        (it["kind"], it["namespace"], it["name"], it["note"] or "-") for it in status["objects"]
    ]
    return [*found, table(("object", "namespace", "name", "state"), rows)] if rows else found


_DRAWINGS: dict[str, Callable[[Json, float, float], Drawing]] = {
    "elector": _elector,
    "relay": _relay,
    "pool": _pool,
    "gm": _gm,
    "lc": _lc,
}
