"""Reports on their way from streams into NodeReports.

Owns one box for each namespace and node, in the order of arrival, and one write at a time for each:
whatever arrives meanwhile goes with the next. Guarantees (G3): a report is acknowledged only after
the write that holds it was answered; what cannot be stored now stays, in order, or is forgotten
without an answer, so that LC sends it again; what nobody sends again is forgotten by nobody: it
stays when the lead ends, and is stored although another leads; nothing is refused for good but by
`Authority` or the NodeReport's own rules. All boxes together are bounded. What is lost all the same
is counted and logged.
"""

import asyncio
import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from edge_sidecars.kubeapi import ApiError, Unreachable
from edge_sidecars.runtime.backoff import Backoff
from edge_sidecars.runtime.log import fields, logger
from edge_sidecars.sedna_api.core.api_object import Document, NotADocument
from edge_sidecars.sedna_api.core.node_report import (
    AlreadyStored,
    Full,
    Gap,
    Outcome,
    RefusedReport,
    Stored,
)
from edge_sidecars.sedna_api.core.report import Malformed, Report
from gm.controller.api_writes import NotLeading
from gm.hub.ports import Acked, MayServe, RefusedForGood, Unresolved
from gm.reports.node_report_writer import Contended, NodeReportWriter
from gm.reports.report_authorization import Authority, Objection, malformed

# Reports in all boxes; each is 64 KiB at most, some hundred bytes mostly.
MAX_REPORTS = 10_000
MAX_BYTES = 32 * 1024 * 1024
# Reports that one write takes: a NodeReport holds a megabyte.
BATCH = 500
# Seconds until GM has taken in and pruned something.
FULL_POLL = 0.5
# Seconds between two looks at a lead that is too short for a write, but may be prolonged.
LAPSE_POLL = 0.2
LONGEST_RETRY = 4.0
# Seconds at the end of the process for what nobody sends again.
FAREWELL = 2.0

Answer = Callable[[Acked | RefusedForGood], None]


@dataclass(frozen=True, slots=True)
class _Waiting:
    it: Report | Unresolved
    answer: Answer

    @property
    def report(self) -> Report:
        """As it came: without a uid where it is unresolved."""
        return self.it.report if isinstance(self.it, Unresolved) else self.it


@dataclass
class _Box:
    namespace: str
    node: str
    waiting: deque[_Waiting] = field(default_factory=deque)
    is_served: bool = False


class Inbox:
    """The port of the hub. `may_serve`: as the hub asks it, too; where it ends, so do streams.
    `late_writer` writes whoever leads: a NodeReport's resourceVersion is its guard."""

    def __init__(
        self,
        authority: Authority,
        writer: NodeReportWriter,
        late_writer: NodeReportWriter,
        *,
        may_serve: MayServe,
    ) -> None:
        self._may_serve = may_serve
        self._authority = authority
        self._writer = writer
        self._late_writer = late_writer
        self._boxes: dict[tuple[str, str], _Box] = {}
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
        box = self._boxes.setdefault((namespace, node), _Box(namespace, node))
        box.waiting.append(it)
        self._enter(it)
        self._has_work.set()
        return True

    def lost(self, node: str, report: Report | Unresolved) -> None:
        self._lose(node, 1, "there was no room until the stream's end")

    async def flush(self) -> None:
        """At the end of the process, without streams: returns when all is stored, or soon."""
        with suppress(TimeoutError):
            async with asyncio.timeout(FAREWELL):
                await self._is_quiet.wait()
        for box in self._boxes.values():
            left = sum(not it.report.is_numbered for it in box.waiting)
            if left:
                self._lose(box.node, left, "the process ends")

    async def room(self) -> None:
        while self.is_full:
            self._has_room.clear()
            await self._has_room.wait()

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                self._has_work.clear()
                for box in self._boxes.values():
                    if box.waiting and not box.is_served:
                        box.is_served = True
                        group.create_task(self._serve(box))
                await self._has_work.wait()

    async def _serve(self, box: _Box) -> None:
        """Until the box is empty."""
        backoff = Backoff(longest=LONGEST_RETRY)
        while box.waiting:
            try:
                pause = await self._store_some(box)
                backoff.succeeded()
            except NotLeading:
                pause = LAPSE_POLL
                if not self._may_serve():
                    # All streams are closed: LC tells whoever leads now, if it tells it again.
                    self._forget_numbered(box)
                    pause = 0.0
            except (ApiError, Unreachable, Contended, Malformed, NotADocument) as error:
                pause = backoff.failed(random.random())
                logger.warning(
                    "reports could not be stored",
                    extra=fields(node=box.node, why=str(error), delay=pause),
                )
            await asyncio.sleep(pause)
        box.is_served = False
        del self._boxes[box.namespace, box.node]

    def _forget_numbered(self, box: _Box) -> None:
        kept = deque(it for it in box.waiting if not it.report.is_numbered)
        for it in box.waiting:
            if it.report.is_numbered:
                self._leave(it)
        box.waiting = kept

    async def _store_some(self, box: _Box) -> float:
        """Seconds until it is worth another try."""
        batch = [box.waiting[index] for index in range(min(len(box.waiting), BATCH))]
        is_late = not self._may_serve() and not any(it.report.is_numbered for it in batch)
        writer = self._late_writer if is_late else self._writer
        decided = await self._decided(box.node, batch)
        wanted = [it for it in decided if isinstance(it, Report)]
        outcomes: Iterator[Outcome] = iter(())
        if wanted:
            outcomes = iter(await writer.store(box.namespace, box.node, wanted))
        told = [
            RefusedReport(it.reason) if isinstance(it, Objection) else next(outcomes)
            for it in decided
        ]
        # Whatever came meanwhile stands behind these.
        for _ in batch:
            self._leave(box.waiting.popleft())
        kept = self._answer(box, zip(batch, told, strict=True))
        for it in reversed(kept):
            box.waiting.appendleft(it)
            self._enter(it)
        return FULL_POLL if kept else 0.0

    async def _decided(self, node: str, batch: list[_Waiting]) -> list[Report | Objection]:
        """What is to be stored of each; an object is asked about once."""
        decided: list[Report | Objection] = []
        subjects: dict[tuple[str, str, str], Document | Objection] = {}
        for waiting in batch:
            report, it = waiting.report, waiting.it
            why = "" if report is not it else malformed(report)
            if why:
                decided.append(Objection(why))
                continue
            about = (report.uid, report.kind, report.name)
            if about not in subjects:
                subjects[about] = await self._authority.subject(node, report)
            subject = subjects[about]
            if isinstance(subject, Objection):
                decided.append(subject)
            else:
                decided.append(it.about(subject) if isinstance(it, Unresolved) else report)
        return decided

    def _answer(self, box: _Box, outcomes: Iterable[tuple[_Waiting, Outcome]]) -> list[_Waiting]:
        """Those that stay, in their order."""
        kept: list[_Waiting] = []
        for it, outcome in outcomes:
            report = it.report
            match outcome:
                case Stored() | AlreadyStored():
                    self.stored += 1
                    it.answer(Acked(report.store_id, report.uid, report.seq))
                case RefusedReport(reason):
                    self._refuse(box, it, reason)
                case Full():
                    kept.append(it)
                case Gap():
                    # What has to come first stays too, or is nowhere here: LC sends both again.
                    if any(other.report.uid == report.uid for other in kept):
                        kept.append(it)
        return kept

    def _refuse(self, box: _Box, it: _Waiting, reason: str) -> None:
        report = it.report
        self.refused += 1
        self.last_refusal = f"{box.node}: {report.kind} {report.namespace}/{report.name}: {reason}"
        logger.warning(
            "a report is refused",
            extra=fields(
                node=box.node,
                object=f"{report.kind} {report.namespace}/{report.name}",
                seq=report.seq,
                why=reason,
            ),
        )
        it.answer(RefusedForGood(report.store_id, report.uid, report.seq, reason))

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
