"""The /status document: what people ask about this GM, as of one moment.

Owns names and shapes; values come in. Shows no object's content. Pure.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class LeaderStatus:
    """`remaining`: seconds for which the lead is proven here."""

    is_leader: bool
    may_act: bool
    holder: str
    term: int | None
    terms: int
    remaining: float


@dataclass(frozen=True)
class CollectionStatus:
    kind: str
    objects: int
    resource_version: int
    is_synced: bool


@dataclass(frozen=True)
class NodeStatus:
    """One connected LC; times in seconds."""

    node: str
    transport: str
    version: str
    age: float
    is_serving: bool
    backlog: int
    reports: int
    last_report_age: float | None


@dataclass(frozen=True)
class Backlog:
    """What waits: objects to be decided, and those to be tried again; Events to be told, reports to
    be stored, reports in NodeReports that were not taken in or not pruned yet; objects whose
    reports wait for others."""

    objects: int
    retries: int
    events: int
    reports: int
    node_reports: int
    held_back: int


@dataclass(frozen=True)
class ReportCounts:
    """Since the process began."""

    stored: int
    folded: int
    without_effect: int
    refused: int
    lost: int
    last_refusal: str


@dataclass(frozen=True)
class StateCount:
    kind: str
    state: str
    objects: int


@dataclass(frozen=True)
class GmStatus:
    version: str
    mode: str
    uptime: float
    lack: str
    leader: LeaderStatus
    is_link_up: bool
    backlog: Backlog
    reports: ReportCounts
    nodes: Sequence[NodeStatus]
    jobs: Sequence[StateCount]
    collections: Sequence[CollectionStatus]

    def document(self) -> dict[str, Any]:
        return {
            "version": self.version,
            "mode": self.mode,
            "uptimeSeconds": round(self.uptime, 3),
            "isReady": not self.lack,
            "lack": self.lack or None,
            "isLinkUp": self.is_link_up,
            "leader": {
                "isLeader": self.leader.is_leader,
                "mayAct": self.leader.may_act,
                "holder": self.leader.holder,
                "term": self.leader.term,
                "terms": self.leader.terms,
                "remainingSeconds": round(self.leader.remaining, 3),
            },
            "backlog": {
                "objects": self.backlog.objects,
                "retries": self.backlog.retries,
                "events": self.backlog.events,
                "reports": self.backlog.reports,
                "nodeReports": self.backlog.node_reports,
                "heldBack": self.backlog.held_back,
            },
            "reports": {
                "stored": self.reports.stored,
                "folded": self.reports.folded,
                "withoutEffect": self.reports.without_effect,
                "refused": self.reports.refused,
                "lost": self.reports.lost,
                "lastRefusal": self.reports.last_refusal or None,
            },
            "nodes": [_node(each) for each in self.nodes],
            "jobs": [
                {"kind": each.kind, "state": each.state, "objects": each.objects}
                for each in self.jobs
            ],
            "collections": [
                {
                    "kind": each.kind,
                    "objects": each.objects,
                    "resourceVersion": each.resource_version,
                    "isSynced": each.is_synced,
                }
                for each in self.collections
            ],
        }

    def json(self) -> bytes:
        return json.dumps(self.document(), separators=(",", ":")).encode()


def _node(node: NodeStatus) -> dict[str, Any]:
    last = node.last_report_age
    return {
        "node": node.node,
        "transport": node.transport,
        "version": node.version,
        "ageSeconds": round(node.age, 3),
        "isServing": node.is_serving,
        "backlog": node.backlog,
        "reports": node.reports,
        "lastReportSeconds": None if last is None else round(last, 3),
    }
