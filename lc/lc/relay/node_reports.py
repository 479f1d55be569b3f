"""This node's reports into its OwnNodeReports, one per namespace, by optimistic lock.

Guarantees: A report is acknowledged to the store when the API has taken the NodeReport that has it.
What an object has taken in is pruned, also after it left for another node. So is what nothing ever
takes in: of objects that are gone, and of datasets that are another node's now. Only a read while
the relay reaches the API shows which these are. No other process writes a node's OwnNodeReports.
"""

import asyncio
import random
from collections.abc import Iterator
from dataclasses import dataclass

from edge_sidecars.kubeapi import ApiError, Unreachable
from edge_sidecars.runtime.backoff import Backoff
from edge_sidecars.runtime.clock import boottime, is_set
from edge_sidecars.runtime.log import fields, logger
from edge_sidecars.sedna_api.core.api_object import Document, Json, ObjectKey
from edge_sidecars.sedna_api.core.kinds import DATASET
from edge_sidecars.sedna_api.core.node_report import NodeReport
from edge_sidecars.sedna_api.core.report import MalformedReport, Report
from edge_sidecars.sedna_api.core.store_reports import (
    RETIRED_STORE,
    AlreadyStored,
    Outcome,
    RefusedReport,
    Stored,
)
from edge_sidecars.sedna_api.core.stored_report import AppliedReport, Entry, applied_of
from lc.relay.report_api import NotKnown, ReportApi
from lc.store import Change, Store, StoreUnavailable

# Seconds that go by before what objects have taken in is pruned: the next report does it as well.
PRUNE_AFTER = 10.0
# Seconds between two looks for entries whose object is not here, and while reports of one wait;
# so many of them are read each time.
COLLECT_INTERVAL = 60.0
WAITING_INTERVAL = 10.0
COLLECTED_AT_ONCE = 16
# Seconds until it is asked again whether the link is up.
LOOK_INTERVAL = 2.0
# Bytes a second of NodeReports that are written anew, on average: a large one waits for more.
RATE = 200_000


@dataclass(slots=True)
class _Failed:
    backoff: Backoff
    again_at: float = 0.0
    problem: str = ""


class OwnNodeReports:
    def __init__(self, store: Store, api: ReportApi, *, node: str, redial_cap: float) -> None:
        self._store = store
        self._api = api
        self._node = node
        self._redial_cap = redial_cap
        # By namespace: what was written or read last, and what failed.
        self._failed: dict[str, _Failed] = {}
        self._known: dict[str, NodeReport] = {}
        self._wanted = asyncio.Event()
        self._prune_at: float | None = None
        # What was taken in, or went, while this LC was away is looked for at once.
        self._collect_at = boottime()

    @property
    def problem(self) -> str:
        """Why reports of some namespace are not written; "" where all are."""
        return next((failed.problem for failed in self._failed.values()), "")

    # ── what the store says ──

    def object_changed(self, document: Document, change: Change) -> None:
        self._may_prune(document)

    def object_gone(self, document: Document) -> None:
        """Gone or only not selected: a look decides."""
        known = self._known.get(document.namespace)
        if known is not None and known.pending(document.uid):
            self._collect_at = min(self._collect_at, boottime() + WAITING_INTERVAL)
            self._wanted.set()

    def report_enqueued(self, report: Report) -> None:
        self._wanted.set()

    async def run(self) -> None:
        """Until cancelled."""
        self._store.subscribe(self)
        self._wanted.set()
        while True:
            await self._wait()
            self._wanted.clear()
            pause = 0.0
            for namespace in self._due():
                pause += await self._attempt(namespace)
            now = boottime()
            if now >= self._collect_at:
                self._collect_at = now + self._until_collection()
            elif self._has_strange_reports():
                # Of an object that went before its report was written.
                self._collect_at = min(self._collect_at, now + WAITING_INTERVAL)
            await asyncio.sleep(pause)

    def _until_collection(self) -> float:
        """Seconds; while offline it is not known what is gone."""
        if not self._api.is_link_up():
            return LOOK_INTERVAL
        return WAITING_INTERVAL if self._has_strange_reports() else COLLECT_INTERVAL

    def _has_strange_reports(self) -> bool:
        strange = (entry for known in self._known.values() for entry in self._strange(known))
        return any(entry.reports for entry in strange)

    async def _wait(self) -> None:
        """For a report, or the time to try again, to prune, or to look for what is not here."""
        times = [self._collect_at, *(failed.again_at for failed in self._failed.values())]
        if self._prune_at is not None:
            times.append(self._prune_at)
        await is_set(self._wanted, within=min(times) - boottime())

    def _due(self) -> list[str]:
        """Namespaces in which something is to be done now."""
        now = boottime()
        found = {report.namespace for report in self._store.pending()}
        if self._prune_at is not None and now >= self._prune_at:
            self._prune_at = None
            found.update(self._known)
        if now >= self._collect_at and self._api.is_link_up():
            found.update(self._known, self._store.namespaces())
        # Where nothing waits any more, nothing is to be tried again.
        self._failed = {name: it for name, it in self._failed.items() if name in found}
        waiting = {name for name, it in self._failed.items() if it.again_at > now}
        return sorted(found - waiting)

    async def _attempt(self, namespace: str) -> float:
        """Seconds until the next may be written; what fails here keeps no other waiting."""
        try:
            pause = await self._bring(namespace)
        except (ApiError, Unreachable, MalformedReport, StoreUnavailable) as error:
            self._fail(namespace, error)
            if isinstance(error, ApiError):
                await self._refuse_what_is_gone(namespace)
            return 0.0
        if self._failed.pop(namespace, None) is not None:
            logger.info("reports are written again", extra=fields(namespace=namespace))
        return pause

    def _fail(self, namespace: str, error: Exception) -> None:
        """What was read last may be old: it is read again."""
        self._known.pop(namespace, None)
        failed = self._failed.setdefault(namespace, _Failed(Backoff(longest=self._redial_cap)))
        delay = failed.backoff.failed(random.random())
        failed.again_at = boottime() + delay
        if not failed.problem:
            logger.warning(
                "reports cannot be written",
                extra=fields(namespace=namespace, why=error, again_in=delay),
            )
        failed.problem = str(error)

    # ── one NodeReport ──

    async def _bring(self, namespace: str) -> float:
        """Writes it where something is new; returns the seconds that the next one is to wait."""
        known = self._known.get(namespace) or await self._api.read(
            namespace, store_id=self._store.store_id
        )
        reports = [each for each in self._store.pending() if each.namespace == namespace]
        applied, gone = dict(self._applied(known)), set[str]()
        if boottime() >= self._collect_at:
            elsewhere, gone = await self._collected(known)
            applied |= elsewhere
        pruned = known.pruned(applied, gone)
        grown, outcomes = pruned.stored(reports)
        pause = 0.0
        if grown is not known:
            known = await self._api.write(grown)
            pause = sum(entry.size for entry in known.entries.values()) / RATE
        self._known[namespace] = known
        await self._settle(reports, outcomes)
        return pause

    async def _settle(self, reports: list[Report], outcomes: tuple[Outcome, ...]) -> None:
        safe: dict[str, int] = {}
        for report, outcome in zip(reports, outcomes, strict=True):
            match outcome:
                case Stored() | AlreadyStored():
                    safe[report.uid] = report.seq
                case RefusedReport(reason) if reason == RETIRED_STORE:
                    await self._store.renew(reason)
                    self._wanted.set()
                    break
                case RefusedReport(reason):
                    logger.warning(
                        "report refused",
                        extra=fields(object=_key(report), seq=report.seq, why=reason),
                    )
                    await self._store.refused(report.uid, report.seq, reason)
                case _:
                    # No room yet: GM takes in and we prune, then it goes.
                    self._prune_soon()
        for asked in [self._store.acked(uid, seq) for uid, seq in safe.items()]:
            await asked

    # ── what is done with ──

    def _applied(self, known: NodeReport) -> Iterator[tuple[str, AppliedReport]]:
        """What our copies of the objects have taken in of this node."""
        for uid, entry in known.entries.items():
            if entry.reports:
                key = ObjectKey(entry.kind, known.namespace, entry.name)
                document = self._store.get(key)
                if document is not None and document.uid == uid:
                    applied = self._applied_of(key, document.json())
                    if applied is not None:
                        yield uid, applied

    def _applied_of(self, key: ObjectKey, document: Json) -> AppliedReport | None:
        try:
            return applied_of(document.get("status")).get(self._node)
        except MalformedReport as error:
            logger.warning("unreadable status", extra=fields(object=key, why=error))
            return None

    def _may_prune(self, document: Document) -> None:
        known = self._known.get(document.namespace)
        if known is not None and known.pending(document.uid):
            self._prune_soon()

    def _prune_soon(self) -> None:
        if self._prune_at is None:
            self._prune_at = boottime() + PRUNE_AFTER
            self._wanted.set()

    async def _collected(self, known: NodeReport) -> tuple[dict[str, AppliedReport], set[str]]:
        """Of a few entries whose object is not here, those of which reports wait first: what is
        done with, and which are gone."""
        strange = self._strange(known)
        random.shuffle(strange)
        strange.sort(key=lambda entry: not entry.reports)
        applied, gone = dict[str, AppliedReport](), set[str]()
        for entry in strange[:COLLECTED_AT_ONCE]:
            key = ObjectKey(entry.kind, known.namespace, entry.name)
            try:
                found = await self._api.find(entry.uid, key)
            except NotKnown:
                continue
            if found is None:
                gone.add(entry.uid)
            elif entry.reports and self._is_elsewhere(entry, found):
                applied[entry.uid] = AppliedReport.of(self._node, entry.reports[-1])
            elif done := self._applied_of(key, found):
                applied[entry.uid] = done
        return applied, gone

    def _is_elsewhere(self, entry: Entry, found: Json) -> bool:
        """Its spec alone says whose a dataset is, and GM takes in no other node's words of it. What
        other kinds concern, GM derives and may derive anew: their words wait."""
        home = found.get("spec", {}).get("nodeName")
        return entry.kind == DATASET.singular and home != self._node

    def _strange(self, known: NodeReport) -> list[Entry]:
        """Entries whose object is not here."""
        return [
            entry
            for uid, entry in known.entries.items()
            if not self._is_here(uid, ObjectKey(entry.kind, known.namespace, entry.name))
        ]

    async def _refuse_what_is_gone(self, namespace: str) -> None:
        """Where no NodeReport can be written: with a namespace goes all that is in it (G5)."""
        try:
            for report in [each for each in self._store.pending() if each.namespace == namespace]:
                key = ObjectKey(report.kind, namespace, report.name)
                if not self._is_here(report.uid, key) and await self._is_gone(report.uid, key):
                    await self._store.refused(report.uid, report.seq, "its object is gone")
        except (ApiError, Unreachable, StoreUnavailable) as error:
            logger.debug("not known whether objects are gone", extra=fields(why=error))

    async def _is_gone(self, uid: str, key: ObjectKey) -> bool:
        """False also where it is not known now."""
        try:
            return await self._api.find(uid, key) is None
        except NotKnown:
            return False

    def _is_here(self, uid: str, key: ObjectKey) -> bool:
        document = self._store.get(key)
        return document is not None and document.uid == uid


def _key(report: Report) -> ObjectKey:
    return ObjectKey(report.kind, report.namespace, report.name)
