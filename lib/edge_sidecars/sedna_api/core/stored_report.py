"""Reports that are in a NodeReport: of one object, and how far the object has taken them in.

Owns the order in which they count: within a store by seq, of two stores the one with the higher
epoch later. Guarantees: What `mergeable` gives was never taken in, comes in the order in which it
was stored, and no event comes before what was stored ahead of it. An entry's `size` is never below
what the API server stores. What was read shares no bytes with the document that it came in. Knows
no rule of storing, and nothing of what a report's effect on its object is.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Self

import msgspec

from edge_sidecars.sedna_api.core.api_object import Json
from edge_sidecars.sedna_api.core.report import MalformedReport, phase_of

# The field of every status that counts reports: a list map, its key is the node.
APPLIED_REPORTS: Final = "appliedReports"


@dataclass(frozen=True, slots=True)
class StoredReport:
    """`previous`: the seq of the same store that was stored right before it, 0 for the first."""

    epoch: int
    store_id: str
    seq: int
    previous: int
    is_event: bool
    worker: str
    body: bytes

    @property
    def phase(self) -> str:
        return phase_of(self.body)

    def json(self) -> Json:
        """The body anew each time: the caller may change it."""
        decoded: Json = msgspec.json.decode(self.body)
        return decoded


class AppliedReport(msgspec.Struct, frozen=True):
    """An item of an object's status.appliedReports: the last report of a node that it took in."""

    node: str
    store_id: str = msgspec.field(name="storeID")
    epoch: int
    seq: int

    @classmethod
    def of(cls, node: str, report: StoredReport) -> Self:
        return cls(node, report.store_id, report.epoch, report.seq)

    def covers(self, report: StoredReport) -> bool:
        """Whether this report was taken in, or is of a store that has passed."""
        if report.store_id == self.store_id:
            return report.seq <= self.seq
        return report.epoch < self.epoch


@dataclass(frozen=True, slots=True)
class Mergeable:
    """`waits_for`: why not all that is pending is among `reports`; "" where it is."""

    reports: tuple[StoredReport, ...]
    waits_for: str = ""

    def __iter__(self) -> Iterator[StoredReport]:
        return iter(self.reports)

    def __len__(self) -> int:
        return len(self.reports)


def mergeable(pending: Sequence[StoredReport], applied: AppliedReport | None) -> Mergeable:
    """What an object may take in now, in order.

    An event waits where the object is older than its NodeReport: what stood before it was taken in
    and pruned, and this copy of the object does not know. Where the object has taken in nothing of
    the event's store there is nothing to compare, and its write, bound to a resourceVersion, fails
    if the copy is old.
    """
    ready: list[StoredReport] = []
    for report in pending:
        if applied is not None and applied.covers(report):
            continue
        if report.is_event and applied is not None and _is_early(report, applied):
            waits_for = f"report {report.seq} follows {report.previous}, taken in: {applied.seq}"
            return Mergeable(tuple(ready), waits_for)
        ready.append(report)
        applied = AppliedReport("", report.store_id, report.epoch, report.seq)
    return Mergeable(tuple(ready))


def _is_early(report: StoredReport, applied: AppliedReport) -> bool:
    return report.store_id == applied.store_id and report.previous > applied.seq


def applied_of(status: object) -> dict[str, AppliedReport]:
    """By node, of an object's status, which may be missing. Raises `MalformedReport`."""
    if not isinstance(status, Mapping):
        return {}
    try:
        found = msgspec.convert(status.get(APPLIED_REPORTS) or [], list[AppliedReport])
    except msgspec.ValidationError as error:
        raise MalformedReport(f"status.{APPLIED_REPORTS}: {error}") from error
    return {it.node: it for it in found}


def applied_json(applied: Mapping[str, AppliedReport]) -> list[Json]:
    """In the order of the nodes: the same for each writer."""
    return [msgspec.to_builtins(applied[node]) for node in sorted(applied)]


# Bytes of JSON besides what is counted: names of fields, numbers, punctuation.
_ENTRY: Final = 96
_REPORT: Final = 176

_Count = Annotated[int, msgspec.Meta(ge=0)]


@dataclass(frozen=True, slots=True)
class Entry:
    """`seq` is the highest of the present store that was ever stored; `name` is the object's."""

    uid: str
    kind: str
    name: str
    seq: int
    reports: tuple[StoredReport, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of JSON at most."""
        own = _ENTRY + len(self.uid) + len(self.kind) + len(self.name)
        return own + sum(map(_size, self.reports))

    def to_json(self) -> Json:
        told: Json = {"uid": self.uid, "kind": self.kind, "name": self.name, "seq": self.seq}
        if self.reports:
            told["reports"] = [_report_json(report) for report in self.reports]
        return told


def _size(report: StoredReport) -> int:
    """The API server keeps what Go's encoder writes: each of < > & as six bytes."""
    body = report.body
    escaped = body.count(b"<") + body.count(b">") + body.count(b"&")
    return _REPORT + len(report.store_id) + 6 * len(report.worker) + len(body) + 5 * escaped


def _report_json(report: StoredReport) -> Json:
    return {
        "epoch": report.epoch,
        "storeID": report.store_id,
        "seq": report.seq,
        "previous": report.previous,
        "event": report.is_event,
        "worker": report.worker,
        "body": report.json(),
    }


class WireReport(msgspec.Struct):
    epoch: _Count
    store_id: str = msgspec.field(name="storeID")
    seq: _Count
    body: dict[str, msgspec.Raw]
    previous: _Count = 0
    event: bool = False
    worker: str = ""


class WireEntry(msgspec.Struct):
    uid: str
    kind: str
    name: str
    seq: _Count
    reports: list[WireReport] = []


def entry_of(read: WireEntry) -> Entry:
    reports = tuple(
        StoredReport(
            epoch=it.epoch,
            store_id=it.store_id,
            seq=it.seq,
            previous=it.previous,
            is_event=it.event,
            worker=it.worker,
            body=msgspec.json.format(msgspec.json.encode(it.body), indent=-1),
        )
        for it in read.reports
    )
    return Entry(read.uid, read.kind, read.name, read.seq, reports)
