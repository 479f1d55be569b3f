"""What tests of streams are made of: objects and reports in memory, GM's real hub and carriers,
LC's real store and link.

Everything of one test runs in one event loop, as it would in one process each.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import grpc.aio
import uvloop

from edge_sidecars.runtime.cli.proxies import NO_PROXIES, ProxyVariables
from edge_sidecars.sedna_api.core.api_object import Document, ObjectKey
from edge_sidecars.sedna_api.core.messages import Ack, ReportRefused
from edge_sidecars.sedna_api.core.report import Report
from edge_sidecars.sedna_api.stream_codec import METHOD
from gm.cache.informers import NodeListener
from gm.hub.core.sedna_messages import Unresolved
from gm.hub.credentials import ServerTls
from gm.hub.hub import Hub
from gm.hub.ports import TokenReviewer
from gm.hub.stream_server import StreamServer
from lc.store import Store, open_store
from lc.stream.stream_link import ClientTls, StreamLink
from tools.harness.controlplane.reservation import Reservation

LOOPBACK = "127.0.0.1"
# Seconds; what a test waits for comes within a tenth of it.
PATIENCE = 20.0

T = TypeVar("T")
Answer = Callable[[Ack | ReportRefused], None]


def document(
    name: str, version: int, *, kind: str = "dataset", uid: str = "", **more: object
) -> Document:
    """`more` stands beside its metadata."""
    metadata = {
        "name": name,
        "namespace": "shop",
        "uid": uid or f"uid-{name}",
        "resourceVersion": str(version),
    }
    raw = json.dumps({"kind": kind, "metadata": metadata, **more}).encode()
    return Document.parse(raw, kind)


class Cloud:
    """The directory of objects: what GM would have from the API."""

    def __init__(self) -> None:
        self.is_synced = True
        self.is_link_up = True
        self.versions: dict[str, int] = {}
        self._objects: dict[str, dict[ObjectKey, Document]] = {}
        self._listeners: list[NodeListener] = []

    def node_documents(self, node: str) -> Iterable[Document]:
        return tuple(self._objects.get(node, {}).values())

    def version(self, kind: str) -> int:
        return self.versions.get(kind, 0)

    def subscribe(self, listener: NodeListener) -> None:
        self._listeners.append(listener)

    def put(self, node: str, document: Document) -> None:
        self._objects.setdefault(node, {})[document.key] = document
        self._came_to(document)
        for listener in self._listeners:
            listener.concerns(node, document)
            listener.moved()

    def delete(self, node: str, document: Document) -> None:
        """`document`: its last state."""
        del self._objects[node][document.key]
        self._came_to(document)
        for listener in self._listeners:
            listener.leaves(node, document)
            listener.moved()

    def moved(self) -> None:
        for listener in self._listeners:
            listener.moved()

    def _came_to(self, document: Document) -> None:
        highest = max(self.version(document.kind), document.resource_version)
        self.versions[document.kind] = highest


@dataclass
class ReportSink:
    """Takes reports while there is room, and answers each by `verdict`; None: not yet."""

    verdict: Callable[[str, Report], Ack | ReportRefused | None]
    capacity: int = 1000
    taken: list[tuple[str, Report]] = field(default_factory=list)
    _room: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self, node: str, it: Report | Unresolved, answer: Answer) -> bool:
        if len(self.taken) >= self.capacity:
            self._room.clear()
            return False
        report = it.report if isinstance(it, Unresolved) else it
        self.taken.append((node, report))
        verdict = self.verdict(node, report)
        if verdict is not None:
            answer(verdict)
        return True

    async def room(self) -> None:
        await self._room.wait()

    def lost(self, node: str, report: Report | Unresolved) -> None:
        raise AssertionError(f"lost of {node}: {report}")

    def widen(self, capacity: int) -> None:
        self.capacity = capacity
        self._room.set()


def acknowledge(node: str, report: Report) -> Ack:
    return Ack(report.store_id, report.uid, report.seq)


@dataclass
class Gm:
    """One GM's hub with its gRPC server on a port of the loopback."""

    hub: Hub
    server: StreamServer
    cloud: Cloud
    sink: ReportSink
    port: int
    is_leader: bool = True

    @property
    def address(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    def served(self) -> list[str]:
        return [one.node for one in self.hub.connected() if one.is_serving]


@asynccontextmanager
async def running_gm(
    cloud: Cloud,
    *,
    sink: ReportSink | None = None,
    port: int = 0,
    tls: ServerTls | None = None,
    reviewer: TokenReviewer | None = None,
) -> AsyncIterator[Gm]:
    """Is killed at the end, without a drain; `hub.drain` comes before where it shall be gentle."""
    taking = sink or ReportSink(acknowledge)
    # While it is stopped, and started again on its port by the test, nobody else is given that.
    held = Reservation(port) if port == 0 else None
    port = port if held is None else held.port
    led: list[Gm] = []
    hub = Hub(cloud, taking, may_serve=lambda: not led or led[0].is_leader, rebalances=False)
    server = StreamServer(hub, tls=tls, reviewer=reviewer)
    gm = Gm(hub, server, cloud, taking, await server.start(f"{LOOPBACK}:{port}"))
    led.append(gm)
    looking = asyncio.create_task(hub.run())
    try:
        yield gm
    finally:
        looking.cancel()
        await asyncio.wait({looking})
        await server.stop()
        if held is not None:
            held.release()


@dataclass
class Lc:
    """One LC's store and link."""

    node: str
    store: Store
    link: StreamLink

    def names(self, kind: str = "dataset") -> list[str]:
        return sorted(each.name for each in self.store.objects(kind))

    def versions(self, kind: str = "dataset") -> dict[str, int]:
        return {each.name: each.resource_version for each in self.store.objects(kind)}

    @property
    def is_up(self) -> bool:
        return self.link.status().is_up

    async def report(self, document: Document, body: object, *, is_event: bool = False) -> Report:
        data = json.dumps(body).encode()
        return await self.store.enqueue(document, is_event=is_event, worker="w", body=data)


@asynccontextmanager
async def running_lc(
    directory: Path,
    *addresses: str,
    node: str = "edge-a",
    tls: ClientTls | None = None,
    token_file: Path | None = None,
    proxies: ProxyVariables = NO_PROXIES,
) -> AsyncIterator[Lc]:
    async with open_store(directory) as store:
        link = StreamLink(
            store,
            node=node,
            addresses=addresses,
            version="test",
            redial_cap=2.0,
            tls=tls,
            token_file=token_file,
            proxies=proxies,
        )
        running = asyncio.create_task(link.run())
        try:
            yield Lc(node, store, link)
        finally:
            running.cancel()
            (result,) = await asyncio.gather(running, return_exceptions=True)
            assert isinstance(result, asyncio.CancelledError), result


def dial(channel: grpc.aio.Channel) -> Any:
    """A stream without a link: bytes in, bytes out."""
    method: Any = channel.stream_stream(METHOD)
    return method()


async def eventually(question: Callable[[], object], *, within: float = PATIENCE) -> float:
    """Returns when the answer is yes, and after how many seconds."""
    began = time.monotonic()
    while not question():
        assert time.monotonic() - began < within, "it never came true"
        await asyncio.sleep(0.01)
    return time.monotonic() - began


async def never(question: Callable[[], object], *, within: float) -> None:
    """Fails as soon as the answer is yes."""
    end = time.monotonic() + within
    while time.monotonic() < end:
        assert not question(), "it came true"
        await asyncio.sleep(0.02)


def play(scene: Coroutine[Any, Any, T]) -> T:
    """As GM and LC run: on uvloop."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(scene)
