"""How reports get into a NodeReport: each once, in its order, within a size.

    entry.seq = n ── report n+k, previous <= n ──> Stored, entry.seq = n+k
                     report <= n ────────────────> AlreadyStored
                     previous > n ───────────────> Gap: one on the way was lost, LC sends again
                     no room ────────────────────> Full: LC keeps it, and what comes after it

A store of a sender that numbers nothing is one of its connections: what is late of a former one,
and will not be sent again, counts as said on the present one.

Guarantees: entry.seq only grows within a store, the epoch with each store; nothing is stored ahead
of what its sender says comes before, nor of what was Full or missing before it in the same batch.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from edge_sidecars.sedna_api.core.report import (
    UNNUMBERED,
    MalformedReport,
    Report,
    check_body,
    replaced_by,
)
from edge_sidecars.sedna_api.core.stored_report import Entry, StoredReport

# Bytes of entries; etcd takes 1.5 MiB a request (--max-request-bytes).
MAX_SIZE: Final = 1_000_000
# What is still on its way of a store that was retired longer ago no connection holds any more.
MAX_RETIRED: Final = 64
# The reason that tells LC to take a new storeID and send all again under it.
RETIRED_STORE: Final = "the storeID is retired"


@dataclass(frozen=True, slots=True)
class Stored:
    """It is in the NodeReport once that is written."""


@dataclass(frozen=True, slots=True)
class AlreadyStored:
    """It is there, or was there until it was pruned: it may be acknowledged again."""


@dataclass(frozen=True, slots=True)
class RefusedReport:
    """Never to be stored; `reason` is for people, or RETIRED_STORE."""

    reason: str


@dataclass(frozen=True, slots=True)
class Full:
    """Not stored: no room before GM has taken in and pruned others."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Not stored: the report `missing` has to come first."""

    missing: int


Outcome = Stored | AlreadyStored | RefusedReport | Full | Gap


class Storing:
    """A NodeReport's content while reports are being stored."""

    def __init__(
        self, store_id: str, epoch: int, *, retired: tuple[str, ...], entries: Mapping[str, Entry]
    ) -> None:
        self.store_id, self.epoch, self.retired = store_id, epoch, retired
        self.entries = dict(entries)
        self.is_changed = False
        self._size = sum(entry.size for entry in entries.values())
        # By uid: the first one that could not be stored.
        self._held: dict[str, int] = {}

    def take(self, report: Report) -> Outcome:
        is_late = self._is_late(report)
        if is_late is None:
            return RefusedReport(RETIRED_STORE)
        try:
            check_body(report.body)
        except MalformedReport as error:
            return RefusedReport(str(error))
        if report.store_id != self.store_id and not is_late:
            self._begin(report.store_id)
        entry = self.entries.get(report.uid, Entry(report.uid, report.kind, report.name, 0))
        if is_late and entry.seq and not report.is_event:
            # The sender's newer connection was quicker with something newer.
            return AlreadyStored()
        if (entry.kind, entry.name) != (report.kind, report.name):
            return RefusedReport(f"uid {report.uid} is of {entry.kind} {entry.name}")
        seq = report.seq or entry.seq + 1
        if seq <= entry.seq:
            return AlreadyStored()
        missing = max(report.previous, self._ahead(report))
        if missing > entry.seq:
            return Gap(missing)
        grown = self._with(entry, report, seq)
        size = self._size + grown.size
        if report.uid in self.entries:
            size -= entry.size
        if size > MAX_SIZE:
            self._held.setdefault(report.uid, seq)
            return Full()
        self.entries[report.uid], self._size, self.is_changed = grown, size, True
        return Stored()

    def _is_late(self, report: Report) -> bool | None:
        """Whether it comes after the connection that followed its own; None: it is refused."""
        is_retired = report.store_id in self.retired
        if report.is_numbered or not self.store_id.startswith(UNNUMBERED):
            return None if is_retired else False
        return is_retired or (report.is_late and report.store_id < self.store_id)

    def _ahead(self, report: Report) -> int:
        """What was held of its object before it; 0 for nothing, or for itself once more."""
        held = self._held.get(report.uid, 0)
        return 0 if report.seq == held else held

    def _begin(self, store_id: str) -> None:
        """The node's database was lost: a new one counts from 1."""
        if self.store_id:
            self.retired = (*self.retired, self.store_id)[-MAX_RETIRED:]
        self.store_id, self.epoch = store_id, self.epoch + 1
        self.entries = {
            uid: replace(entry, seq=0) for uid, entry in self.entries.items() if entry.reports
        }
        self._size = sum(entry.size for entry in self.entries.values())
        self._held.clear()
        self.is_changed = True

    def _with(self, entry: Entry, report: Report, seq: int) -> Entry:
        left = list(entry.reports)
        replaced = replaced_by(report, left)
        if replaced is not None:
            del left[replaced]
        added = StoredReport(
            epoch=self.epoch,
            store_id=self.store_id,
            seq=seq,
            previous=entry.seq,
            is_event=report.is_event,
            worker=report.worker,
            body=report.body,
        )
        return replace(entry, seq=seq, reports=(*left, added))
