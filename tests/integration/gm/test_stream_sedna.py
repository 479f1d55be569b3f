"""GM before Sedna's own LCs: a client that speaks as they do, over real websockets."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from gm.hub.sedna_server import SednaServer
from tests.integration.gm.streams import (
    LOOPBACK,
    PATIENCE,
    Cloud,
    Gm,
    ReportSink,
    acknowledge,
    document,
    eventually,
    play,
    running_gm,
    running_lc,
)
from tools.harness.controlplane.fault_proxy.proxy import FaultProxy

# json.Marshal(&MessageHeader{}): what an LC of Sedna says first.
BARE_HEADER = '{"namespace":"","resourceKind":"","resourceName":"","operation":""}'


@asynccontextmanager
async def sedna_port(gm: Gm) -> AsyncIterator[int]:
    server = SednaServer(gm.hub)
    port = await server.start(LOOPBACK, 0)
    try:
        yield port
    finally:
        await server.stop()


class OldLc:
    """Keeps what it is told, by kind and name; knows no other operation than these two."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, *, namespace: str) -> None:
        self.socket = socket
        self.namespace = namespace
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.order: list[str] = []

    async def listen(self) -> None:
        async for frame in self.socket:
            message = json.loads(frame.data)
            header = message["header"]
            key = (header["resourceKind"], header["resourceName"])
            content = json.loads(base64.b64decode(message["content"]))
            self.order.append(f"{header['operation']} {header['resourceName']}")
            if header["operation"] == "insert":
                self.objects[key] = content
            else:
                assert header["operation"] == "delete"
                del self.objects[key]

    async def say(self, kind: str, name: str, content: object) -> None:
        data = base64.b64encode(json.dumps(content).encode()).decode()
        header = {
            "namespace": self.namespace,
            "resourceKind": kind,
            "resourceName": name,
            "operation": "status",
        }
        await self.socket.send_json({"header": header, "content": data})


@asynccontextmanager
async def old_lc(
    port: int, *, node: str = "edge-a", namespace: str = "shop", autoping: bool = True
) -> AsyncIterator[OldLc]:
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(
            f"http://{LOOPBACK}:{port}/", headers={"Node-Name": node}, autoping=autoping
        ) as socket,
    ):
        await socket.send_str(BARE_HEADER)
        lc = OldLc(socket, namespace=namespace)
        listening = asyncio.create_task(lc.listen())
        try:
            yield lc
        finally:
            listening.cancel()
            await asyncio.wait({listening})


def test_an_old_lc_is_given_its_objects_in_the_order_in_which_it_needs_them() -> None:
    async def scene() -> None:
        cloud, sink = Cloud(), ReportSink(acknowledge)
        conditions = [{"stage": "Train", "type": "Waiting", "round": 1}]
        job = document(
            "il1",
            1,
            kind="incrementallearningjob",
            spec={"dataset": {"name": "d1"}},
            status={"conditions": conditions},
        )
        for each in (job, document("m1", 2, kind="model"), document("d1", 3)):
            cloud.put("edge-a", each)
        async with (
            running_gm(cloud, sink=sink) as gm,
            sedna_port(gm) as port,
            old_lc(port) as lc,
        ):
            await eventually(lambda: len(lc.objects) == 3)
            assert lc.order == ["insert d1", "insert m1", "insert il1"]
            assert gm.served() == ["edge-a"]
            cloud.put("edge-a", document("d1", 4, spec={"url": "/new.txt"}))
            await eventually(lambda: "spec" in lc.objects["dataset", "d1"])
            await lc.say("dataset", "d1", {"numberOfSamples": 412})
            ready = {"phase": "Train", "status": "Ready", "input": {"outputDir": "/o/train/1"}}
            await lc.say("incrementallearningjob", "il1", ready)
            await eventually(lambda: len(sink.taken) == 2)
            cloud.delete("edge-a", document("d1", 5))
            await eventually(lambda: ("dataset", "d1") not in lc.objects)
        (_, count), (node, event) = sink.taken
        assert json.loads(count.body) == {"numberOfSamples": 412}
        assert (node, event.is_event, event.seq) == ("edge-a", True, 0)

    play(scene())


def test_nonsense_from_an_old_lc_is_ignored_and_its_next_words_count() -> None:
    async def scene() -> None:
        cloud, sink = Cloud(), ReportSink(acknowledge)
        cloud.put("edge-a", document("d1", 1))
        async with (
            running_gm(cloud, sink=sink) as gm,
            sedna_port(gm) as port,
            old_lc(port) as lc,
        ):
            await eventually(lambda: lc.objects)
            await lc.socket.send_str("{")
            await lc.say("dataset", "../d1", {"numberOfSamples": 1})
            await lc.say("dataset", "d1", {"numberOfSamples": 2, "x": "y" * 70_000})
            await lc.say("dataset", "d1", {"numberOfSamples": 3})
            await eventually(lambda: sink.taken)
            assert [json.loads(report.body) for _, report in sink.taken] == [{"numberOfSamples": 3}]
            assert gm.hub.reports_refused == 3

    play(scene())


def test_old_and_new_lcs_live_beside_each_other(tmp_path: Path) -> None:
    async def scene() -> None:
        cloud = Cloud()
        cloud.put("edge-a", document("d1", 1))
        cloud.put("edge-b", document("d2", 2))
        async with (
            running_gm(cloud) as gm,
            sedna_port(gm) as port,
            old_lc(port) as old,
            running_lc(tmp_path, gm.address, node="edge-b") as new,
        ):
            await eventually(lambda: old.objects and new.names() == ["d2"])
            rows = {one.node: one.transport for one in gm.hub.connected()}
            assert rows == {"edge-a": "sedna", "edge-b": "grpc"}

    play(scene())


def test_a_gm_that_does_not_lead_closes_old_lcs_and_answers_503() -> None:
    async def scene() -> None:
        cloud = Cloud()
        async with running_gm(cloud) as gm, sedna_port(gm) as port:
            async with old_lc(port) as lc:
                await eventually(gm.served)
                gm.is_leader = False
                await eventually(lambda: lc.socket.closed)
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                async with old_lc(port):
                    pass
            assert refused.value.status == 503
            gm.is_leader = True
            async with old_lc(port):
                await eventually(gm.served)

    play(scene())


def test_what_an_old_lc_had_sent_when_its_stream_ends_is_taken() -> None:
    async def scene() -> None:
        cloud, sink = Cloud(), ReportSink(acknowledge, capacity=1)
        async with (
            running_gm(cloud, sink=sink) as gm,
            sedna_port(gm) as port,
            old_lc(port) as lc,
        ):
            await eventually(gm.served)
            for count in range(20):
                await lc.say("dataset", f"d{count}", {"numberOfSamples": count})
            # GM reads on where there is room.
            await eventually(lambda: sink.taken)
            gm.is_leader = False
            gm.hub.moved()
            sink.widen(20)
            await eventually(lambda: len(sink.taken) == 20)
            await eventually(lambda: lc.socket.closed)

    play(scene())


@pytest.mark.slow
def test_an_old_lc_in_a_black_hole_is_given_up() -> None:
    async def scene() -> None:
        async with running_gm(Cloud()) as gm, sedna_port(gm) as port:
            with FaultProxy(port) as proxy:
                async with old_lc(proxy.port):
                    await eventually(gm.served)
                    proxy.black_hole()
                    await eventually(lambda: not gm.hub.connected(), within=2 * PATIENCE)
                    proxy.reset()

    play(scene())
