"""Reports on their way from streams into NodeReports.

Owns one queue for each namespace and node, in the order of arrival, and one write at a time for
each: reports that arrive meanwhile go with the next. Guarantees (G3): A report is acknowledged only
after the write that holds it was answered. A report that cannot be stored now stays, in order, or
is dropped without an answer, so that LC sends it again. A report that is never sent again is kept
when the lead ends, and is stored although another GM leads. Only `ReportAuthorization` and the
NodeReport's own rules refuse for good. All queues together are bounded. Lost reports are counted
and logged.
"""

import asyncio
import random
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from edge_sidecars.controllers.guarded_writes import NotLeading
from edge_sidecars.kubeapi import ApiError, Unreachable
from edge_sidecars.runtime.backoff import Backoff
from edge_sidecars.runtime.clock import is_set
from edge_sidecars.runtime.log import fields, logger
from edge_sidecars.sedna_api.core.api_object import Document, NotADocument
from edge_sidecars.sedna_api.core.messages import Ack, ReportRefused
from edge_sidecars.sedna_api.core.report import MalformedReport, Report
from edge_sidecars.sedna_api.core.store_reports import (
    AlreadyStored,
    Full,
    Gap,
    Outcome,
    RefusedReport,
    Stored,
)
from gm.hub.core.sedna_messages import Unresolved
from gm.hub.ports import Answer, MayServe
from gm.reports.node_report_writer import Contended, NodeReportWriter
from gm.reports.report_authorization import ReportAuthorization, malformed

# Reports in all queues; each is 64 KiB at most, some hundred bytes mostly.
MAX_REPORTS = 10_000
MAX_BYTES = 32 * 1024 * 1024
# Reports that one write takes: a NodeReport holds a megabyte.
BATCH = 500
# Seconds until GM has taken in and pruned something.
FULL_POLL = 0.5
# Seconds between two looks at a lead that is too short for a write, but may be prolonged.
LAPSE_POLL = 0.2
LONGEST_RETRY = 4.0
# Seconds at the end of the process for what no LC sends again.
FAREWELL = 2.0


@dataclass(frozen=True, slots=True)
class _Waiting:
    it: Report | Unresolved
    answer: Answer

    @property
    def report(self) -> Report:
        """As it came: without a uid where it is unresolved."""
        return self.it.report if isinstance(self.it, Unresolved) else self.it


@dataclass
class _NodeQueue:
    namespace: str
    node: str
    waiting: deque[_Waiting] = field(default_factory=deque)
    is_served: bool = False


class ReportQueue:
    """The port of the hub. `may_serve`: as the hub asks it, too; where it ends, so do streams.
    `late_writer` writes whichever GM leads: a NodeReport's resourceVersion is its guard."""

    def __init__(
        self,
        authorization: ReportAuthorization,
        writer: NodeReportWriter,
        late_writer: NodeReportWriter,
        *,
        may_serve: MayServe,
    ) -> None:
        self._may_serve = may_serve
        self._authorization = authorization
        self._writer = writer
        self._late_writer = late_writer
        self._queues: dict[tuple[str, str], _NodeQueue] = {}
        self._bytes = 0
        self._count = 0
        self._has_work = asyncio.Event()
        self._has_room = asyncio.Event()
        self.stored = 0
        self.refused = 0
        self.lost_reports = 0
        self.last_refusal = ""
        self._is_quiet = asyncio.Event()
        self._is_quiet.set()

    def __len__(self) -> int:
        return self._count

    @property
    def is_full(self) -> bool:
        return self._count >= MAX_REPORTS or self._bytes >= MAX_BYTES

    def take(self, node: str, report: Report | Unresolved, answer: Answer) -> bool:
        if self.is_full:
            return False
        it = _Waiting(report, answer)
        namespace = it.report.namespace
        queue = self._queues.setdefault((namespace, node), _NodeQueue(namespace, node))
        queue.waiting.append(it)
        self._enter(it)
        self._has_work.set()
        return True

    def lost(self, node: str, report: Report | Unresolved) -> None:
        self._lose(node, 1, "there was no room until the stream's end")

    async def flush(self) -> None:
        """At the end of the process, without streams: returns when all is stored, or soon."""
        await is_set(self._is_quiet, within=FAREWELL)
        for queue in self._queues.values():
            left = sum(not it.report.is_numbered for it in queue.waiting)
            if left:
                self._lose(queue.node, left, "the process ends")

    async def room(self) -> None:
        while self.is_full:
            self._has_room.clear()
            await self._has_room.wait()

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                self._has_work.clear()
                for queue in self._queues.values():
                    if queue.waiting and not queue.is_served:
                        queue.is_served = True
                        group.create_task(self._serve(queue))
                await self._has_work.wait()

    async def _serve(self, queue: _NodeQueue) -> None:
        """Until the queue is empty."""
        backoff = Backoff(longest=LONGEST_RETRY)
        while queue.waiting:
            try:
                pause = await self._store_some(queue)
                backoff.succeeded()
            except NotLeading:
                pause = LAPSE_POLL
                if not self._may_serve():
                    # All streams are closed: LC sends it to the leader of now, if it sends it
                    # again.
                    self._forget_numbered(queue)
                    pause = 0.0
            except (ApiError, Unreachable, Contended, MalformedReport, NotADocument) as error:
                pause = backoff.failed(random.random())
                logger.warning(
                    "reports could not be stored",
                    extra=fields(node=queue.node, why=str(error), delay=pause),
                )
            await asyncio.sleep(pause)
        queue.is_served = False
        del self._queues[queue.namespace, queue.node]

    def _forget_numbered(self, queue: _NodeQueue) -> None:
        kept = deque(it for it in queue.waiting if not it.report.is_numbered)
        for it in queue.waiting:
            if it.report.is_numbered:
                self._leave(it)
        queue.waiting = kept

    async def _store_some(self, queue: _NodeQueue) -> float:
        """Seconds until it is worth another try."""
        batch = [queue.waiting[index] for index in range(min(len(queue.waiting), BATCH))]
        is_late = not self._may_serve() and not any(it.report.is_numbered for it in batch)
        writer = self._late_writer if is_late else self._writer
        decided = await self._decided(queue.node, batch)
        wanted = [it for it in decided if isinstance(it, Report)]
        outcomes: Iterator[Outcome] = iter(())
        if wanted:
            outcomes = iter(await writer.store(queue.namespace, queue.node, wanted))
        answers = [it if isinstance(it, RefusedReport) else next(outcomes) for it in decided]
        # What came meanwhile is behind these.
        for _ in batch:
            self._leave(queue.waiting.popleft())
        kept = self._answer(queue, zip(batch, answers, strict=True))
        for it in reversed(kept):
            queue.waiting.appendleft(it)
            self._enter(it)
        return FULL_POLL if kept else 0.0

    async def _decided(self, node: str, batch: list[_Waiting]) -> list[Report | RefusedReport]:
        """What is to be stored of each; an object is asked about once."""
        decided: list[Report | RefusedReport] = []
        subjects: dict[tuple[str, str, str], Document | RefusedReport] = {}
        for waiting in batch:
            report, it = waiting.report, waiting.it
            why = "" if report is not it else malformed(report)
            if why:
                decided.append(RefusedReport(why))
                continue
            about = (report.uid, report.kind, report.name)
            if about not in subjects:
                subjects[about] = await self._authorization.subject(node, report)
            subject = subjects[about]
            if isinstance(subject, RefusedReport):
                decided.append(subject)
            else:
                decided.append(it.about(subject) if isinstance(it, Unresolved) else report)
        return decided

    def _answer(
        self, queue: _NodeQueue, outcomes: Iterable[tuple[_Waiting, Outcome]]
    ) -> list[_Waiting]:
        """Those that stay, in their order."""
        kept: list[_Waiting] = []
        for it, outcome in outcomes:
            report = it.report
            match outcome:
                case Stored() | AlreadyStored():
                    self.stored += 1
                    it.answer(Ack(report.store_id, report.uid, report.seq))
                case RefusedReport(reason):
                    self._refuse(queue, it, reason)
                case Full():
                    kept.append(it)
                case Gap():
                    # What has to come first stays too, or is nowhere here: LC sends both again.
                    if any(other.report.uid == report.uid for other in kept):
                        kept.append(it)
        return kept

    def _refuse(self, queue: _NodeQueue, it: _Waiting, reason: str) -> None:
        report = it.report
        self.refused += 1
        self.last_refusal = (
            f"{queue.node}: {report.kind} {report.namespace}/{report.name}: {reason}"
        )
        logger.warning(
            "a report is refused",
            extra=fields(
                node=queue.node,
                object=f"{report.kind} {report.namespace}/{report.name}",
                seq=report.seq,
                why=reason,
            ),
        )
        it.answer(ReportRefused(report.store_id, report.uid, report.seq, reason))

    def _lose(self, node: str, count: int, why: str) -> None:
        self.lost_reports += count
        logger.error("reports are lost", extra=fields(node=node, reports=count, why=why))

    def _enter(self, it: _Waiting) -> None:
        self._is_quiet.clear()
        self._count += 1
        self._bytes += len(it.report.body)

    def _leave(self, it: _Waiting) -> None:
        self._count -= 1
        self._bytes -= len(it.report.body)
        if not self.is_full:
            self._has_room.set()
        if not self._count:
            self._is_quiet.set()
