"""Reports on their way from streams into NodeReports.

Owns one box for each namespace and node, in the order of arrival, and one write at a time for each:
whatever arrives meanwhile goes with the next. Guarantees (G3): a report is acknowledged only after
the write that holds it was answered; what cannot be stored now stays, in order, or is forgotten
without an answer, so that LC sends it again; nothing is refused for good but by `Authority` or the
NodeReport's own rules. All boxes together are bounded.
"""

import asyncio
import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from gm.authority import Authority, malformed
from gm.hub.ports import Acked, MayServe, RefusedForGood
from gm.log import fields, logger
from gm.node_report_writer import Contended, NodeReportWriter
from gm.writes import NotLeading
from kubeapi import ApiError, Unreachable
from sedna_api.core.document import NotADocument
from sedna_api.core.node_report import (
    AlreadyStored,
    Full,
    Gap,
    Outcome,
    RefusedReport,
    Stored,
)
from sedna_api.core.redial import Redial
from sedna_api.core.report import Malformed, Report

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

Answer = Callable[[Acked | RefusedForGood], None]


@dataclass(frozen=True, slots=True)
class _Waiting:
    report: Report
    answer: Answer


@dataclass
class _Box:
    namespace: str
    node: str
    waiting: deque[_Waiting] = field(default_factory=deque)
    is_served: bool = False


class Inbox:
    """The port of the hub. `may_serve`: as the hub asks it, too; where it ends, so do streams."""

    def __init__(
        self, authority: Authority, writer: NodeReportWriter, *, may_serve: MayServe
    ) -> None:
        self._may_serve = may_serve
        self._authority = authority
        self._writer = writer
        self._boxes: dict[tuple[str, str], _Box] = {}
        self._bytes = 0
        self._count = 0
        self._has_work = asyncio.Event()
        self._has_room = asyncio.Event()
        self.stored = 0
        self.refused = 0
        self.last_refusal = ""

    def __len__(self) -> int:
        return self._count

    @property
    def is_full(self) -> bool:
        return self._count >= MAX_REPORTS or self._bytes >= MAX_BYTES

    def take(self, node: str, report: Report, answer: Answer) -> bool:
        if self.is_full:
            return False
        key = (report.namespace, node)
        box = self._boxes.setdefault(key, _Box(report.namespace, node))
        it = _Waiting(report, answer)
        box.waiting.append(it)
        self._enter(it)
        self._has_work.set()
        return True

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
        redial = Redial(longest=LONGEST_RETRY)
        while box.waiting:
            try:
                pause = await self._store_some(box)
                redial.succeeded()
            except NotLeading:
                pause = LAPSE_POLL
                if not self._may_serve():
                    # All streams are closed: LC tells whoever leads now.
                    self._empty(box)
            except (ApiError, Unreachable, Contended, Malformed, NotADocument) as error:
                pause = redial.failed(random.random())
                logger.warning(
                    "reports could not be stored",
                    extra=fields(node=box.node, why=str(error), delay=pause),
                )
            await asyncio.sleep(pause)
        box.is_served = False
        del self._boxes[box.namespace, box.node]

    def _empty(self, box: _Box) -> None:
        while box.waiting:
            self._leave(box.waiting.popleft())

    async def _store_some(self, box: _Box) -> float:
        """Seconds until it is worth another try."""
        batch = [box.waiting[index] for index in range(min(len(box.waiting), BATCH))]
        objections = await self._objections(box.node, [it.report for it in batch])
        wanted = [it.report for it, why in zip(batch, objections, strict=True) if not why]
        outcomes: Iterator[Outcome] = iter(())
        if wanted:
            outcomes = iter(await self._writer.store(box.namespace, box.node, wanted))
        told = [RefusedReport(why) if why else next(outcomes) for why in objections]
        # Whatever came meanwhile stands behind these.
        for _ in batch:
            self._leave(box.waiting.popleft())
        kept = self._answer(box, zip(batch, told, strict=True))
        for it in reversed(kept):
            box.waiting.appendleft(it)
            self._enter(it)
        return FULL_POLL if kept else 0.0

    async def _objections(self, node: str, reports: list[Report]) -> list[str]:
        """Of each report; an object is asked about once."""
        found: list[str] = []
        verdicts: dict[tuple[str, str, str], str] = {}
        for report in reports:
            why = malformed(report)
            if not why:
                about = (report.uid, report.kind, report.name)
                if about not in verdicts:
                    verdicts[about] = await self._authority.objection(node, report)
                why = verdicts[about]
            found.append(why)
        return found

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

    def _enter(self, it: _Waiting) -> None:
        self._count += 1
        self._bytes += len(it.report.body)

    def _leave(self, it: _Waiting) -> None:
        self._count -= 1
        self._bytes -= len(it.report.body)
        if not self.is_full:
            self._has_room.set()
