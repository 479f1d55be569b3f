"""Writes NodeReports: adds what nodes say, and takes out what objects have taken in.

Owns the optimistic lock, and the rhythm of pruning where no new report does it on the way. The
leader prunes or, with shards, the owner of the NodeReport's uid, and only where GMs write
NodeReports (in mode relay LCs do). Guarantees: Nothing is written but on top of the version that
was read, and on a conflict all is computed anew from a live read. What is pruned is in the status
of its object, or belongs to an object that is gone, or is not the node's any more, for certain: so
it was here although this process had come further than the NodeReport. A NodeReport that changes is
left alone, it is pruned with its next write anyway; one that is refused keeps no other from being
pruned.
"""

import asyncio
import time
from collections.abc import Callable, Sequence

import msgspec

from edge_sidecars.controllers.guarded_writes import GuardedWrites, NotLeading
from edge_sidecars.kubeapi import ApiError, Conflict, NotFound, Unreachable
from edge_sidecars.runtime.log import fields, logger
from edge_sidecars.sedna_api.core.api_object import Document, ObjectKey
from edge_sidecars.sedna_api.core.kinds import NODE_REPORT
from edge_sidecars.sedna_api.core.node_report import NodeReport
from edge_sidecars.sedna_api.core.report import MalformedReport, Report
from edge_sidecars.sedna_api.core.store_reports import Full, Gap, Outcome, RefusedReport
from edge_sidecars.sedna_api.core.stored_report import AppliedReport, Entry, applied_of
from gm.cache.informers import Informers
from gm.controller.api_writes import TROUBLE

# Each conflict means that another GM, or the pruning, was quicker.
ATTEMPTS = 8


class _ReportStatus(msgspec.Struct):
    status: dict[str, msgspec.Raw] = {}


_STATUS = msgspec.json.Decoder(_ReportStatus)
_ANY = msgspec.json.Decoder()


class Contended(Exception):
    """Others were quicker each time."""


class NodeReportWriter:
    def __init__(self, informers: Informers, writes: GuardedWrites) -> None:
        self._informers = informers
        self._writes = writes
        self.written = 0
        self.conflicts = 0

    async def store(
        self, namespace: str, node: str, reports: Sequence[Report]
    ) -> tuple[Outcome, ...]:
        """What became of each, once the write was answered. Raises `NotLeading`, `ApiError`,
        `Unreachable`, `Contended`: then the outcome is unknown, and storing them again is harmless;
        `MalformedReport` for a NodeReport that was edited by hand and cannot be read."""
        base = self._informers.reports.get(namespace, node)
        is_live = False
        for _ in range(ATTEMPTS):
            if base is None:
                base, is_live = await self._read(namespace, node), True
            start = base or NodeReport.new(
                namespace, node, reports[0].store_id, epoch=int(time.time())
            )
            pruned = self.pruned(start)
            after, outcomes = pruned.stored(reports)
            if not is_live and any(isinstance(it, Full | Gap | RefusedReport) for it in outcomes):
                # Another GM may have stored what is missing here.
                base = None
                continue
            if after is start or await self._write(after):
                return outcomes
            base = None
        raise Contended(f"NodeReport {namespace}/{node} is written by others all the time")

    async def prune(self, report: NodeReport) -> bool:
        """Whether anything was to be taken out, and was."""
        after = self.pruned(report)
        return after is not report and await self._write(after)

    def pruned(self, report: NodeReport) -> NodeReport:
        """Without what is applied and what is gone; the same where there is none."""
        applied: dict[str, AppliedReport] = {}
        gone: set[str] = set()
        version = int(report.resource_version or 0)
        for uid, entry in report.entries.items():
            key = self._informers.named(uid)
            seen = self._informers.version_in(entry.kind, report.namespace)
            is_past = self._informers.is_synced and seen >= version
            if key is None and is_past and version:
                gone.add(uid)
            elif key is not None and entry.reports:
                found = self._applied(key, report.node, entry, is_past=is_past)
                if found is not None:
                    applied[uid] = found
        return report.pruned(applied, gone)

    def _applied(
        self, key: ObjectKey, node: str, entry: Entry, *, is_past: bool
    ) -> AppliedReport | None:
        """What may leave. All of a node's that the object does not concern any more, which no
        status ever counts."""
        if is_past and node not in self._informers.node_index.nodes(key):
            return AppliedReport.of(node, entry.reports[-1])
        document = self._informers.get(key)
        return None if document is None else applied_by(document, node)

    async def _read(self, namespace: str, node: str) -> NodeReport | None:
        try:
            raw = await self._writes.get(NODE_REPORT.path(namespace, node))
        except NotFound:
            return None
        self._informers.learned(Document.parse(raw, NODE_REPORT.singular))
        return NodeReport.parse(raw)

    async def _write(self, report: NodeReport) -> bool:
        """False: another was quicker."""
        try:
            if report.resource_version:
                path = NODE_REPORT.path(report.namespace, report.node)
                raw = await self._writes.patch(path, report.to_patch(), owner=report.uid)
            else:
                path = NODE_REPORT.collection(report.namespace)
                raw = await self._writes.post(path, report.to_json(), owner="")
        except (Conflict, NotFound):
            self.conflicts += 1
            return False
        self.written += 1
        self._informers.learned(Document.parse(raw, NODE_REPORT.singular))
        return True


def applied_by(document: Document, node: str) -> AppliedReport | None:
    """The last report of a node that the object has taken in."""
    try:
        status = _STATUS.decode(document.raw).status
        decoded = {"appliedReports": _ANY.decode(status["appliedReports"])}
        return applied_of(decoded).get(node)
    except (KeyError, MalformedReport, msgspec.MsgspecError):
        return None


INTERVAL = 10.0


class NodeReportGc:
    """`may_act` says whether the NodeReport with a uid is this GM's to prune."""

    def __init__(
        self, informers: Informers, writer: NodeReportWriter, may_act: Callable[[str], bool]
    ) -> None:
        self._informers = informers
        self._writer = writer
        self._may_act = may_act
        self._seen: dict[tuple[str, str], str] = {}

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(INTERVAL)
            if self._informers.is_synced:
                await self._pass()

    async def _pass(self) -> None:
        before, self._seen = self._seen, {}
        for report in self._informers.reports:
            key = (report.namespace, report.node)
            self._seen[key] = report.resource_version
            if before.get(key) != report.resource_version or not self._may_act(report.uid):
                continue
            try:
                await self._writer.prune(report)
            except NotLeading:
                continue
            except (ApiError, Unreachable) as error:
                logger.warning(
                    "a NodeReport could not be pruned",
                    extra=fields(node=report.node, why=str(error), delay=INTERVAL),
                )
                if isinstance(error, Unreachable) or error.status in TROUBLE:
                    return
            # Ten thousand of them are looked at in one pass.
            await asyncio.sleep(0)
