"""Whether a node may report about an object: only about what concerns it.

Owns rule G7 for reports, and G5's look at what is really there. Guarantees: What is refused for
good was refused by a live read of the object and of its Datasets, never because this process is
behind, nor because of what was sent to the node. What the collections know to be right costs no
read.
"""

from collections.abc import Collection, Mapping

from edge_sidecars.controllers.guarded_writes import GuardedWrites
from edge_sidecars.kubeapi import NotFound
from edge_sidecars.sedna_api.core.api_object import Document, Json, ObjectKey
from edge_sidecars.sedna_api.core.kinds import DATASET, kind_of
from edge_sidecars.sedna_api.core.report import MalformedReport, Report, check
from edge_sidecars.sedna_api.core.store_reports import RefusedReport
from gm.cache.informers import Informers
from gm.cache.node_index import MISSHAPEN, relations_of


def malformed(report: Report) -> str:
    """What is wrong with the report itself; "" for nothing."""
    try:
        check(report)
    except MalformedReport as error:
        return str(error)
    return ""


class ReportAuthorization:
    """`namespaces`: those that are looked after; none for all."""

    def __init__(
        self, informers: Informers, writes: GuardedWrites, *, namespaces: Collection[str]
    ) -> None:
        self._informers = informers
        self._writes = writes
        self._namespaces = namespaces

    async def subject(self, node: str, report: Report) -> Document | RefusedReport:
        """The object that the report is about; a report without a uid is about whichever has the
        name now. The same for all reports about one object. Raises `ApiError`, `Unreachable`."""
        if self._namespaces and report.namespace not in self._namespaces:
            return RefusedReport(f"namespace {report.namespace} is not looked after by this GM")
        key = ObjectKey(report.kind, report.namespace, report.name)
        document = self._informers.concerned(node, key)
        if document is not None and report.uid in ("", document.uid):
            return document
        return await self._live(node, key, report.uid)

    async def _live(self, node: str, key: ObjectKey, uid: str) -> Document | RefusedReport:
        name = _described(key)
        try:
            document = await self._read(key)
            if document is None:
                return RefusedReport(f"{name} is gone")
            if uid and document.uid != uid:
                return RefusedReport(f"{name} with uid {uid} is gone")
            is_concerned = await self._concerns(node, document)
        except MISSHAPEN as error:
            return RefusedReport(f"{name} cannot be understood: {error!r}")
        return document if is_concerned else RefusedReport(f"{name} does not concern node {node}")

    async def _concerns(self, node: str, document: Document) -> bool:
        place = relations_of(document, self._informers.reference)
        if node in place.nodes or node in self._informers.node_index.concerned(document.key):
            return True
        # A Dataset names its job's node, and may be newer than what this process knows of it.
        found: Mapping[ObjectKey, Json | None] = {
            key: None if (dataset := await self._read(key)) is None else dataset.json()
            for key in place.references
            if key.kind == DATASET.singular
        }

        def find(key: ObjectKey) -> Json | None:
            return found[key] if key in found else self._informers.reference(key)

        return bool(found) and node in relations_of(document, find).nodes

    async def _read(self, key: ObjectKey) -> Document | None:
        """None: there is none."""
        kind = kind_of(key.kind)
        try:
            raw = await self._writes.get(kind.path(key.namespace, key.name))
        except NotFound:
            return None
        return Document.parse(raw, kind.singular)


def _described(key: ObjectKey) -> str:
    return f"{kind_of(key.kind).kind} {key.namespace}/{key.name}"
