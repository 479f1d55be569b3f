"""GM's side of one LC's stream, and what waits to be sent on it.

Owns what is sent, when and in which order: answers to reports first, then objects and the
snapshot's end in one FIFO. Knows no sockets and no clock. Guarantees: nothing of the objects is
sent before its collections passed what LC knows; the snapshot and what changes after it leave the
FIFO with SnapshotEnd between them; an ended session sends its Drain and nothing else.

    waiting (for the collections) ──► serving ──► ended
       └──────────────────────────────────────────►

Of one object only the newest state waits, in its first place; an object that LC has from this
stream is never forgotten without a Delete; what LC cannot have gets none, since it drops what the
snapshot lacks. So the queue never holds more than what concerns the node and what LC has, however
slow LC is. Documents are shared with the objects, not copied.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum, auto

from edge_sidecars.sedna_api.core import messages
from edge_sidecars.sedna_api.core.api_object import Document, ObjectKey
from edge_sidecars.sedna_api.core.messages import Ack, Delete, Hello, Put, ReportRefused, ToNode
from edge_sidecars.sedna_api.core.report import Report

Change = Put | Delete


class SendQueue:
    """One stream's, from the snapshot on."""

    def __init__(self) -> None:
        # A key that is set again keeps its place. None: the snapshot's end.
        self._changes: OrderedDict[ObjectKey | None, Change | messages.SnapshotEnd] = OrderedDict()
        # What LC has from this stream, by uid.
        self._told: dict[ObjectKey, str] = {}
        self._acks: dict[tuple[str, str], int] = {}
        self._refusals: list[ReportRefused] = []
        self._is_rewound = False

    def __len__(self) -> int:
        """Messages that wait."""
        answers = len(self._acks) + len(self._refusals)
        return answers + len(self._changes) + self._is_rewound

    def rewound(self) -> None:
        """Tells LC to forget the versions that it knows, before all objects."""
        self._is_rewound = True

    def put(self, document: Document) -> None:
        self._changes[document.key] = Put(document)

    def delete(self, document: Document) -> None:
        """`document`: its last state. LC may have an earlier object of that name."""
        key = document.key
        uid = self._told.get(key)
        if uid is None:
            self._changes.pop(key, None)
        else:
            version = document.resource_version
            self._changes[key] = Delete(key.kind, key.namespace, key.name, uid, version)

    def end_snapshot(self) -> None:
        """Everything of the snapshot was put."""
        self._changes[None] = messages.SnapshotEnd()

    def ack(self, store_id: str, uid: str, seq: int) -> None:
        """An ack includes all lower ones."""
        key = (store_id, uid)
        self._acks[key] = max(seq, self._acks.get(key, 0))

    def refuse(self, refused: ReportRefused) -> None:
        self._refusals.append(refused)

    def pop(self) -> ToNode | None:
        """The next message; it counts as sent."""
        if self._refusals:
            return self._refusals.pop(0)
        if self._acks:
            (store_id, uid), seq = self._acks.popitem()
            return Ack(store_id, uid, seq)
        if self._is_rewound:
            self._is_rewound = False
            return messages.Rewound()
        return self._pop_change()

    def _pop_change(self) -> Change | messages.SnapshotEnd | None:
        if not self._changes:
            return None
        key, change = self._changes.popitem(last=False)
        if key is not None and isinstance(change, Put):
            self._told[key] = change.document.uid
        elif key is not None:
            del self._told[key]
        return change


class EndCause(Enum):
    """Why a session ends."""

    UNAVAILABLE = auto()
    """This GM does not serve, or no longer: LC redials."""
    MALFORMED = auto()
    """LC sent what no LC sends."""
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
        self._pace: messages.Pace | None = None
        self._drain: messages.Drain | None = None

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
        """Begins with the snapshot; what changes from now on is to be sent."""
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
        """Whether the report is of the database of the hello."""
        return report.store_id == self.hello.store_id

    def paced(self, seconds: float) -> None:
        """Sent before everything else."""
        self._pace = messages.Pace(seconds)

    def end(self, cause: EndCause, detail: str) -> None:
        """The first reason is kept."""
        if self.ended is None:
            self.ended = SessionEnded(cause, detail)
            self.is_serving = False
            self._queue = SendQueue()
            self._drain = messages.Drain(detail) if cause is EndCause.UNAVAILABLE else None

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
