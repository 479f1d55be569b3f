"""How it stands on this node, as one document: for `lc status`, `/status` and the metrics."""

from dataclasses import asdict, dataclass
from typing import Any

import msgspec

from lc.files.remote_files import Transfer
from lc.link import GmLinkStatus
from lc.store.tables import StoredRefusal


class ObjectStatus(msgspec.Struct, frozen=True, rename="camel"):
    """`note`: how it stands with it, for people; "" where there is nothing to say."""

    kind: str
    namespace: str
    name: str
    uid: str
    resource_version: str
    note: str


@dataclass(frozen=True, slots=True)
class ReportsStatus:
    """`oldest`: seconds since the oldest that waits was queued, None where none waits.
    `of_unknown_jobs`: those that wait for their job first."""

    waiting: int
    oldest: float | None
    refused: int
    refusals: tuple[StoredRefusal, ...]
    of_unknown_jobs: int


@dataclass(frozen=True, slots=True)
class StoreStatus:
    """`note`: what was set aside; `failure`: why the disk takes nothing now; "" for none."""

    directory: str
    id: str
    note: str
    failure: str
    failures: int


@dataclass(frozen=True, slots=True)
class LcCounters:
    """Since the start: what workers said, by answer; counts of datasets; reports of unknown jobs
    that were dropped, by reason."""

    worker_reports: tuple[tuple[int, int], ...]
    dataset_counts: int
    dataset_problems: int
    unknown_jobs_dropped: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class LcStatus:
    """`link_for`: seconds in its present state; `objects` by kind and name."""

    node: str
    mode: str
    version: str
    uptime: float
    link: GmLinkStatus
    link_for: float
    store: StoreStatus
    reports: ReportsStatus
    objects: tuple[ObjectStatus, ...]
    transfers: tuple[Transfer, ...]
    counters: LcCounters

    def document(self) -> dict[str, Any]:
        """As JSON, in Kubernetes' camelCase."""
        return {
            "node": self.node,
            "mode": self.mode,
            "version": self.version,
            "uptimeSeconds": round(self.uptime, 3),
            "link": {
                "isUp": self.link.is_up,
                "peer": self.link.peer,
                "forSeconds": round(self.link_for, 3),
                "problem": self.link.problem,
            },
            "store": asdict(self.store),
            "reports": {
                "waiting": self.reports.waiting,
                "oldestSeconds": self.reports.oldest,
                "ofUnknownJobs": self.reports.of_unknown_jobs,
                "refused": self.reports.refused,
                "refusals": [_refusal(each) for each in self.reports.refusals],
            },
            "objects": list(map(msgspec.to_builtins, self.objects)),
            "transfers": [
                {"url": each.url, "done": each.done, "size": each.size} for each in self.transfers
            ],
        }


def objects_document(objects: tuple[ObjectStatus, ...]) -> dict[str, Any]:
    """What `GET /sedna/objects` answers."""
    return {"objects": list(map(msgspec.to_builtins, objects))}


def _refusal(it: StoredRefusal) -> dict[str, Any]:
    return {**it.key._asdict(), "uid": it.uid, "seq": it.seq, "reason": it.reason}
