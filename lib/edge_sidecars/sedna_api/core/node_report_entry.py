"""One object's part of a NodeReport, and its JSON.

Guarantees: `size` is never below what the API server stores; what was read shares no bytes with
the document that it came in. Knows no rule of storing.
"""

from dataclasses import dataclass
from typing import Annotated, Final

import msgspec

from edge_sidecars.sedna_api.core.api_object import Json
from edge_sidecars.sedna_api.core.stored_report import StoredReport

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
