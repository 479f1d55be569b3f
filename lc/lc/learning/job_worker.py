"""One learning job: asks the core what is to be done, does it, saves what follows, waits.

Guarantees: the state and the report that follows from it are saved together, and only after the
files are durable, so that a kill at any moment repeats a step and doubles or loses nothing. What
fails is tried again, ever more seldom, and GM gets a report once it fails for long. A worker's
report never waits for work on files.
"""

import asyncio
import random
from datetime import datetime

from msgspec.structs import replace

from edge_sidecars.runtime.backoff import Backoff
from edge_sidecars.runtime.clock import is_set
from edge_sidecars.runtime.log import fields, logger
from edge_sidecars.sedna_api.core.api_object import Document
from edge_sidecars.sedna_api.core.report import MAX_BODY
from lc.core.learning.commands import (
    Advance,
    Body,
    Command,
    Gather,
    Idle,
    LoopPace,
    Repeat,
    encoded,
    problem_report,
)
from lc.core.learning.fields import MalformedJob
from lc.core.learning.job import Job
from lc.core.learning.next_command import JobInputs, next_command
from lc.core.learning.outcome import Heard, hear
from lc.core.learning.stages import refused
from lc.core.learning.state import Event, SegmentsLost
from lc.core.worker_info import UNFORESEEN, UnusableReport, WorkerInfo
from lc.files.host_files import ForeignPath
from lc.learning.job_files import JobFiles, SharedFiles, TaskFailed
from lc.learning.job_state import JobState
from lc.learning.spool import Spool
from lc.store import Store, StoreUnavailable

# Seconds between two tries of what fails.
FIRST_RETRY = 1.0
LONGEST_RETRY = 60.0
# Bounds the failures in a row without a report to GM: a disk may be busy for a moment.
PATIENCE = 3


class JobWorker:
    """Of one job by its uid; another job of the same name has another one."""

    def __init__(
        self, document: Document, store: Store, shared: SharedFiles, *, spool: Spool
    ) -> None:
        self.document = document
        self.note = "begins"
        self._name = str(document.key)
        self._store = store
        self._files = JobFiles(shared, document.namespace, spool)
        self._spool = spool
        self._job_state = JobState(document, store)
        self._known = JobInputs("", None, {})
        self._job: Job | None = None
        self._pace = LoopPace(told=datetime.now().astimezone())
        self._woken = asyncio.Event()
        self._retry = Backoff(first=FIRST_RETRY, longest=LONGEST_RETRY)
        self._failures = 0
        self._is_problem_told = False
        self._data_problem = ""
        self._is_spool_checked = False
        self._is_over = False

    @property
    def hot_update_config(self) -> str:
        return self._job.hot_update_config if self._job is not None else ""

    def told(
        self, document: Document, job: Job | None, known: JobInputs, *, problem: str = ""
    ) -> None:
        """As it is now; `job` None: it cannot be read."""
        self.document, self._job, self._known = document, job, known
        if job is None:
            self.note = problem
        self._woken.set()

    def end(self) -> None:
        """After what is being done: nothing here is left half done."""
        self._is_over = True
        self._woken.set()

    async def worker_reported(self, info: WorkerInfo) -> None:
        """Raises UnusableReport, StoreUnavailable."""
        async with self._job_state.exclusive():
            if self._job is None:
                raise UnusableReport(f"the job cannot be read: {self.note}")
            try:
                heard = hear(self._job, self._job_state.state, info)
            except MalformedJob as error:
                raise UnusableReport(str(error)) from error
            if not isinstance(heard, Heard):
                logger.info(
                    "report without effect",
                    extra=fields(job=self._name, worker=info.name, reason=heard.reason),
                )
                return
            if len(encoded(heard.report)) > MAX_BODY:
                raise UnusableReport(f"more than {MAX_BODY} bytes are not reported")
            await self._job_state.save(self.document, heard.event, heard.report, worker=info.name)
            logger.info(
                "stage ended",
                extra=fields(job=self._name, worker=info.name, stage=info.kind, status=info.status),
            )
        self._woken.set()

    async def run(self) -> None:
        """Until `end`; what is unforeseen is raised."""
        while not self._is_over:
            self._woken.clear()
            if self._job is None:
                await self._woken.wait()
                continue
            now = datetime.now().astimezone()
            try:
                await self._check_spool()
                is_acked = not self._store.pending_of(self.document.uid)
                known = replace(self._known, is_acked=is_acked)
                job = self._job
                command = next_command(job, self._job_state.state, known, pace=self._pace, now=now)
                wait = await self._do(command, job, now)
            except (TaskFailed, StoreUnavailable) as error:
                wait = await self._failed(str(error))
            except UNFORESEEN as error:
                # One bad object stops nothing.
                logger.exception("an object cannot be worked on", extra=fields(object=self._name))
                wait = await self._failed(f"it cannot be worked on: {type(error).__name__}")
            if wait is None or wait > 0:
                await is_set(self._woken, within=wait)

    async def _do(self, command: Command, job: Job, now: datetime) -> float | None:
        """For how long nothing is to be done then."""
        match command:
            case Idle():
                notes = (command.note, self._data_problem)
                self.note = "; ".join(each for each in notes if each)
                if command.judged_round:
                    self._pace = replace(self._pace, judged=now, judged_round=command.judged_round)
                return command.seconds
            case Gather():
                await self._gather(command, now)
            case Repeat(report):
                await self._repeat(report, now)
            case Advance(event, reason, report, tasks):
                try:
                    for task in tasks:
                        await self._files.perform(task, job)
                except ForeignPath as error:
                    event, reason, report = self._refused(command, job, str(error), now)
                await self._settle(event, reason, report)
        await self._recovered()
        return 0

    def _refused(
        self, command: Advance, job: Job, why: str, now: datetime
    ) -> tuple[Event, str, Body | None]:
        """Its stage has failed instead."""
        logger.warning("job may not touch a file", extra=fields(job=self._name, why=why))
        failures, period = self._job_state.state.failures, job.train_trigger.check_period
        failed = refused(command, why, failures=failures, period=period, now=now)
        return failed.event, failed.reason, failed.report

    async def _gather(self, command: Gather, now: datetime) -> None:
        """Data that cannot be read holds up no stage that has what it needs."""
        try:
            reading = await self._files.gather(command)
        except (TaskFailed, ForeignPath) as error:
            self._pace = replace(self._pace, gathered=now)
            self._tell_of_data(str(error))
            return
        self._tell_of_data("")
        event = reading.gathered
        if event.samples or event.cursor != self._job_state.state.cursor:
            await self._job_state.record(self.document, event)
        if event.samples:
            logger.info("samples gathered", extra=fields(job=self._name, samples=event.samples))
        if reading.is_all:
            self._pace = replace(self._pace, gathered=now)

    def _tell_of_data(self, problem: str) -> None:
        """Once; the counter of the dataset reports to GM."""
        if problem and problem != self._data_problem:
            logger.warning(
                "no samples can be gathered", extra=fields(job=self._name, problem=problem)
            )
        self._data_problem = problem

    async def _repeat(self, report: bytes, now: datetime) -> None:
        await self._store.enqueue(
            self.document, is_event=True, worker="", body=report, is_repeated=True
        )
        self._pace = replace(self._pace, told=now, repeats=self._pace.repeats + 1)
        logger.warning("GM is told again", extra=fields(job=self._name))

    async def _settle(self, event: Event, reason: str, report: Body | None) -> None:
        await self._job_state.record(self.document, event, report)
        if report is not None:
            self._pace = replace(self._pace, told=datetime.now().astimezone(), repeats=0)
        logger.info(
            "job goes on",
            extra=fields(
                job=self._name,
                stage=report.get("phase", "") if report else "",
                status=report.get("status", "") if report else "",
                round=getattr(event, "round", 0),
                reason=reason,
            ),
        )
        await self._tidy()

    async def _check_spool(self) -> None:
        """Once, and after a failure: somebody may have removed what was kept there."""
        if self._is_spool_checked:
            return
        lost = await self._files.in_thread(
            lambda _: self._spool.lost(self._job_state.state.segments)
        )
        if lost:
            logger.warning(
                "samples are gone from the spool",
                extra=fields(job=self._name, files=", ".join(sorted(lost))),
            )
            await self._job_state.record(self.document, SegmentsLost(lost))
        await self._tidy()
        self._is_spool_checked = True

    async def _tidy(self) -> None:
        kept = self._job_state.state.spool_files
        await self._files.in_thread(lambda _: self._spool.keep(kept))

    async def _failed(self, problem: str) -> float:
        self._failures += 1
        self._is_spool_checked = False
        self.note = problem
        wait = self._retry.failed(random.random())
        logger.warning(
            "job cannot go on", extra=fields(job=self._name, problem=problem, retry_in=wait)
        )
        if self._failures >= PATIENCE:
            await self._tell_problem(problem)
        return wait

    async def _recovered(self) -> None:
        self._failures = 0
        self._retry.succeeded()
        if self._is_problem_told:
            await self._tell_problem("")

    async def _tell_problem(self, problem: str) -> None:
        condition = self._job.condition if self._job else None
        if condition is None or condition.round is None:
            return
        body = encoded(problem_report(condition.stage, condition.round, problem))
        try:
            await self._store.enqueue(self.document, is_event=False, worker="", body=body)
            self._is_problem_told = bool(problem)
        except StoreUnavailable:
            # It is this that is wrong, and the store says so itself.
            return
