"""Who is served, and until when."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from edge_sidecars.sedna_api.core.messages import Delete, Drain, Pace, Put, SnapshotEnd, ToNode
from gm.hub.core.session import EndCause, SessionEnded
from gm.hub.hub import Hub
from gm.hub.stream import NodeStream
from tests.integration.gm.streams import Cloud, ReportSink, acknowledge, document
from tests.unit.gm.hub.samples import hello, report


def play(scene: Callable[[Cloud], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(scene(Cloud()))


def entered(hub: Hub, node: str = "edge-a") -> NodeStream:
    stream = hub.enter(hello(node), transport="test")
    assert isinstance(stream, NodeStream)
    return stream


async def said(stream: NodeStream, count: int) -> list[ToNode | None]:
    return [await stream.next_message() for _ in range(count)]


def test_what_happens_to_objects_reaches_the_stream_of_their_node_only() -> None:
    async def scene(cloud: Cloud) -> None:
        hub = Hub(cloud, ReportSink(acknowledge), may_serve=lambda: True, rebalances=False)
        cloud.put("edge-a", document("d1", 1))
        ours, theirs = entered(hub), entered(hub, "edge-b")
        assert await said(ours, 2) == [Put(document("d1", 1)), SnapshotEnd()]
        cloud.put("edge-a", document("d2", 2))
        cloud.delete("edge-a", document("d1", 3))
        put, gone = await said(ours, 2)
        assert put == Put(document("d2", 2))
        assert gone == Delete("dataset", "shop", "d1", "uid-d1", 3)
        assert await said(theirs, 1) == [SnapshotEnd()]
        assert theirs.session.backlog == 0

    play(scene)


def test_how_long_changes_waited_for_their_stream_is_counted() -> None:
    async def scene(cloud: Cloud) -> None:
        hub = Hub(cloud, ReportSink(acknowledge), may_serve=lambda: True, rebalances=False)
        stream = entered(hub)
        await said(stream, 1)
        assert _delivered(hub) == (0, 0.0), "the end of a snapshot is no change"
        cloud.put("edge-a", document("d1", 1))
        await asyncio.sleep(0.02)
        cloud.put("edge-a", document("d2", 2))
        await said(stream, 2)
        count, seconds = _delivered(hub)
        assert count == 2
        assert seconds >= 2 * 0.02, "each as long as the oldest that waited"
        cloud.put("edge-a", document("d3", 3))
        await said(stream, 1)
        assert _delivered(hub)[0] == 3
        await stream.deliver(report())
        await said(stream, 1)
        assert _delivered(hub)[0] == 3, "an ack is no change"

    play(scene)


def _delivered(hub: Hub) -> tuple[float, float]:
    """How many changes, and the sum of how long they waited."""
    found = {suffix: value for suffix, _, value in hub.delivery.series()}
    return found["_count"], found["_sum"]


@pytest.mark.parametrize("rebalances", [True, False])
def test_a_stream_past_its_time_is_sent_elsewhere_where_other_gms_serve(rebalances: bool) -> None:
    async def scene(cloud: Cloud) -> None:
        hub = Hub(cloud, ReportSink(acknowledge), may_serve=lambda: True, rebalances=rebalances)
        old, young = entered(hub), entered(hub, "edge-b")
        await said(old, 1)
        old.rebalanced_at = asyncio.get_running_loop().time()
        looking = asyncio.create_task(hub.run())
        await asyncio.sleep(0)
        if rebalances:
            assert isinstance(await old.next_message(), Drain)
        assert (old.ended is not None) is rebalances
        assert young.ended is None
        looking.cancel()
        await asyncio.wait({looking})

    play(scene)


def test_a_drained_hub_ends_its_streams_and_takes_no_more() -> None:
    async def scene(cloud: Cloud) -> None:
        hub = Hub(cloud, ReportSink(acknowledge), may_serve=lambda: True, rebalances=False)
        stream = entered(hub)
        draining = asyncio.create_task(hub.drain("a rollout"))
        assert await said(stream, 2) == [SnapshotEnd(), Drain("a rollout")]
        hub.leave(stream)
        await draining
        assert hub.enter(hello(), transport="test") == SessionEnded(
            EndCause.UNAVAILABLE, "a rollout"
        )
        assert hub.turned_away == 1

    play(scene)


def test_an_answer_that_comes_after_the_end_disturbs_nobody() -> None:
    async def scene(cloud: Cloud) -> None:
        sink = ReportSink(lambda node, report: None)
        hub = Hub(cloud, sink, may_serve=lambda: True, rebalances=False)
        stream = entered(hub)
        await stream.deliver(report())
        stream.end(EndCause.UNAVAILABLE, "over")
        hub.leave(stream)
        stream.answer(acknowledge("edge-a", report()))
        assert await said(stream, 2) == [Drain("over"), None]

    play(scene)


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{", b'{"a":' + b"9" * 70_000 + b"}", b"\xff", b"[" * 9000]
)
def test_a_report_that_says_nothing_is_refused_and_never_taken(body: bytes) -> None:
    async def scene(cloud: Cloud) -> None:
        sink = ReportSink(acknowledge)
        hub = Hub(cloud, sink, may_serve=lambda: True, rebalances=False)
        stream = entered(hub)
        await stream.deliver(report(body=body))
        assert not sink.taken
        assert hub.reports_refused == 1

    play(scene)


def test_a_report_of_another_store_ends_the_stream() -> None:
    async def scene(cloud: Cloud) -> None:
        hub = Hub(cloud, ReportSink(acknowledge), may_serve=lambda: True, rebalances=False)
        stream = entered(hub)
        await stream.deliver(replace(report(), store_id="store-0"))
        assert stream.ended is not None
        assert stream.ended.cause is EndCause.MALFORMED

    play(scene)


def test_who_is_connected_is_told_with_backlog_and_reports() -> None:
    async def scene(cloud: Cloud) -> None:
        cloud.put("edge-a", document("d1", 1))
        hub = Hub(cloud, ReportSink(acknowledge), may_serve=lambda: True, rebalances=False)
        stream = entered(hub)
        await stream.deliver(report())
        (row,) = hub.connected()
        assert (row.node, row.transport, row.is_serving) == ("edge-a", "test", True)
        # An ack, the object, the end.
        assert (row.backlog, row.reports) == (3, 1)
        assert row.last_report_seconds is not None
        hub.leave(stream)
        assert hub.connected() == []

    play(scene)


@pytest.mark.parametrize("comes_to_serve", [True, False])
def test_an_lc_waits_where_a_gm_may_be_the_next_one_that_serves(comes_to_serve: bool) -> None:
    async def scene(cloud: Cloud) -> None:
        serves, may_be_next = False, True
        hub = Hub(
            cloud,
            ReportSink(acknowledge),
            may_serve=lambda: serves,
            may_wait=lambda: may_be_next,
            rebalances=False,
        )
        assert isinstance(hub.enter(hello(), transport="sedna"), SessionEnded)
        stream = hub.enter(hello(), transport="grpc", may_wait=True)
        assert isinstance(stream, NodeStream)
        hub.moved()
        assert (stream.ended, stream.session.is_serving) == (None, False)
        if comes_to_serve:
            serves = True
            hub.moved()
            assert await said(stream, 1) == [SnapshotEnd()]
        else:
            # Another one leads.
            may_be_next = False
            hub.moved()
            assert stream.ended is not None
            assert await said(stream, 2) == [Pace(0.0), Drain("this GM does not lead")]

    play(scene)


def test_nobody_waits_for_longer_than_an_lc_has_patience() -> None:
    async def scene(cloud: Cloud) -> None:
        hub = Hub(
            cloud,
            ReportSink(acknowledge),
            may_serve=lambda: False,
            may_wait=lambda: True,
            rebalances=False,
        )
        stream = hub.enter(hello(), transport="grpc", may_wait=True)
        assert isinstance(stream, NodeStream)
        stream.waits_until = asyncio.get_running_loop().time()
        hub.moved()
        assert stream.ended is not None

    play(scene)


def test_lcs_are_told_of_a_crowd_to_come_back_with_and_the_few_are_not() -> None:
    async def scene(cloud: Cloud) -> None:
        hub = Hub(cloud, ReportSink(acknowledge), may_serve=lambda: True, rebalances=False)
        first = entered(hub, "edge-0")
        looking = asyncio.create_task(hub.run())
        await asyncio.sleep(0)
        assert await said(first, 1) == [SnapshotEnd()]
        for number in range(1, 370):
            entered(hub, f"edge-{number}")
        # Told with the next look.
        assert await said(first, 1) == [Pace(1.0)]
        assert await said(entered(hub, "late"), 2) == [Pace(1.0), SnapshotEnd()]
        looking.cancel()
        await asyncio.wait({looking})

    play(scene)
