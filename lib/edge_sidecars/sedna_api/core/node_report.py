"""The NodeReport: what one node has to say of a namespace's objects, until GM has taken it in.

One per namespace and node, named as the node. The receiver of reports (a GM, or LC in mode relay)
writes it under its resourceVersion; a report is acknowledged when it is here. Guarantees:
(epoch, seq) of an object only grows; what is stored leaves only by `pruned`, or replaced as
core/report.py says; a repeated report is recognised also after it was pruned.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Final, Self

import msgspec

from edge_sidecars.sedna_api.core.api_object import Json, ObjectKey
from edge_sidecars.sedna_api.core.kinds import API_VERSION, NODE_REPORT, node_label
from edge_sidecars.sedna_api.core.report import MalformedReport, Report
from edge_sidecars.sedna_api.core.store_reports import Outcome, Storing
from edge_sidecars.sedna_api.core.stored_report import (
    AppliedReport,
    Entry,
    StoredReport,
    WireEntry,
    entry_of,
)


@dataclass(frozen=True, slots=True)
class NodeReport:
    """`uid` and `resource_version` are "" before it was created. `entries` by the object's uid."""

    namespace: str
    node: str
    store_id: str
    epoch: int
    retired: tuple[str, ...]
    entries: Mapping[str, Entry]
    uid: str = ""
    resource_version: str = ""

    @classmethod
    def new(cls, namespace: str, node: str, store_id: str, *, epoch: int) -> Self:
        """`epoch`: the second in which it is made, so that it is above one that was deleted."""
        return cls(namespace, node, store_id, epoch, (), {})

    @classmethod
    def parse(cls, document: bytes | Json) -> Self:
        """Raises `MalformedReport`."""
        try:
            raw = document if isinstance(document, bytes) else msgspec.json.encode(document)
            read = _WIRE.decode(raw)
            entries = {it.uid: entry_of(it) for it in read.entries}
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
            raise MalformedReport(f"not a NodeReport: {error}") from error
        if read.metadata.name != read.node:
            raise MalformedReport(f"{read.metadata.name!r:.80} is not the node {read.node!r:.80}")
        if len(entries) < len(read.entries):
            raise MalformedReport("two entries of the NodeReport are of one uid")
        return cls(
            namespace=read.metadata.namespace,
            node=read.node,
            store_id=read.store_id,
            epoch=read.epoch,
            retired=tuple(read.retired),
            entries=entries,
            uid=read.metadata.uid,
            resource_version=read.metadata.resource_version,
        )

    @property
    def key(self) -> ObjectKey:
        return ObjectKey(NODE_REPORT.singular, self.namespace, self.node)

    def pending(self, uid: str) -> tuple[StoredReport, ...]:
        entry = self.entries.get(uid)
        return entry.reports if entry else ()

    def stored(self, reports: Sequence[Report]) -> tuple[Self, tuple[Outcome, ...]]:
        """With these reports of its namespace, in the order in which they arrived.

        The same object where nothing is to be written.
        """
        storing = Storing(self.store_id, self.epoch, retired=self.retired, entries=self.entries)
        outcomes = tuple(storing.take(report) for report in reports)
        if not storing.is_changed:
            return self, outcomes
        grown = replace(
            self,
            store_id=storing.store_id,
            epoch=storing.epoch,
            retired=storing.retired,
            entries=storing.entries,
        )
        return grown, outcomes

    def pruned(self, applied: Mapping[str, AppliedReport], gone: Collection[str]) -> Self:
        """Without what objects (by uid) have taken in, and without objects that are gone.

        The same object where nothing is to be written.
        """
        entries: dict[str, Entry] = {}
        is_changed = False
        for uid, entry in self.entries.items():
            if uid in gone:
                is_changed = True
                continue
            done = applied.get(uid)
            left = tuple(it for it in entry.reports if done is None or not done.covers(it))
            if len(left) < len(entry.reports):
                is_changed = True
                entries[uid] = replace(entry, reports=left)
            else:
                entries[uid] = entry
        return replace(self, entries=entries) if is_changed else self

    def to_json(self) -> Json:
        """To create it, or to put it in the place of what is there."""
        metadata: Json = {
            "name": self.node,
            "namespace": self.namespace,
            "labels": {node_label(self.node): ""},
        }
        return {
            "apiVersion": API_VERSION,
            "kind": NODE_REPORT.kind,
            "metadata": metadata | self._identity(),
            "node": self.node,
            **self._content(),
        }

    def to_patch(self) -> Json:
        """A merge patch that fails where another has written since; other metadata stays."""
        return {"metadata": self._identity(), **self._content()}

    def _identity(self) -> Json:
        known = {"uid": self.uid, "resourceVersion": self.resource_version}
        return {field: value for field, value in known.items() if value}

    def _content(self) -> Json:
        return {
            "storeID": self.store_id,
            "epoch": self.epoch,
            "retiredStoreIDs": list(self.retired),
            "entries": [entry.to_json() for entry in self.entries.values()],
        }


class _WireMetadata(msgspec.Struct, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Wire(msgspec.Struct):
    metadata: _WireMetadata
    node: str
    store_id: str = msgspec.field(name="storeID")
    epoch: Annotated[int, msgspec.Meta(ge=0)]
    retired: list[str] = msgspec.field(name="retiredStoreIDs", default_factory=list)
    entries: list[WireEntry] = []


_WIRE: Final = msgspec.json.Decoder(_Wire)
