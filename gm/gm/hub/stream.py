"""One LC's stream in this process, whatever carries it.

Owns waking the writer. Knows neither gRPC nor websockets: a carrier loops over `next_message`
until it is None, hands reports to `deliver`, and watches `ending`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from typing import Any, TypeAlias

import msgspec

from edge_sidecars.runtime.metrics import Histogram
from edge_sidecars.sedna_api.core.api_object import Document
from edge_sidecars.sedna_api.core.messages import Ack, Delete, Hello, Put, ReportRefused, ToNode
from edge_sidecars.sedna_api.core.report import MalformedReport, Report, check
from gm.hub.core.proof import NodeProof
from gm.hub.core.sedna_messages import Unresolved
from gm.hub.core.session import EndCause, HubSession, SessionEnded
from gm.hub.ports import ReportSink

Task: TypeAlias = "asyncio.Task[None]"


class Connected(msgspec.Struct, frozen=True, rename="camel"):
    """One stream in the /status document; `last_report_seconds` None: without any."""

    node: str
    transport: str
    version: str
    age_seconds: float
    is_serving: bool
    backlog: int
    reports: int
    last_report_seconds: float | None


async def carry(
    stream: NodeStream,
    write: Coroutine[Any, Any, None],
    read: Coroutine[Any, Any, None],
    take_leave: Callable[[Task, Task], Awaitable[None]],
) -> None:
    """Runs a carrier's two sides until the stream ends or LC hangs up. `take_leave` is called with
    them where the stream ended."""
    writing, reading = asyncio.create_task(write), asyncio.create_task(read)
    tasks = (writing, reading, asyncio.create_task(stream.ending.wait()))
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if stream.ended is not None:
            await take_leave(writing, reading)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    for side in (writing, reading):
        # A peer that vanished cancels whatever waits for it.
        if not side.cancelled() and (error := side.exception()) is not None:
            raise error


class NodeStream:
    """From its hello to its end."""

    def __init__(
        self,
        hello: Hello,
        sink: ReportSink,
        *,
        transport: str,
        lifetime: float,
        delivery: Histogram,
        proof: NodeProof | None = None,
    ) -> None:
        """`delivery`: where it counts how long changes waited to be sent."""
        now = asyncio.get_running_loop().time()
        # For reading; what changes it goes through the stream, which wakes the carrier.
        self.session = HubSession(hello, since=now)
        self.proof = proof
        self._sink = sink
        self._transport = transport
        self._wake = asyncio.Event()
        self._delivery = delivery
        # Since when the oldest change waits that is not sent yet.
        self._changed_at: float | None = None
        self._reports = 0
        self._last_report_at: float | None = None
        self.refused = 0
        self.is_over = False
        # Until when it may wait here to be served.
        self.waits_until = now
        self.rebalanced_at = now + lifetime
        self.ending = asyncio.Event()

    @property
    def node(self) -> str:
        return self.session.node

    @property
    def ended(self) -> SessionEnded | None:
        return self.session.ended

    def serve(self, documents: list[Document], *, is_rewound: bool) -> None:
        self.session.serve(documents, is_rewound=is_rewound)
        self._changed()

    def concerns(self, document: Document) -> None:
        self.session.concerns(document)
        self._changed()

    def leaves(self, document: Document) -> None:
        self.session.leaves(document)
        self._changed()

    def _changed(self) -> None:
        if self._changed_at is None and self.session.backlog:
            self._changed_at = asyncio.get_running_loop().time()
        self._wake.set()

    def paced(self, seconds: float) -> None:
        self.session.paced(seconds)
        self._wake.set()

    def end(self, cause: EndCause, detail: str) -> None:
        self.is_over = True
        self.session.end(cause, detail)
        self._wake.set()
        self.ending.set()

    async def next_message(self) -> ToNode | None:
        """Waits for something to send; None at the end."""
        while (message := self.session.next_message()) is None:
            if self.session.ended is not None:
                return None
            self._wake.clear()
            await self._wake.wait()
        if isinstance(message, Put | Delete) and self._changed_at is not None:
            self._delivery.observe(asyncio.get_running_loop().time() - self._changed_at)
        if not self.session.backlog:
            self._changed_at = None
        return message

    async def deliver(self, it: Report | Unresolved) -> None:
        """Returns when the report is on its way to a NodeReport: while there is no room, nothing
        more is read from this LC. Also after the stream's end."""
        if isinstance(it, Unresolved):
            it = replace(it, is_over=lambda: self.is_over)
        report = it.report if isinstance(it, Unresolved) else it
        if not self.session.is_own(report):
            self.end(EndCause.MALFORMED, "a report of another store than the hello's")
            return
        try:
            check(report, is_resolved=report is it)
        except MalformedReport as error:
            self.answer(ReportRefused(report.store_id, report.uid, report.seq, str(error)))
            return
        self._reports += 1
        self._last_report_at = asyncio.get_running_loop().time()
        is_taken = False
        try:
            while not (is_taken := self._sink.take(self.node, it, self.answer)):
                await self._sink.room()
        finally:
            if not is_taken and not report.seq:
                self._sink.lost(self.node, it)

    def answer(self, answer: Ack | ReportRefused) -> None:
        self.refused += isinstance(answer, ReportRefused)
        self.session.answer(answer)
        self._wake.set()

    def connected(self, now: float) -> Connected:
        last = self._last_report_at
        return Connected(
            node=self.node,
            transport=self._transport,
            version=self.session.hello.version,
            age_seconds=now - self.session.since,
            is_serving=self.session.is_serving,
            backlog=self.session.backlog,
            reports=self._reports,
            last_report_seconds=None if last is None else now - last,
        )
