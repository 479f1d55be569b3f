"""All streams of this GM.

Owns who is connected, and when LCs are served. Guarantees: An LC is served only while this GM may
serve, has listed everything and reaches the API server, asked anew five times a second and at each
change. When that ends, all streams end at once. A node has one stream, the newest. Streams are
rebalanced after a while where any GM may serve. An LC that comes while no GM may serve yet, but
this one may be next, waits here for some seconds instead of dialling all the time; and all LCs are
sent how far to spread their next dial. Knows neither gRPC nor websockets.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable

from edge_sidecars.runtime.clock import is_set
from edge_sidecars.runtime.log import fields, logger, sparing
from edge_sidecars.runtime.metrics import Histogram
from edge_sidecars.sedna_api.core.api_object import Document
from edge_sidecars.sedna_api.core.kinds import DATASET, MODEL
from edge_sidecars.sedna_api.core.messages import Hello
from gm.hub.core.proof import NodeProof, SecondStream, may_replace
from gm.hub.core.redial_policy import RestoreDetection, RestoreVerdict, is_news, lifetime, pace
from gm.hub.core.session import EndCause, SessionEnded
from gm.hub.ports import HubObjects, MayServe, ReportSink
from gm.hub.stream import Connected, NodeStream

# Seconds; the lead ends by the passing of time, which is no event.
LOOK_EVERY = 0.2
# Seconds for LCs to hear that they are to redial. Each of them needs one round trip.
FAREWELL = 1.0
# Seconds that an LC may wait to be served; it gives up a GM that says nothing for 10 s.
WAIT_FOR = 8.0
# Seconds: to a stream that is read, a change goes within a turn of the loop.
DELIVERY_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0)
# What jobs refer to comes before them.
_FIRST = {DATASET.singular: 0, MODEL.singular: 1}


class Hub:
    """Listens to `objects` from its making on; `run` until the process ends.

    `rebalances`: whether other GMs serve as well. `may_wait`: whether this GM may be the next one
    that serves, so that LCs do well to wait for it. `max_lcs`: streams at a time; None: any
    number. `second_stream` is called for each stream of a node that is connected."""

    def __init__(
        self,
        objects: HubObjects,
        sink: ReportSink,
        *,
        may_serve: MayServe,
        rebalances: bool,
        may_wait: MayServe = lambda: False,
        max_lcs: int | None = None,
        second_stream: Callable[[SecondStream], None] = lambda _: None,
    ) -> None:
        self._objects = objects
        self._sink = sink
        self._may_serve = may_serve
        self._rebalances = rebalances
        self._may_wait = may_wait
        self.max_lcs = max_lcs
        self._second_stream = second_stream
        # The number of LCs that those that are served have last received.
        self._pace = 0.0
        self._began = asyncio.get_running_loop().time()
        self._restore_detection = RestoreDetection()
        # By node, the newest of each; and all that have not left yet.
        self._streams: dict[str, NodeStream] = {}
        self._present: set[NodeStream] = set()
        self._waiting: set[NodeStream] = set()
        self._empty = asyncio.Event()
        self._empty.set()
        self._draining: str | None = None
        # Streams answered with UNAVAILABLE since the process began.
        self.turned_away = 0
        self.delivery = Histogram(DELIVERY_BOUNDS)
        self._reports_refused = 0
        objects.subscribe(self)

    # For carriers of streams

    def unavailable(self) -> str | None:
        """Why no LC is served now."""
        if self._draining is not None:
            return self._draining
        if not self._may_serve():
            return "this GM does not lead"
        if not self._objects.is_synced:
            return "this GM has not listed everything yet"
        if not self._objects.is_link_up:
            return "this GM does not reach the API server"
        return None

    def turn_away(self, *, may_wait: bool = False) -> SessionEnded | None:
        """The refusal of an LC that comes now, if none is served. `may_wait`: it understands to."""
        reason = self.unavailable()
        if reason is None or (may_wait and self._is_waited_for()):
            return None
        self.turned_away += 1
        return SessionEnded(EndCause.UNAVAILABLE, reason)

    def enter(
        self,
        hello: Hello,
        *,
        transport: str,
        may_wait: bool = False,
        proof: NodeProof | None = None,
    ) -> NodeStream | SessionEnded:
        """The node's stream, which ends an earlier one that gives way to its `proof`."""
        turned_away = self.turn_away(may_wait=may_wait)
        if turned_away is not None:
            return turned_away
        former = self._streams.get(hello.node)
        if former is None and self.max_lcs is not None and len(self._present) >= self.max_lcs:
            self.turned_away += 1
            if sparing.allows("max-lcs"):
                logger.warning(
                    "no more LCs are served",
                    extra=fields(limit=self.max_lcs, remedy="raise --max-lcs"),
                )
            why = f"this GM has {self.max_lcs} LCs, as many as --max-lcs allows"
            return SessionEnded(EndCause.UNAVAILABLE, why)
        if former is not None:
            refused = self._meet(former, proof)
            if refused is not None:
                return refused
        now = asyncio.get_running_loop().time()
        lives = lifetime(now - self._began, random.random())
        stream = NodeStream(
            hello,
            self._sink,
            transport=transport,
            lifetime=lives,
            delivery=self.delivery,
            proof=proof,
        )
        stream.waits_until = now + (WAIT_FOR if may_wait else 0.0)
        self._streams[hello.node] = stream
        self._present.add(stream)
        self._empty.clear()
        self._waiting.add(stream)
        logger.info(
            "an LC is connected",
            extra=fields(node=hello.node, transport=transport, version=hello.version),
        )
        if self.unavailable() is None:
            self._admit(stream, now)
        return stream

    def _meet(self, former: NodeStream, proof: NodeProof | None) -> SessionEnded | None:
        """Ends the node's former stream, or returns why the second one is refused."""
        is_refused = former.ended is None and not may_replace(former.proof, proof)
        if is_refused:
            detail = (
                f"node {former.node!r} is connected with a newer token, or with that of another "
                "pod: show a newer one"
            )
            logger.warning("a second stream is refused", extra=fields(node=former.node, why=detail))
        else:
            detail = "a second stream took the place of the node's former one"
            former.end(EndCause.REPLACED, "the node has a newer stream")
        self._second_stream(SecondStream(former.node, proof, is_refused, detail))
        return SessionEnded(EndCause.FOREIGN, detail) if is_refused else None

    def leave(self, stream: NodeStream) -> None:
        """The connection is gone."""
        stream.is_over = True
        self._present.discard(stream)
        if not self._present:
            self._empty.set()
        self._waiting.discard(stream)
        self._reports_refused += stream.refused
        if self._streams.get(stream.node) is stream:
            del self._streams[stream.node]
        reason = "the connection ended" if stream.ended is None else stream.ended.detail
        logger.info("an LC is gone", extra=fields(node=stream.node, reason=reason))

    # For the process

    async def run(self) -> None:
        """Looks whether streams may go on, until it is cancelled."""
        while True:
            self._look()
            self._rebalance()
            self._tell_pace()
            await asyncio.sleep(LOOK_EVERY)

    async def drain(self, reason: str) -> None:
        """Sends all LCs elsewhere and takes no more; returns when they are gone, or soon."""
        self._draining = reason
        self._look()
        await is_set(self._empty, within=FAREWELL)

    def connected(self) -> list[Connected]:
        """Who is connected, by node."""
        now = asyncio.get_running_loop().time()
        return [self._streams[node].connected(now) for node in sorted(self._streams)]

    @property
    def reports_refused(self) -> int:
        """Reports refused for good since the process began."""
        return self._reports_refused + sum(stream.refused for stream in self._present)

    # As a NodeListener

    def concerns(self, node: str, document: Document) -> None:
        if stream := self._streams.get(node):
            stream.concerns(document)

    def leaves(self, node: str, document: Document) -> None:
        if stream := self._streams.get(node):
            stream.leaves(document)

    def moved(self) -> None:
        """Also whenever `may_serve` may say something else. Hears of each change of each object:
        without streams the next look is soon enough."""
        if self._present:
            self._look()

    # Inside

    def _look(self) -> None:
        reason = self.unavailable()
        if reason is not None:
            self._restore_detection.forget()
            if self._present:
                self._end_all_but_waiting(reason)
            return
        now = asyncio.get_running_loop().time()
        for stream in tuple(self._waiting):
            self._admit(stream, now)

    def _admit(self, stream: NodeStream, now: float) -> None:
        """Gives a waiting stream its snapshot, as soon as this GM knows what its LC does."""
        if stream.ended is not None:
            self._waiting.discard(stream)
            return
        session, node = stream.session, stream.node
        is_rewound = False
        if session.is_behind(self._objects.version):
            verdict = self._restore_detection.judge(node, waiting_since=session.since, now=now)
            if verdict is RestoreVerdict.WAIT:
                return
            if verdict is RestoreVerdict.ANOTHER_GM:
                self._waiting.discard(stream)
                stream.end(EndCause.UNAVAILABLE, "this GM does not know yet what this LC knows")
                return
            is_rewound = True
            known = dict(session.hello.known)
            logger.warning(
                "the API's history is behind an LC's for good", extra=fields(node=node, known=known)
            )
        else:
            self._restore_detection.reached(node)
        self._waiting.discard(stream)
        if self._pace:
            stream.paced(self._pace)
        stream.serve(_in_order(self._objects.node_documents(node)), is_rewound=is_rewound)

    def _is_waited_for(self) -> bool:
        return self._draining is None and self._may_wait()

    def _end_all_but_waiting(self, reason: str) -> None:
        now = asyncio.get_running_loop().time()
        is_waited_for = self._is_waited_for()
        # All of them come and go together, also where not all are sent away at once.
        seconds = pace(len(self._waiting))
        for stream in tuple(self._present):
            waits = stream in self._waiting
            if waits and is_waited_for and now < stream.waits_until:
                continue
            if waits and stream.ended is None:
                stream.paced(seconds)
            stream.end(EndCause.UNAVAILABLE, reason)
        self._waiting = {stream for stream in self._waiting if stream.ended is None}

    def _tell_pace(self) -> None:
        """Also to those that were served while there were fewer."""
        served = [stream for stream in self._present if stream.session.is_serving]
        now = pace(len(served))
        if is_news(self._pace, now):
            self._pace = now
            for stream in served:
                stream.paced(now)

    def _rebalance(self) -> None:
        if not self._rebalances:
            return
        now = asyncio.get_running_loop().time()
        for stream in tuple(self._present):
            if now >= stream.rebalanced_at:
                stream.end(EndCause.UNAVAILABLE, "streams are spread over all GMs anew")


def _in_order(documents: Iterable[Document]) -> list[Document]:
    return sorted(documents, key=lambda document: _FIRST.get(document.kind, len(_FIRST)))
