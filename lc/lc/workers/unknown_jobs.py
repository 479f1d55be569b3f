"""Takes what workers say of jobs that LC does not know yet, and passes it on when it does.

Owns the order: while something is kept of a job, what its workers say next is kept behind it. Which
reports stay, and for how long, is `core/unknown_jobs.py`; the store keeps them over kill -9.
Guarantees: what was answered is passed on to the job's manager once the job is known, in order, or
counted as dropped with the reason: "full", "expired", "unfit".
"""

import asyncio
from collections import Counter
from collections.abc import Callable

import msgspec

from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.log import fields, logger
from edge_sidecars.sedna_api.core.api_object import Document, ObjectKey
from edge_sidecars.sedna_api.core.report import MalformedReport, Report
from lc.core.unknown_jobs import AGEING_INTERVAL, KeptReport
from lc.core.worker_info import UnusableReport, WorkerInfo
from lc.store import Change, Store, StoreUnavailable
from lc.workers.authorization import KeyNotHere, NotAuthorized, WorkerAuthorization
from lc.workers.managers import ObjectManager

# Seconds until the disk is asked again.
RETRY_AFTER = 1.0

_INFO = msgspec.json.Decoder(WorkerInfo)


class UnknownJobReports:
    """A `Listener` of the store from its making on; `handling` finds the manager of a kind.
    `authorization`: None where all that was kept is believed."""

    def __init__(
        self,
        store: Store,
        handling: Callable[[str], ObjectManager | None],
        authorization: WorkerAuthorization | None = None,
    ) -> None:
        self.dropped: Counter[str] = Counter()
        self._store = store
        self._handling = handling
        self._authorization = authorization
        self._woken = asyncio.Event()
        self._passing: set[ObjectKey] = set()
        store.subscribe(self)

    @property
    def waiting(self) -> int:
        return len(self._store.unknown_jobs.reports)

    def holds(self, key: ObjectKey) -> bool:
        """Whether something is kept of the job."""
        jobs = self._store.unknown_jobs
        return key in jobs.waited and bool(jobs.of(key))

    async def keep(self, key: ObjectKey, info: WorkerInfo) -> bool:
        """Returns when it is durable. False: the job was given up, and it is not kept. Raises
        `StoreUnavailable`."""
        dropped = await self._store.keep(key, info.name, msgspec.json.encode(info))
        if dropped is None:
            return False
        self.dropped["full"] += dropped
        logger.debug("its job is not known yet", extra=fields(job=str(key), worker=info.name))
        # It may have become known meanwhile.
        self._woken.set()
        return True

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._age())
            while True:
                self._woken.clear()
                for key in self._store.unknown_jobs.keys() - self._passing:
                    if self._store.get(key) is not None:
                        self._passing.add(key)
                        group.create_task(self._pass_on(key))
                await self._woken.wait()

    # ── the store's listener ──

    def object_changed(self, document: Document, change: Change) -> None:
        if self.holds(document.key):
            self._woken.set()

    def object_gone(self, document: Document) -> None:
        """What is kept of it waits for the next one."""

    def report_enqueued(self, report: Report) -> None:
        """Nothing here depends on it."""

    # ── ──

    async def _pass_on(self, key: ObjectKey) -> None:
        """All that is kept of a job that is known."""
        count = 0
        while (document := self._store.get(key)) is not None:
            kept = next(iter(self._store.unknown_jobs.of(key)), None)
            if kept is None:
                break
            try:
                if not await self._pass_one(kept, document):
                    continue
                await self._store.passed_on(kept.number)
                count += 1
            except StoreUnavailable:
                await asyncio.sleep(RETRY_AFTER)
        self._passing.discard(key)
        if count:
            logger.info("reports had waited for their job", extra=fields(job=key, reports=count))

    async def _pass_one(self, kept: KeptReport, document: Document) -> bool:
        """False: the job has left meanwhile. Twice is harmless: the same words are one report."""
        info, manager = _INFO.decode(kept.body), self._handling(kept.key.kind)
        try:
            if manager is not None:
                if self._authorization is not None:
                    self._authorization.check(info, document)
                await manager.worker_reported(info, document)
        except (UnusableReport, MalformedReport, NotAuthorized, KeyNotHere) as error:
            found = self._store.get(kept.key)
            if found is None or found.uid != document.uid:
                return False
            self.dropped["unfit"] += 1
            logger.warning(
                "a report that waited for its job cannot be used",
                extra=fields(job=str(kept.key), worker=kept.worker, why=str(error)),
            )
        return True

    async def _age(self) -> None:
        aged_at, logged = boottime(), 0
        while True:
            await asyncio.sleep(AGEING_INTERVAL)
            now = boottime()
            if self._store.unknown_jobs.waited:
                try:
                    self.dropped["expired"] += await self._store.age_unknown_jobs(now - aged_at)
                except StoreUnavailable:
                    continue
            aged_at = now
            if self.dropped.total() > logged:
                logged = self.dropped.total()
                logger.warning("reports of unknown jobs are dropped", extra=fields(**self.dropped))
