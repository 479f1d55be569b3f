"""Reports that stand in a NodeReport, and how far an object has taken them in.

Owns the order in which they count: within a store by seq, of two stores the one with the higher
epoch later. Guarantees: what `mergeable` gives was never taken in, comes in the order in which it
was stored, and no event comes before what was stored ahead of it. Knows nothing of what a report's
effect on its object is.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

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
        """The body anew each time: whoever gets it may change it."""
        decoded: Json = msgspec.json.decode(self.body)
        return decoded


@dataclass(frozen=True, slots=True)
class AppliedReport:
    """An item of an object's status.appliedReports: the last report of a node that it took in."""

    node: str
    store_id: str
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

    def to_json(self) -> Json:
        return {"node": self.node, "storeID": self.store_id, "epoch": self.epoch, "seq": self.seq}


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


class _Applied(msgspec.Struct):
    node: str
    store_id: str = msgspec.field(name="storeID")
    epoch: int
    seq: int


def applied_of(status: object) -> dict[str, AppliedReport]:
    """By node, of an object's status, which may be missing. Raises `MalformedReport`."""
    if not isinstance(status, Mapping):
        return {}
    try:
        found = msgspec.convert(status.get(APPLIED_REPORTS) or [], list[_Applied])
    except msgspec.ValidationError as error:
        raise MalformedReport(f"status.{APPLIED_REPORTS}: {error}") from error
    return {it.node: AppliedReport(it.node, it.store_id, it.epoch, it.seq) for it in found}


def applied_json(applied: Mapping[str, AppliedReport]) -> list[Json]:
    """In the order of the nodes: the same for whoever writes it."""
    return [applied[node].to_json() for node in sorted(applied)]
