"""GMs, one LC, the API and the connections between them, in virtual time and one thread.

Owns no rules: those are the cores of gm, lc and sedna_api; here is only what shells do with them,
step by step, so that anything may happen between two steps. A connection keeps its order and loses
its end; an abandoned one goes on delivering to its GM what LC had written; a GM's watch and its
copies of objects are as old as the steps let them be; writes are bound to a resourceVersion.
"""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass, field, replace

import msgspec

from edge_sidecars.sedna_api.core.api_object import Document, ObjectKey
from edge_sidecars.sedna_api.core.messages import (
    Ack,
    Drain,
    FromNode,
    Hello,
    Put,
    ReportRefused,
    ToNode,
)
from edge_sidecars.sedna_api.core.node_report import NodeReport
from edge_sidecars.sedna_api.core.report import Report
from edge_sidecars.sedna_api.core.store_reports import AlreadyStored, RefusedReport, Stored
from edge_sidecars.sedna_api.core.stored_report import AppliedReport, StoredReport, mergeable
from gm.hub.core.session import EndCause, HubSession
from lc.core import outbox
from lc.core import session as lc_session
from lc.core.outbox import Queue
from lc.core.session import SendWindow

NODE = "edge-a"
KIND = "incrementallearningjob"


@dataclass
class Change:
    """An event of the API: an object as it is, or as it was when it was deleted."""

    document: Document
    is_deletion: bool = False


@dataclass
class Taken:
    """What GM did with one report: (store, seq, body) in the order of status writes."""

    applied: AppliedReport | None = None
    effects: list[tuple[str, int, bytes]] = field(default_factory=list)


class Api:
    """Objects, their history, and the one NodeReport."""

    def __init__(self) -> None:
        self.version = 0
        self.history: list[Change] = []
        self.objects: dict[ObjectKey, Document] = {}
        self.status: dict[str, Taken] = {}
        self.report = NodeReport.new("shop", NODE, "", epoch=1)

    def put(self, name: str) -> Document:
        """Creates or changes it."""
        old = self.objects.get(ObjectKey(KIND, "shop", name))
        self.version += 1
        uid = f"{name}-{self.version}" if old is None else old.uid
        metadata = {
            "name": name,
            "namespace": "shop",
            "uid": uid,
            "resourceVersion": str(self.version),
        }
        document = Document.parse(json.dumps({"metadata": metadata}).encode(), KIND)
        self.objects[document.key] = document
        self.status.setdefault(uid, Taken())
        self.history.append(Change(document))
        return document

    def delete(self, name: str) -> None:
        self.version += 1
        document = self.objects.pop(ObjectKey(KIND, "shop", name))
        gone = msgspec.structs.replace(document, resource_version=self.version)
        self.history.append(Change(gone, is_deletion=True))

    def by_uid(self, uid: str) -> Document | None:
        return next((each for each in self.objects.values() if each.uid == uid), None)

    def write_report(self, read: NodeReport, written: NodeReport) -> bool:
        """Whether nobody else has written since it was read."""
        if read.resource_version != self.report.resource_version:
            return False
        self.version += 1
        self.report = replace(written, resource_version=str(self.version))
        return True


class Connection:
    """One TCP connection: `up` and `down` are what is on its way."""

    def __init__(self, gm: Gm) -> None:
        self.gm = gm
        self.up: deque[FromNode] = deque()
        self.down: deque[ToNode] = deque()
        self.session: HubSession | None = None


class Gm:
    """Its watch has come to `position` in the API's history."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self.position = 0
        self.objects: dict[ObjectKey, Document] = {}
        self.connections: list[Connection] = []
        self.report_queue: list[tuple[Connection, Report]] = []
        self.copy: NodeReport | None = None

    @property
    def version(self) -> int:
        seen = self._api.history[: self.position]
        return seen[-1].document.resource_version if seen else 0

    def restart(self, *, behind: int) -> None:
        """Lists again, perhaps from a cache that is `behind` changes old."""
        self.connections, self.report_queue, self.copy = [], [], None
        self.position, self.objects = 0, {}
        self.watch(len(self._api.history) - behind)

    def watch(self, position: int) -> None:
        """Hears of everything up to there."""
        while self.position < position:
            change = self._api.history[self.position]
            self.position += 1
            document = change.document
            if change.is_deletion:
                self.objects.pop(document.key, None)
            else:
                self.objects[document.key] = document
            for connection in self.connections:
                if (session := connection.session) is not None:
                    tell = session.leaves if change.is_deletion else session.concerns
                    tell(document)
        for connection in self.connections:
            self._admit(connection)

    def hear(self, connection: Connection) -> None:
        """One message of LC."""
        message = connection.up.popleft()
        if isinstance(message, Hello):
            for other in self.connections:
                if other is not connection and other.session is not None:
                    other.session.end(EndCause.REPLACED, "a newer one")
            connection.session = HubSession(message, since=0.0)
            self._admit(connection)
        elif connection.session is not None and connection.session.is_own(message):
            self.report_queue.append((connection, message))

    def say(self, connection: Connection) -> None:
        """Puts what is to be told on the wire."""
        session = connection.session
        while session is not None and (message := session.next_message()) is not None:
            connection.down.append(message)

    def read_report(self) -> None:
        self.copy = self._api.report

    def store(self) -> None:
        """Writes what waits over the copy that was read; answers what then stands."""
        if self.copy is None or not self.report_queue:
            return
        read, self.copy = self.copy, None
        here = [(one, report) for one, report in self.report_queue if self._api.by_uid(report.uid)]
        written, outcomes = read.stored([report for _, report in here])
        if written is not read and not self._api.write_report(read, written):
            # A GM that is short of room lets go what it could not write.
            self.report_queue = self.report_queue[1:]
            return
        for connection, report in self.report_queue:
            if self._api.by_uid(report.uid) is None and connection.session is not None:
                answer = ReportRefused(
                    report.store_id, report.uid, report.seq, "its object is gone"
                )
                connection.session.answer(answer)
        for (connection, report), outcome in zip(here, outcomes, strict=True):
            session = connection.session
            if session is None:
                continue
            if isinstance(outcome, Stored | AlreadyStored):
                session.answer(Ack(report.store_id, report.uid, report.seq))
            elif isinstance(outcome, RefusedReport):
                session.answer(
                    ReportRefused(report.store_id, report.uid, report.seq, outcome.reason)
                )
        # What was full or met a gap is let go: LC sends it again.
        self.report_queue = []

    def _admit(self, connection: Connection) -> None:
        session = connection.session
        if session is None or session.is_serving or session.ended is not None:
            return
        if not session.is_behind(lambda kind: self.version):
            session.serve(list(self.objects.values()))


@dataclass
class Fold:
    """What a leader read, and will write if the object is still the same."""

    document: Document
    applied: AppliedReport
    reports: tuple[StoredReport, ...]


class Lc:
    """Its disk is `objects`, `queues` and `store_id`; all else ends with the process."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._stores = 0
        self.lose_disk()

    def lose_disk(self) -> None:
        self._stores += 1
        self.store_id = f"store-{self._stores}"
        self.objects: dict[ObjectKey, Document] = {}
        self.left_at = 0
        self.queues: dict[str, Queue] = {}
        # Everything ever said as an event, by uid, of this store.
        self.events: dict[str, list[bytes]] = {}
        self.newest: dict[str, bytes] = {}
        self.refused: list[tuple[str, int]] = []
        self.restart()

    def restart(self) -> None:
        self.connection: Connection | None = None
        self._rules: lc_session.Session | None = None
        self._window = SendWindow()

    def connect(self, gm: Gm) -> None:
        """An earlier connection is left as it is: GM may not have noticed."""
        self.connection = Connection(gm)
        gm.connections.append(self.connection)
        self._rules = lc_session.Session(self.store_id, self.objects.get)
        self._window = SendWindow()
        highest = max([self.left_at, *(it.resource_version for it in self.objects.values())])
        self.connection.up.append(lc_session.hello(NODE, self.store_id, {KIND: highest}, "test"))

    def report(self, document: Document, *, body: bytes, is_event: bool, now: float) -> None:
        queue = self.queues.get(document.uid, Queue(document.uid))
        said = Report(
            "", 0, document.uid, KIND, document.namespace, document.name, is_event, "w", body
        )
        self.queues[document.uid] = outbox.enqueue(
            queue, said, store_id=self.store_id, now=now
        ).queue
        if is_event:
            self.events.setdefault(document.uid, []).append(body)
        else:
            self.newest[document.uid] = body

    def pending(self) -> list[Report]:
        return [report for queue in self.queues.values() for report in outbox.in_line(queue)]

    def send(self, *, limit: int, now: float) -> None:
        if self.connection is None:
            return
        for report in self._window.due(self.pending(), now)[:limit]:
            self.connection.up.append(report)
            self._window.sent(report, now)

    @property
    def is_over(self) -> bool:
        """Whether GM has ended the present connection, and said all that it had to say."""
        connection = self.connection
        if connection is None or connection.down:
            return False
        is_unknown = connection not in connection.gm.connections
        ended = connection.session is not None and connection.session.ended is not None
        return is_unknown or ended

    def hear(self, *, now: float) -> None:
        """One message of the present connection."""
        if self.connection is None or self._rules is None or not self.connection.down:
            return
        for effect in self._rules.received(self.connection.down.popleft()):
            self._perform(effect, now)

    def _perform(self, effect: lc_session.Effect, now: float) -> None:
        match effect:
            case Put(document):
                held = self.objects.get(document.key)
                if held is not None and held.uid == document.uid:
                    assert held.resource_version < document.resource_version
                self.objects[document.key] = document
            case lc_session.RemoveObject(key, uid, version):
                assert self.objects[key].uid == uid
                self._drop(key)
                self.left_at = max(self.left_at, version)
            case lc_session.KeepOnly(kept, _):
                for key, document in tuple(self.objects.items()):
                    if (key, document.uid) not in kept:
                        self._drop(key)
            case Ack(_, uid, seq):
                self._window.answered(uid, now)
                self.queues[uid], _ = outbox.acknowledged(self.queues[uid], seq)
            case ReportRefused(_, uid, seq):
                self._window.refused(uid)
                self.queues[uid], _ = outbox.refused(self.queues[uid], seq)
                self.refused.append((uid, seq))
            case Drain():
                self.connection = None

    def _drop(self, key: ObjectKey) -> None:
        """Everything here concerns the node as long as it exists."""
        dropped = self.objects.pop(key)
        self.left_at = max(self.left_at, dropped.resource_version)
        assert self._api.by_uid(dropped.uid) is None, "LC drops only what is gone"


def fold(api: Api, report: NodeReport, document: Document) -> Fold | None:
    """What a leader would write into this object, after what it has read."""
    applied = api.status[document.uid].applied
    ready = mergeable(report.pending(document.uid), applied)
    if not ready:
        return None
    return Fold(document, AppliedReport.of(NODE, ready.reports[-1]), ready.reports)
