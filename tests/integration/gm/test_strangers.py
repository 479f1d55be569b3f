"""Who may come to GM's two doors, how many, and what strangers find there."""

import asyncio
import resource
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import grpc.aio
import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse

from edge_sidecars.runtime.web.listener_metrics import figures, measure
from edge_sidecars.sedna_api.core.messages import Hello
from gm.hub import stream_server
from gm.hub.core.session import EndCause, SessionEnded
from gm.hub.hub import Hub
from gm.hub.sedna_server import SednaServer
from gm.hub.stream_server import PROBES, RESERVED_DESCRIPTORS, StreamServer
from tests.integration.gm.streams import Cloud, ReportSink, acknowledge, eventually
from tools.harness.controlplane.reservation import LOOPBACK

MAX_LCS = 4


@asynccontextmanager
async def doors() -> AsyncIterator[tuple[Hub, int, int]]:
    """The hub and the ports of its two servers."""
    sink = ReportSink(acknowledge)
    hub = Hub(Cloud(), sink, may_serve=lambda: True, rebalances=False, max_lcs=MAX_LCS)
    streams, sedna = StreamServer(hub), SednaServer(hub)
    looking = asyncio.create_task(hub.run())
    try:
        yield hub, await streams.start(f"{LOOPBACK}:0"), await sedna.start(LOOPBACK, 0)
    finally:
        looking.cancel()
        await asyncio.wait({looking})
        await streams.stop()
        await sedna.stop()


async def health(port: int) -> int:
    async with grpc.aio.insecure_channel(f"{LOOPBACK}:{port}") as channel:
        call = channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            request_serializer=HealthCheckRequest.SerializeToString,
            response_deserializer=HealthCheckResponse.FromString,
        )
        answer = await call(HealthCheckRequest(), timeout=5)
        return int(answer.status)


def test_lcs_of_both_doors_together_are_as_many_as_allowed_and_one_that_comes_again_is_none() -> (
    None
):
    async def run() -> None:
        async with doors() as (hub, _, _):
            for number in range(MAX_LCS):
                transport = "grpc" if number % 2 else "sedna"
                it = hub.enter(Hello(f"n{number}", "s", {}, "1"), transport=transport)
                assert not isinstance(it, SessionEnded)
            refused = hub.enter(Hello("late", "s", {}, "1"), transport="grpc")
            assert isinstance(refused, SessionEnded)
            assert refused.cause is EndCause.UNAVAILABLE
            assert "--max-lcs" in refused.detail
            again = hub.enter(Hello("n0", "s", {}, "1"), transport="grpc")
            assert not isinstance(again, SessionEnded)

    asyncio.run(run())


async def is_open(reader: asyncio.StreamReader) -> bool:
    """Whether the server holds the connection for a while."""
    try:
        async with asyncio.timeout(0.5):
            while await reader.read(65536):
                pass
    except TimeoutError:
        return True
    except ConnectionError:
        pass
    return False


def test_connections_of_either_door_are_bounded() -> None:
    async def run() -> None:
        async with doors() as (_, *ports), AsyncExitStack() as stack:
            for port, most in zip(ports, (MAX_LCS + PROBES, MAX_LCS), strict=True):
                readers = []
                for _ in range(3 * most):
                    reader, writer = await asyncio.open_connection(LOOPBACK, port)
                    stack.callback(writer.close)
                    readers.append(reader)
                held = await asyncio.gather(*map(is_open, readers))
                assert 0 < sum(held) <= most

    asyncio.run(run())


def test_a_full_stream_is_seen_with_who_fills_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """gRPC says neither."""
    monkeypatch.setattr(stream_server, "COUNT_EVERY", 0.1)
    most = MAX_LCS + PROBES

    def shown(port: int) -> dict[str, str | int]:
        [it] = [it for it in figures() if it["listen"] == f"{LOOPBACK}:{port}"]
        return it

    async def run() -> None:
        async with doors() as (_, port, _sedna), AsyncExitStack() as stack:
            assert shown(port) == {
                "listen": f"{LOOPBACK}:{port}",
                "connections": 0,
                "maxConnections": most,
            }
            for _ in range(most - 1):
                _, writer = await asyncio.open_connection(LOOPBACK, port)
                stack.callback(writer.close)
            await eventually(lambda: shown(port)["connections"] == most - 1)
            await asyncio.sleep(0.3)
            assert "all connections of the stream are taken" not in caplog.text
            for _ in range(3):
                _, writer = await asyncio.open_connection(LOOPBACK, port)
                stack.callback(writer.close)
            await eventually(lambda: shown(port)["connections"] == most)
            await eventually(lambda: "all connections of the stream are taken" in caplog.text)
            [used] = [it for it in measure() if it.name == "edge_sidecars_connections_used"]
            assert ({"listen": f"{LOOPBACK}:{port}"}, float(most)) in used.samples
            [record] = [it for it in caplog.records if "of the stream" in it.getMessage()]
            assert record.__dict__["fields"]["peer"] == "loopback"
        assert f"{LOOPBACK}:{port}" not in {it["listen"] for it in figures()}

    asyncio.run(run())


def test_the_stream_leaves_descriptors_for_the_api(monkeypatch: pytest.MonkeyPatch) -> None:
    """With `--max-lcs` above the process' limit, which a burst of LCs would otherwise spend."""
    few = RESERVED_DESCRIPTORS + PROBES + 8
    monkeypatch.setattr(resource, "getrlimit", lambda _: (few, few))

    async def run() -> None:
        sink = ReportSink(acknowledge)
        hub = Hub(Cloud(), sink, may_serve=lambda: True, rebalances=False, max_lcs=few)
        streams = StreamServer(hub)
        try:
            port = await streams.start(f"{LOOPBACK}:0")
            async with AsyncExitStack() as stack:
                readers = []
                for _ in range(few):
                    reader, writer = await asyncio.open_connection(LOOPBACK, port)
                    stack.callback(writer.close)
                    readers.append(reader)
                held = await asyncio.gather(*map(is_open, readers))
                assert 0 < sum(held) <= few - RESERVED_DESCRIPTORS
        finally:
            await streams.stop()

    asyncio.run(run())


def test_heads_that_are_none_leave_both_doors_as_they_were() -> None:
    async def run() -> None:
        async with doors() as (_, streams, sedna):
            for port in (streams, sedna):
                for junk in (b"\x00" * 100_000, b"GET / HTTP/1.1\r\nX: " + b"a" * 1_000_000):
                    for _ in range(20):
                        reader, writer = await asyncio.open_connection(LOOPBACK, port)
                        with suppress(ConnectionError):
                            writer.write(junk)
                            await reader.read()
                        writer.close()
            assert await health(streams) == HealthCheckResponse.SERVING
            reader, writer = await asyncio.open_connection(LOOPBACK, sedna)
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await reader.readline()).startswith(b"HTTP/1.1 400 ")
            writer.close()

    asyncio.run(run())
