"""GM's side of one LC's stream.

Owns what is sent and when; knows no sockets and no clock. Guarantees: nothing of the objects is
sent before its collections passed what LC knows; the snapshot and what changes after it leave one
FIFO with SnapshotEnd between them; an ended session sends its Drain and nothing else.

    waiting (for the collections) ──► serving ──► ended
       └──────────────────────────────────────────►
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum, auto

from edge_sidecars.sedna_api.core.api_object import Document
from edge_sidecars.sedna_api.core.messages import Ack, Drain, Hello, Pace, ReportRefused, ToNode
from edge_sidecars.sedna_api.core.report import Report
from gm.hub.core.send_queue import SendQueue


class EndCause(Enum):
    """Why a session ends."""

    UNAVAILABLE = auto()
    """This GM does not serve, or no longer: LC redials."""
    MALFORMED = auto()
    """LC said what no LC says."""
    FOREIGN = auto()
    """LC is not the node that it says it is."""
    REPLACED = auto()
    """The node has another stream here."""


@dataclass(frozen=True, slots=True)
class SessionEnded:
    cause: EndCause
    detail: str


class HubSession:
    """One LC's, from its hello on."""

    def __init__(self, hello: Hello, *, since: float) -> None:
        self.hello = hello
        self.since = since
        self.ended: SessionEnded | None = None
        self.is_serving = False
        self._queue = SendQueue()
        self._pace: Pace | None = None
        self._drain: Drain | None = None

    @property
    def node(self) -> str:
        return self.hello.node

    @property
    def backlog(self) -> int:
        """Messages that wait to be sent."""
        return len(self._queue)

    def is_behind(self, version: Callable[[str], int]) -> bool:
        """Whether LC knows what the collections do not."""
        return any(version(kind) < known for kind, known in self.hello.known.items())

    def serve(self, documents: Iterable[Document], *, is_rewound: bool = False) -> None:
        """Begins with the snapshot; what changes from now on is to be told."""
        self.is_serving = True
        if is_rewound:
            self._queue.rewound()
        for document in documents:
            self._queue.put(document)
        self._queue.end_snapshot()

    def concerns(self, document: Document) -> None:
        if self.is_serving:
            self._queue.put(document)

    def leaves(self, document: Document) -> None:
        if self.is_serving:
            self._queue.delete(document)

    def answer(self, answer: Ack | ReportRefused) -> None:
        if isinstance(answer, Ack):
            self._queue.ack(answer.store_id, answer.uid, answer.seq)
        else:
            self._queue.refuse(answer)

    def is_own(self, report: Report) -> bool:
        """Whether the report is of the database that said hello."""
        return report.store_id == self.hello.store_id

    def paced(self, seconds: float) -> None:
        """Said before all else."""
        self._pace = Pace(seconds)

    def end(self, cause: EndCause, detail: str) -> None:
        """The first reason stands."""
        if self.ended is None:
            self.ended = SessionEnded(cause, detail)
            self.is_serving = False
            self._queue = SendQueue()
            self._drain = Drain(detail) if cause is EndCause.UNAVAILABLE else None

    def next_message(self) -> ToNode | None:
        """What is to be sent now."""
        if self._pace is not None:
            pace, self._pace = self._pace, None
            return pace
        if self.ended is not None:
            drain, self._drain = self._drain, None
            return drain
        return self._queue.pop()


def flaw(hello: Hello, proven_node: str | None) -> SessionEnded | None:
    """Why no session follows this hello. `proven_node`: what the certificate or token says, None
    where neither is asked for."""
    if not hello.node or not hello.store_id:
        return SessionEnded(EndCause.MALFORMED, "a hello names its node and its store")
    if proven_node is not None and proven_node != hello.node:
        detail = f"the credentials are those of node {proven_node!r}, not of {hello.node!r}"
        return SessionEnded(EndCause.FOREIGN, detail)
    return None
