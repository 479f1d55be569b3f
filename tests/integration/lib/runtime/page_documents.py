"""Recorded documents of each component, one for each state that its page draws."""

from dataclasses import dataclass, replace
from typing import Any

import msgspec

from gm.hub.stream import Connected
from gm.telemetry.status import (
    Backlog,
    CollectionStatus,
    GmMemberStatus,
    GmStatus,
    LeaderStatus,
    ReportCounts,
    ShardsStatus,
    StateCount,
)
from lc.status import (
    LcStatus,
    LinkStatus,
    ObjectStatus,
    RefusalStatus,
    ReportsStatus,
    StoreStatus,
    TransferStatus,
)
from relay_sidecar.telemetry.status import (
    JournalStatus,
    MemoryBudget,
    Outage,
    RelayStatus,
    StreamStatus,
    UpstreamLinkStatus,
)

# Of a pod that is named to be taken for markup.
MARKUP = "<img src=x onerror=alert(1)>"
NOW = 1_795_903_389.0
LISTENER: dict[str, str | int] = {
    "listen": "127.0.0.1:10551",
    "connections": 3,
    "maxConnections": 64,
    "turnedAway": 0,
    "unread": 0,
    "unfinishedBytes": 0,
    "maxUnfinishedBytes": 1048576,
    "malformed": 0,
}


@dataclass(frozen=True)
class State:
    """`shows`: texts that a person reads then."""

    name: str
    status: dict[str, Any]
    shows: tuple[str, ...]


# ── elector ──

_LEADER = {
    "isLeader": True,
    "role": "leader",
    "identity": "web-0_f2287247-e4b0-418d-8b6b-2434c5a82077",
    "holder": "web-0_f2287247-e4b0-418d-8b6b-2434c5a82077",
    "holderPod": "web-0",
    "lease": {"namespace": "default", "name": "web"},
    "validUntil": 46899.664142807,
    "remainingSeconds": 12.533,
    "termSeconds": 169.705,
    "acquireTime": "2026-11-28T22:00:20.240180Z",
    "renewTime": "2026-11-28T22:03:08.480867Z",
    "leaseTransitions": 3,
    "fencingToken": 22,
    "lastContactSeconds": 1.464,
    "reason": "holds the Lease",
}
_STANDBY = {
    "isLeader": False,
    "role": "standby",
    "identity": "web-1_0b8a",
    "holder": MARKUP,
    "holderPod": MARKUP,
    "validUntil": None,
    "remainingSeconds": 0.0,
    "termSeconds": None,
    "fencingToken": None,
    "reason": f"held by {MARKUP}; free in 13.9s unless renewed",
}
_UNKNOWN = {
    "holder": "",
    "holderPod": "",
    "acquireTime": None,
    "renewTime": None,
    "leaseTransitions": None,
    "lastContactSeconds": None,
    "reason": "no contact with the API server yet",
}
_HISTORY = [
    {
        "holder": "web-2_11",
        "from": "2026-11-28T20:10:00Z",
        "to": "2026-11-28T21:00:01Z",
        "why": "the main was unhealthy",
        "seen": True,
    },
    {
        "holder": f"{MARKUP}_12",
        "from": "2026-11-28T21:00:02Z",
        "to": "2026-11-28T22:00:20Z",
        "why": "released at shutdown",
    },
    {"holder": "web-0_f2", "from": "2026-11-28T22:00:20Z"},
]
_SHARDS = {
    "shards": 16,
    "owned": [
        {"shard": it, "range": [], "fencingToken": 1, "ownedSeconds": 9.0} for it in range(6)
    ],
    "handingOver": [{"shard": 6, "range": [], "fencingToken": 1}],
    "selector": None,
    "validUntil": 46899.6,
    "remainingSeconds": 9.1,
    "identity": "web-0_f2",
    "members": [
        {"identity": "web-0_f2", "pod": "web-0", "owned": 6, "settled": True},
        {"identity": f"{MARKUP}_1", "pod": MARKUP, "owned": 7, "settled": False},
    ],
    "unowned": 2,
    "reason": "",
}


_MOVES = {
    "switchover": None,
    "hold": None,
    "problem": "",
    "priority": 0,
    "leaderPriority": 0,
    "asksInSeconds": None,
}
_PRIORITY = _MOVES | {"priority": 5, "leaderPriority": 2, "asksInSeconds": 24.2}
_SWITCHOVER = _MOVES | {"switchover": {"to": MARKUP, "until": "2026-11-28T22:04:00Z"}}
_HOLD = _MOVES | {"hold": {"until": "2026-11-29T00:00:00Z"}}


def _candidate(pod: str, **more: Any) -> dict[str, Any]:
    unknown = {"own": False, "leads": False, "named": False, "ledUntil": None}
    return {"pod": pod, **unknown, "priority": None, "eligible": None, **more}


_CANDIDATES = [
    _candidate("web-0", own=True, leads=True, priority=0, eligible=True),
    _candidate(MARKUP, named=True, ledUntil="2026-11-28T22:00:20Z"),
    _candidate("web-2", ledUntil="2026-11-28T21:00:01Z"),
]


def _elector(**more: Any) -> dict[str, Any]:
    own = [_candidate("web-0", own=True, priority=0, eligible=True)]
    found = {"history": [], "candidates": own, "moves": _MOVES, "shards": None}
    return {"leader": _LEADER, **found, **more}


ELECTOR = (
    State(
        "leader",
        _elector(history=_HISTORY, candidates=_CANDIDATES),
        (
            "web-0 leads",
            "lead is proven for",
            "released at shutdown",
            "seen",
            "this pod, leads",
            "kubectl elector status web -n default",
            "Nothing is pending",
            MARKUP,
        ),
    ),
    State(
        "switchover",
        _elector(moves=_SWITCHOVER, candidates=_CANDIDATES),
        (f"A switchover to {MARKUP} is asked for", "named by the switchover, led until"),
    ),
    State(
        "switchover that is not done",
        _elector(moves=_SWITCHOVER | {"problem": f"the switchover came too late {MARKUP}"}),
        (f"Not done: the switchover came too late {MARKUP}",),
    ),
    State(
        "hold",
        _elector(leader=_LEADER | _STANDBY | {"holder": "", "holderPod": ""}, moves=_HOLD),
        ("No pod leads: a hold keeps every elector out", "A hold keeps every elector out until"),
    ),
    State(
        "priority",
        _elector(leader=_LEADER | _STANDBY, moves=_PRIORITY),
        ("asks for the lead in 24s: its priority is 5, the leader's 2",),
    ),
    State(
        "standby",
        _elector(leader=_LEADER | _STANDBY, history=_HISTORY),
        (f"{MARKUP} leads", "this one is standby", "free in 13.9s"),
    ),
    State(
        "without contact",
        _elector(leader=_LEADER | _STANDBY | _UNKNOWN),
        ("Who leads is not known", "no contact with the API server yet", "none yet"),
    ),
    State("nobody", _elector(leader=_LEADER | _STANDBY | {"holderPod": ""}), ("No pod leads",)),
    State(
        "shards",
        _elector(shards=_SHARDS, moves=None, candidates=[]),
        ("6 of 16", "2 shards have no owner", MARKUP),
    ),
)

# ── relay ──

_STREAM = StreamStatus(
    resource="pods.",
    namespace="",
    label_selector="",
    field_selector="spec.nodeName=edge-a",
    state="live",
    refusal="",
    objects=31,
    size_bytes=182_000,
    resource_version=4711,
    age=0.6,
    watchers=4,
)
_UP = UpstreamLinkStatus(
    server="https://api.example:6443",
    state="up",
    down_for=None,
    outages=[Outage(NOW - 190_000.0, 60.0), Outage(NOW - 50_000.0, 7300.0), Outage(NOW - 900, 5)],
)
_RELAY = RelayStatus(
    version="0.3.0",
    uptime=70_000.0,
    lack="",
    access="own",
    link=_UP,
    journal=JournalStatus(directory="/var/lib/relay", failure=None, note=None),
    streams=[
        _STREAM,
        replace(
            _STREAM,
            resource="configmaps.",
            namespace="kube-system",
            label_selector=MARKUP,
            state="offline",
            refusal="403: not allowed",
            age=None,
        ),
    ],
    watchers=9,
    max_watchers=1000,
    max_objects=50_000,
    budget=MemoryBudget(used=9_000_000, limit=64_000_000, seen_used=100, seen_limit=8_000_000),
    listeners=[LISTENER],
)


def _relay(link: UpstreamLinkStatus, **more: Any) -> dict[str, Any]:
    return replace(_RELAY, link=link, **more).document()


RELAY = (
    State(
        "up",
        _relay(_UP),
        (
            "The link is up",
            "2 outages in the last 24 hours, 2h1m in all",
            "configmaps",
            MARKUP,
            "offline: 403: not allowed",
            "watches: 9 of 1000",
            "8.6 MiB of 61.0 MiB",
        ),
    ),
    State(
        "down",
        _relay(
            replace(_UP, state="down", down_for=4000.0, cause=f"no route to host {MARKUP}"),
            lack="the journal is being read",
        ),
        ("The link is down", "no route to host", "still", "3 outages", "no: the journal", MARKUP),
    ),
    State(
        "refused",
        _relay(replace(_UP, state="unauthorized", outages=[])),
        ("credentials are refused", "no outage in the last 24 hours"),
    ),
    State(
        "behind a relay that is cut off",
        _relay(replace(_UP, state="relayed", down_for=3.0)),
        ("The upstream relay is cut off itself",),
    ),
    State(
        "started offline",
        _relay(replace(_UP, state="down", outages=[], was_up=False), streams=[], uptime=2.0),
        ("not known yet", "none"),
    ),
)

# ── pool ──

_MEMBER = {
    "version": "0.3.0",
    "uptimeSeconds": 9000.0,
    "listeners": [LISTENER],
    "node": "edge-a",
    "pool": "hall-1",
    "isReady": True,
    "lack": None,
    "role": "Hub",
    "hub": "edge-a",
    "link": "Up",
    "via": "",
    "ownLink": True,
    "lends": True,
    "kubelet": True,
    "borrowers": ["edge-b"],
    "lentBytes": 123_456_789,
    "heartbeats": 4000,
    "streams": [{}],
    "shared": [{}],
    "readers": ["edge-b"],
    "peers": [
        {
            "node": name,
            "addresses": ["10.0.0.2:10555", "[fd00::2]:10555"],
            "verdict": verdict,
            "seconds": seconds,
            "link": link,
        }
        for name, verdict, seconds, link in (
            ("edge-b", "Alive", 88.0, "Detour"),
            ("edge-c", "Degraded", 7.0, "Up"),
            (MARKUP, "Silent", 4000.0, None),
            ("edge-e", "NeverHeard", 9000.0, None),
        )
    ],
}
_CONTROLLER = {
    "version": "0.3.0",
    "uptimeSeconds": 60.0,
    "listeners": [LISTENER],
    "isReady": True,
    "lack": None,
    "leader": {
        "isLeader": True,
        "mayAct": True,
        "holder": "pool-0",
        "term": 3,
        "remainingSeconds": 11.0,
    },
    "pools": [
        {
            "pool": MARKUP,
            "members": 5,
            "ready": 4,
            "dead": 1,
            "cut": 0,
            "refused": 0,
            "notReachable": 0,
            "cannotTell": [{"node": "edge-c", "why": "too few witnesses"}],
            "keepPods": ["edge-d"],
        }
    ],
    "malformed": 0,
}
POOL = (
    State(
        "lends",
        _MEMBER,
        ("by its own link", "edge-a lends its link to edge-b", "118 MiB", "Degraded", MARKUP),
    ),
    State(
        "borrows",
        _MEMBER | {"ownLink": False, "via": "edge-b", "borrowers": [], "lends": False},
        ("through edge-b", "edge-b lends its link to edge-a"),
    ),
    State(
        "cut off",
        _MEMBER | {"ownLink": False, "borrowers": [], "peers": [], "hub": None},
        ("Is cut off from the cloud", "no peer", "No link of this node is lent"),
    ),
    State("controller", _CONTROLLER, ("controller leads", "edge-c: too few witnesses", MARKUP)),
)

# ── GM ──

_GM = GmStatus(
    version="0.3.0",
    mode="lease",
    uptime_seconds=900.0,
    is_ready=True,
    lack=None,
    is_link_up=True,
    leader=LeaderStatus(
        is_leader=True, may_act=True, holder="gm-0", term=4, terms=1, remaining_seconds=8.0
    ),
    shards=None,
    backlog=Backlog(objects=1, retries=2, events=0, reports=3, node_reports=0, held_back=0),
    reports=ReportCounts(
        stored=80, folded=3, without_effect=1, refused=1, lost=0, last_refusal="too old"
    ),
    nodes=[
        Connected(
            node=MARKUP,
            transport="grpc",
            version="0.3.0",
            age_seconds=77.0,
            is_serving=True,
            backlog=0,
            reports=12,
            last_report_seconds=None,
        )
    ],
    jobs=[
        StateCount("FederatedLearningJob", "Running", 3),
        StateCount("IncrementalLearningJob", "Train Waiting", 1),
    ],
    collections=[CollectionStatus("Dataset", 9, 4711, True)],
    listeners=[LISTENER],
)


def _gm(**more: Any) -> dict[str, Any]:
    fields = {name: getattr(_GM, name) for name in _GM.__struct_fields__}
    return GmStatus(**fields | more).document()


GM = (
    State("leads", _gm(), ("This GM leads", "Train Waiting", "1: too old", "1m17s", MARKUP)),
    State(
        "standby",
        _gm(
            leader=LeaderStatus(
                is_leader=False,
                may_act=False,
                holder=MARKUP,
                term=None,
                terms=0,
                remaining_seconds=0.0,
            ),
            is_ready=False,
            lack="Dataset is not listed yet",
            jobs=[],
            nodes=[],
            collections=[],
        ),
        (f"{MARKUP} leads", "no: Dataset is not listed yet", "none"),
    ),
    State(
        "shards",
        _gm(
            shards=ShardsStatus(
                shards=64,
                owned=list(range(30)),
                handing_over=[],
                unowned=4,
                moves=1,
                remaining_seconds=7.0,
                members=[GmMemberStatus("gm-0", 30, True), GmMemberStatus("gm-1", 30, False)],
                reason="four are on their way",
            )
        ),
        ("This GM owns 30 of 64 shards", "4 shards have no owner", "gm-1"),
    ),
)

# ── LC ──

_LC = LcStatus(
    node="edge-a",
    mode="stream",
    version="0.3.0",
    uptime_seconds=900.0,
    link=LinkStatus(is_up=True, peer="gm-0:9001", for_seconds=77.0, problem=""),
    store=StoreStatus("/rootfs/var/lib/sedna", "5f3a", note="", failure="", failures=0),
    reports=ReportsStatus(
        waiting=0, oldest_seconds=None, of_unknown_jobs=0, refused=0, refusals=()
    ),
    objects=(
        ObjectStatus("dataset", "shop", "photos", "u1", "41", note="9 samples"),
        ObjectStatus("dataset", "shop", MARKUP, "u2", "42", note="no such file"),
        ObjectStatus("federatedlearningjob", "shop", "shelves", "u3", "43", note=""),
    ),
    transfers=(TransferStatus("s3://models/a.ckpt", done=3 * 1024**2, size=12 * 1024**2),),
    listeners=[LISTENER],
)


def _lc(**more: Any) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(_LC, **more))
    return found


LC = (
    State(
        "up",
        _lc(),
        (
            "The link to GM is up",
            "gm-0:9001",
            "2 dataset, 1 federatedlearningjob",
            "no such file",
            "s3://models/a.ckpt: 3.0 MiB of 12.0 MiB",
            MARKUP,
        ),
    ),
    State(
        "offline",
        _lc(
            mode="relay",
            link=LinkStatus(False, "", 4000.0, f"the relay says: no route to host {MARKUP}"),
            reports=ReportsStatus(
                waiting=12,
                oldest_seconds=3900.0,
                of_unknown_jobs=2,
                refused=1,
                refusals=(
                    RefusalStatus("federatedlearningjob", "shop", MARKUP, "u3", 7, "too old"),
                ),
            ),
            transfers=(TransferStatus("s3://models/b.ckpt", done=5, size=None),),
        ),
        (
            "The link to the relay is down",
            "1h6m",
            "none yet",
            "no route to host",
            "1h5m",
            "too old",
            "s3://models/b.ckpt: 5 B, of a size that is not known",
            MARKUP,
        ),
    ),
    State(
        "disk full",
        _lc(
            store=StoreStatus(
                "/rootfs/var/lib/sedna", "77", "lc.db.broken", f"disk full {MARKUP}", failures=4
            ),
            objects=(),
            transfers=(),
        ),
        ("disk full", "lc.db.broken", "none", MARKUP),
    ),
)

STATES = {"elector": ELECTOR, "relay": RELAY, "pool": POOL, "gm": GM, "lc": LC}
