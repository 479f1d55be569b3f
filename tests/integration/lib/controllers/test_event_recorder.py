"""Events are told beside the controller: bounded, each once, and given up in the end."""

import asyncio
import json

import pytest

from edge_sidecars.controllers.event_recorder import Event, EventRecorder
from edge_sidecars.controllers.guarded_writes import GuardedWrites, NotLeading
from edge_sidecars.kubeapi import ApiClient, Plain
from tools.harness.pods.wire.raw_server import Connection, RawServer

NODE = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u1"}


def _event(reason: str) -> Event:
    return Event(NODE, reason, "what happened", state=f"u1 {reason}")


def _writes(api: ApiClient, *, leads: bool = True) -> GuardedWrites:
    return GuardedWrites(api, lambda _: leads, field_manager="test", timeout=5.0)


async def _told(url: str, *reasons: str, max_waiting: int = 10) -> tuple[int, int]:
    """How many were told and dropped, when each was one of these."""
    api = ApiClient(Plain(url), user_agent="test")
    recorder = EventRecorder(
        _writes(api), component="test", instance="pod-0", max_waiting=max_waiting
    )
    for reason in reasons:
        recorder.tell(_event(reason))
    running = asyncio.create_task(recorder.run())
    try:
        while recorder.told + recorder.dropped < len(reasons):  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await api.close()
    return recorder.told, recorder.dropped


def _reasons(server: RawServer) -> list[str]:
    return [json.loads(it.partition(b"\r\n\r\n")[2])["reason"] for it in server.requests]


@pytest.mark.parametrize(
    ("status", "told"),
    [("201 Created", (1, 0)), ("409 Conflict", (1, 0)), ("403 Forbidden", (0, 1))],
)
def test_an_event_that_was_answered_is_not_sent_again(status: str, told: tuple[int, int]) -> None:
    """One that exists was told by another leader; one that is refused always will be."""

    def serve(connection: Connection) -> None:
        while connection.request():
            connection.answer(b'{"kind":"Status"}', status=status)

    with RawServer(serve) as server:
        assert asyncio.run(_told(server.url, "Dead")) == told
        assert _reasons(server) == ["Dead"]


def test_where_too_many_wait_the_oldest_is_dropped_and_counted() -> None:
    def serve(connection: Connection) -> None:
        while connection.request():
            connection.answer(b"{}")

    with RawServer(serve) as server:
        assert asyncio.run(_told(server.url, "A", "B", "C", max_waiting=2)) == (2, 1)
        assert _reasons(server) == ["B", "C"]
        assert server.requests[0].startswith(b"POST /api/v1/namespaces/default/events?")


def test_a_write_of_one_that_does_not_lead_is_not_sent_and_is_counted() -> None:
    async def write(url: str) -> GuardedWrites:
        api = ApiClient(Plain(url), user_agent="test")
        writes = _writes(api, leads=False)
        try:
            with pytest.raises(NotLeading):
                await writes.delete("/x", uid="u1")
        finally:
            await api.close()
        return writes

    with RawServer(lambda _: None) as server:
        assert asyncio.run(write(server.url)).counts == {("DELETE", "not leading"): 1}
        assert server.requests == []
