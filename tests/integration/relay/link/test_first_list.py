"""R5, R8: of a first list that does not come to its end nothing is found, and nothing stays; one
that breaks off each time is no reason to let clients wait."""

import asyncio
import json
import socket
import sqlite3
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager

import pytest
from aiohttp import web

from edge_sidecars.runtime.web.connections import Handler
from relay_sidecar.upstream.reflector.stream_steps import KEPT_TOGETHER
from tests.integration.relay.hosted import Hosted
from tools.harness.controlplane.reservation import LOOPBACK
from tools.harness.pods.observers.observer import wait_for
from tools.harness.pods.relay import RelayProcess
from tools.harness.pods.wire.caller import Caller, Parameters

PATH = "/api/v1/namespaces/default/configmaps"
SOON = 30.0


def configmap(number: int) -> bytes:
    metadata = {"name": f"c{number}", "namespace": "default", "resourceVersion": "5"}
    return json.dumps({"metadata": metadata, "data": {"k": "x" * 1000}}).encode()


async def begun(request: web.BaseRequest) -> web.StreamResponse:
    """A part of a list."""
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    response.enable_chunked_encoding()
    await response.prepare(request)
    items = [configmap(number).replace(b" ", b"") for number in range(3 * KEPT_TOGETHER // 1000)]
    head = b'{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":['
    await response.write(head + b",".join(items))
    return response


async def half(request: web.BaseRequest) -> web.StreamResponse:
    """An API server whose lists stop in the middle."""
    if request.path != PATH:
        return web.Response(text="ok")
    await begun(request)
    await asyncio.Event().wait()
    raise AssertionError


async def broken(request: web.BaseRequest) -> web.StreamResponse:
    """An API server behind something that ends each long answer in the middle."""
    if request.path != PATH:
        return web.Response(text="ok")
    response = await begun(request)
    assert request.transport is not None
    request.transport.close()
    return response


@asynccontextmanager
async def opened() -> AsyncIterator[Handler]:
    yield half


@asynccontextmanager
async def breaking() -> AsyncIterator[Handler]:
    yield broken


def kept(relay: RelayProcess) -> list[int]:
    """How many objects there are on disk of each stream, whole or not."""
    with closing(sqlite3.connect(relay.data_dir / "journal.sqlite3")) as journal:
        return [number for (number,) in journal.execute("SELECT objects FROM stream")]


@contextmanager
def in_the_middle(relay: RelayProcess) -> Iterator[None]:
    """A client waits for a list, of which a part is on disk."""
    relay.wait_link(up=True)
    with socket.create_connection((LOOPBACK, relay.port)) as client:
        asked = f"GET {PATH}?resourceVersion=0 HTTP/1.1\r\nHost: {LOOPBACK}\r\n\r\n"
        client.sendall(asked.encode())
        wait_for(lambda: sum(kept(relay)) > 0, timeout=SOON, what="the first objects on disk")
        yield


def test_r8_of_a_first_list_that_nobody_waits_for_any_more_nothing_stays() -> None:
    with Hosted(opened) as upstream:
        flags = [f"--server={upstream.url}", "--idle-timeout=1s"]
        with RelayProcess(flags) as relay:
            with in_the_middle(relay):
                pass
            wait_for(lambda: kept(relay) == [], timeout=SOON, what="a disk without them")
            assert "Traceback" not in relay.log_text()


def test_r5_of_half_a_list_nothing_is_told_after_a_kill() -> None:
    with ExitStack() as stack:
        with Hosted(opened) as upstream:
            relay = stack.enter_context(RelayProcess([f"--server={upstream.url}"]))
            with in_the_middle(relay):
                relay.kill()
        relay.start()
        relay.wait_link(up=False)
        assert Caller(relay.url).get(PATH, {"resourceVersion": "0"}).status == 503


@pytest.mark.parametrize("reads", ["upstream", "cache"])
def test_r6_where_lists_break_off_clients_see_it_as_upstream_shows_it(reads: str) -> None:
    """And not after the minute that a list may take."""
    with (
        Hosted(breaking) as upstream,
        RelayProcess([f"--server={upstream.url}", f"--reads={reads}"]) as relay,
    ):
        relay.wait_link(up=True)
        caller = Caller(relay.url)
        queries: list[Parameters] = [{}, {"resourceVersion": "0"}, {"resourceVersion": "5"}]
        started = time.monotonic()
        # The stream tries again from time to time: what it has met so far is enough to know.
        watch: Parameters = {"watch": "true", "resourceVersion": "0"}
        for query in [*queries, *queries, watch]:
            with pytest.raises(ConnectionError):
                caller.get(PATH, query)
        assert time.monotonic() - started < SOON
        assert relay.is_link_up
