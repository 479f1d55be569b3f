"""What networks and processes do to streams, and that LCs are served again."""

import asyncio
import os
import socket
import stat
import time
from contextlib import suppress
from pathlib import Path

import grpc
import grpc.aio
import pytest

from edge_sidecars.sedna_api.core.messages import Hello, Put, SnapshotEnd
from edge_sidecars.sedna_api.stream_codec import decode_to_node, encode_from_node
from tests.integration.gm.streams import (
    PATIENCE,
    Cloud,
    ReportSink,
    acknowledge,
    dial,
    document,
    eventually,
    play,
    running_gm,
    running_lc,
)
from tools.harness.controlplane.fault_proxy.proxy import FaultProxy


@pytest.mark.slow
def test_an_lc_cut_by_a_black_hole_notices_and_is_served_again(tmp_path: Path) -> None:
    async def scene() -> None:
        cloud, sink = Cloud(), ReportSink(acknowledge)
        dataset = document("d1", 1)
        cloud.put("edge-a", dataset)
        async with running_gm(cloud, sink=sink) as gm:
            with FaultProxy(gm.port) as proxy:
                async with running_lc(tmp_path, f"127.0.0.1:{proxy.port}") as lc:
                    await eventually(lambda: lc.is_up)
                    proxy.black_hole()
                    cloud.put("edge-a", document("d2", 2))
                    await lc.report(dataset, {"numberOfSamples": 1})
                    # Both sides find the half-open connection by themselves.
                    await eventually(lambda: not lc.is_up)
                    await eventually(lambda: not gm.hub.connected())
                    assert not sink.taken
                    proxy.heal()
                    await eventually(lambda: lc.is_up and lc.names() == ["d1", "d2"])
                    await eventually(lambda: lc.store.backlog()[0] == 0)

    play(scene())


def test_an_lc_whose_connection_is_reset_is_served_again(tmp_path: Path) -> None:
    async def scene() -> None:
        cloud = Cloud()
        cloud.put("edge-a", document("d1", 1))
        async with running_gm(cloud) as gm:
            with FaultProxy(gm.port) as proxy:
                async with running_lc(tmp_path, f"127.0.0.1:{proxy.port}") as lc:
                    await eventually(lambda: lc.is_up)
                    proxy.reset()
                    await eventually(lambda: not lc.is_up)
                    cloud.put("edge-a", document("d1", 2))
                    proxy.heal()
                    await eventually(lambda: lc.is_up and lc.versions() == {"d1": 2})

    play(scene())


def test_gm_killed_and_back_on_its_port_serves_again(tmp_path: Path) -> None:
    async def scene() -> None:
        cloud = Cloud()
        cloud.put("edge-a", document("d1", 1))
        async with running_gm(cloud) as gm:
            port = gm.port
            with FaultProxy(port) as proxy:
                async with running_lc(tmp_path, f"127.0.0.1:{proxy.port}") as lc:
                    await eventually(lambda: lc.is_up)
                    # As a process that is killed: no word to anybody.
                    proxy.refuse()
                    await gm.server.stop()
                    await eventually(lambda: not lc.is_up)
                    cloud.put("edge-a", document("d2", 2))
                    async with running_gm(cloud, port=port):
                        proxy.heal()
                        await eventually(lambda: lc.is_up and lc.names() == ["d1", "d2"])

    play(scene())


def test_streams_end_at_once_when_the_lead_is_lost_and_begin_at_the_next_leader(
    tmp_path: Path,
) -> None:
    async def scene() -> None:
        cloud = Cloud()
        cloud.put("edge-a", document("d1", 1))
        async with running_gm(cloud) as first, running_gm(cloud) as second:
            second.is_leader = False
            async with running_lc(tmp_path, first.address, second.address) as lc:
                await eventually(lambda: lc.is_up)
                assert (first.served(), second.served()) == (["edge-a"], [])
                first.is_leader, second.is_leader = False, True
                # Nobody tells the hub: the lead ends by the passing of time.
                await eventually(lambda: second.served() == ["edge-a"])
                assert not first.hub.connected()
                await eventually(lambda: lc.is_up)

    play(scene())


@pytest.mark.parametrize("lack", ["is_synced", "is_link_up"])
def test_a_gm_that_may_be_behind_serves_nobody(tmp_path: Path, lack: str) -> None:
    async def scene() -> None:
        cloud = Cloud()
        cloud.put("edge-a", document("d1", 1))
        async with running_gm(cloud) as gm, running_lc(tmp_path, gm.address) as lc:
            await eventually(lambda: lc.is_up)
            setattr(cloud, lack, False)
            cloud.moved()
            await eventually(lambda: gm.hub.turned_away >= 2)
            assert not lc.is_up
            assert lc.names() == ["d1"]
            assert "UNAVAILABLE" in lc.link.status().problem
            setattr(cloud, lack, True)
            cloud.moved()
            await eventually(lambda: lc.is_up)

    play(scene())


def test_a_drained_lc_is_at_another_gm_before_its_own_has_ended(tmp_path: Path) -> None:
    async def scene() -> None:
        cloud = Cloud()
        cloud.put("edge-a", document("d1", 1))
        async with (
            running_gm(cloud) as first,
            running_gm(cloud) as second,
            running_lc(tmp_path, first.address, second.address) as lc,
        ):
            await eventually(lambda: lc.is_up)
            leaving, staying = (first, second) if first.served() else (second, first)
            await leaving.hub.drain("a rollout")
            assert not leaving.hub.connected()
            await eventually(lambda: staying.served() == ["edge-a"])
            assert lc.names() == ["d1"]

    play(scene())


def test_a_slow_lc_holds_only_its_own_queue(tmp_path: Path) -> None:
    """It says hello and never reads; the other one hears everything meanwhile."""

    async def scene() -> None:
        cloud = Cloud()
        payload = "x" * 50_000
        async with running_gm(cloud) as gm, running_lc(tmp_path, gm.address, node="edge-b") as lc:
            await eventually(lambda: lc.is_up)
            # The narrowest windows of HTTP/2: unread bytes wait at GM, not on their way.
            narrow = [("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 65_535)]
            async with grpc.aio.insecure_channel(gm.address, options=narrow) as channel:
                call = dial(channel)
                await call.write(encode_from_node(Hello("edge-a", "store-slow", {})))
                await eventually(lambda: "edge-a" in gm.served())
                version = 0
                for _ in range(10):
                    for name in range(20):
                        version += 1
                        one = document(f"d{name}", version, payload=payload)
                        cloud.put("edge-a", one)
                        cloud.put("edge-b", one)
                    await asyncio.sleep(0.01)
                await eventually(lambda: max(lc.versions().values(), default=0) == version)
                slow = next(one for one in gm.hub.connected() if one.node == "edge-a")
                # One state of each object, of the two hundred changes.
                assert 0 < slow.backlog <= 20
                # It wakes, and is told the newest of each.
                told: dict[str, int] = {}
                async with asyncio.timeout(PATIENCE):
                    while told != lc.versions():
                        message = decode_to_node(await call.read())
                        if isinstance(message, Put):
                            told[message.document.name] = message.document.resource_version
                call.cancel()

    play(scene())


def test_a_node_has_one_stream_the_newest(tmp_path: Path) -> None:
    async def scene() -> None:
        cloud = Cloud()
        async with running_gm(cloud) as gm, grpc.aio.insecure_channel(gm.address) as channel:
            calls = []
            for _ in range(2):
                call = dial(channel)
                await call.write(encode_from_node(Hello("edge-a", "store", {})))
                assert decode_to_node(await call.read()) == SnapshotEnd()
                calls.append(call)
            assert await calls[0].code() is grpc.StatusCode.ABORTED
            assert gm.served() == ["edge-a"]
            calls[1].cancel()
            await eventually(lambda: not gm.hub.connected())

    play(scene())


@pytest.mark.long
@pytest.mark.slow
def test_two_hundred_lcs_come_back_after_a_restart_without_a_storm(tmp_path: Path) -> None:
    async def scene() -> None:
        cloud = Cloud()
        nodes = [f"edge-{number}" for number in range(200)]
        for number, node in enumerate(nodes, 1):
            cloud.put(node, document(f"d-{node}", number))
        async with running_gm(cloud) as gm, asyncio.TaskGroup() as group:
            port, leaving = gm.port, asyncio.Event()
            lcs = []

            async def live(node: str) -> None:
                async with running_lc(tmp_path / node, gm.address, node=node) as lc:
                    lcs.append(lc)
                    await leaving.wait()

            with FaultProxy(port) as proxy:
                gm.port = proxy.port
                for node in nodes:
                    (tmp_path / node).mkdir()
                    group.create_task(live(node))
                await eventually(lambda: len(gm.served()) == 200, within=60)
                before = proxy.traffic().connections
                proxy.refuse()
                await gm.server.stop()
                await eventually(lambda: not any(lc.is_up for lc in lcs))
                async with running_gm(cloud, port=port) as again:
                    healed_at = time.monotonic()
                    proxy.heal()
                    await eventually(lambda: all(lc.is_up for lc in lcs), within=60)
                    # One dial each: nobody was turned away, and few came twice, but whom a busy
                    # machine keeps waiting: at most once a second.
                    seconds = time.monotonic() - healed_at
                    dials = proxy.traffic().connections - before
                    assert 200 <= dials <= 300 + 200 * seconds
                    assert again.hub.turned_away == 0
                    assert len(again.served()) == 200
                    leaving.set()

    play(scene())


def is_socket(descriptor: int) -> bool:
    try:
        return stat.S_ISSOCK(os.fstat(descriptor).st_mode)
    except OSError:
        return False


def test_bytes_that_nobody_acknowledges_end_the_connection_on_both_sides(tmp_path: Path) -> None:
    """A proxy's kernel would acknowledge them: so it is the option that is looked at."""

    async def scene() -> None:
        async with running_gm(Cloud()) as gm, running_lc(tmp_path, gm.address) as lc:
            await eventually(lambda: lc.is_up)
            found = {}
            for entry in os.listdir("/proc/self/fd"):
                # Of others a copy would stay open: no pipe of this process would ever end.
                if not is_socket(int(entry)):
                    continue
                with suppress(OSError), socket.socket(fileno=os.dup(int(entry))) as one:
                    if one.family not in (socket.AF_INET, socket.AF_INET6):
                        continue
                    ends = (one.getsockname()[1], one.getpeername()[1])
                    if gm.port in ends:
                        option = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
                        found["gm" if ends[0] == gm.port else "lc"] = option
            assert found == {"gm": 5000, "lc": 5000}

    play(scene())
