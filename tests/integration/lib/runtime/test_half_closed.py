"""Clients that end their side after the request, as `nc -N` and socat do, get their answer."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uvloop

from edge_sidecars.runtime.cli.values import Address
from edge_sidecars.runtime.web import aiohttp_web as web
from edge_sidecars.runtime.web import connections
from edge_sidecars.runtime.web.listener import Listener, ListenerOptions
from tools.harness.controlplane.reservation import LOOPBACK

GET = b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n"
# Seconds for a busy machine.
SOON = 10.0

LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]
Run = Callable[[Callable[[], Awaitable[None]]], None]


@pytest.fixture(params=LOOPS, ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    def on_loop(work: Callable[[], Awaitable[None]]) -> None:
        async def main() -> None:
            async with asyncio.timeout(SOON):
                await work()

        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(main())

    return on_loop


class Door:
    """A handler for each path, and what became of it."""

    def __init__(self) -> None:
        self.has_ended = asyncio.Event()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        match request.path:
            case "/late":
                await asyncio.sleep(0.2)
            case "/never":
                try:
                    await asyncio.Event().wait()
                finally:
                    self.has_ended.set()
            case "/stream" | "/watch":
                if isinstance(request.protocol, connections.Connection):
                    request.protocol.is_lively = request.path == "/stream"
                return await self._stream(request)
            case "/large":
                return web.Response(body=b"x" * 20_000_000)
        await request.read()
        return web.Response(text=request.path)

    async def _stream(self, request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            for number in range(8):
                await response.write(b"%d\n" % number)
                await asyncio.sleep(0.2)
        finally:
            self.has_ended.set()
        return response


@asynccontextmanager
async def opened(door: Door, *, path: str = "") -> AsyncIterator[Address]:
    address = Address("", 0, path) if path else Address(LOOPBACK, 0)
    options = ListenerOptions(log="test.http", backlog=16, shutdown_grace=0.1)
    listener = Listener(address, door.handle, options=options, limit=8)
    await listener.open()
    try:
        yield listener.bound
    finally:
        await listener.close()


async def said(address: Address, content: bytes) -> bytes:
    """All that comes back for these bytes, and their end, until the server closes."""
    if address.path:
        reader, writer = await asyncio.open_unix_connection(address.path)
    else:
        reader, writer = await asyncio.open_connection(address.host, address.port)
    writer.write(content)
    writer.write_eof()
    try:
        return await reader.read()
    finally:
        writer.close()


@pytest.mark.parametrize("is_unix", [False, True], ids=["tcp", "unix"])
@pytest.mark.parametrize("path", [b"/now", b"/late"])
def test_a_half_closed_client_gets_its_answer_and_then_the_end(
    run: Run, tmp_path: Path, path: bytes, is_unix: bool
) -> None:
    async def work() -> None:
        async with opened(Door(), path=str(tmp_path / "s") if is_unix else "") as address:
            for _ in range(5):
                answer = await said(address, GET % path)
                assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
                assert answer.endswith(b"\r\n\r\n" + path)

    run(work)


def test_every_request_that_came_whole_is_answered(run: Run) -> None:
    async def work() -> None:
        async with opened(Door()) as address:
            requests = b"".join(GET % path for path in (b"/late", b"/a", b"/b", b"/large"))
            answer = await said(address, requests + b"GET /half HT")
            assert answer.count(b"HTTP/1.1 200 OK") == 4
            assert len(answer) > 20_000_000

    run(work)


def test_a_stream_goes_on_for_a_half_closed_client(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "PATIENCE", 0.5)

    async def work() -> None:
        async with opened(Door()) as address:
            answer = await said(address, GET % b"/stream")
            assert answer.endswith(b"\r\n7\n\r\n0\r\n\r\n")

    run(work)


@pytest.mark.parametrize(
    "content",
    [
        b"POST /late HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf",
        b"GET /late HT",
        b"",
    ],
)
def test_what_is_not_whole_is_not_waited_for(run: Run, content: bytes) -> None:
    async def work() -> None:
        async with opened(Door()) as address:
            assert await said(address, content) == b""

    run(work)


def test_a_stream_that_pauses_gives_its_place_back_at_once(run: Run) -> None:
    """Long before `PATIENCE` is over: a watch is asked for again, and there are only so many."""

    async def work() -> None:
        door = Door()
        async with opened(door) as address:
            answer = await said(address, GET % b"/watch")
            assert b"\r\n0\n\r\n" in answer
            assert b"\r\n7\n\r\n" not in answer
            await door.has_ended.wait()

    run(work)


@pytest.mark.parametrize("path", [b"/never", b"/stream"])
def test_a_client_that_left_is_not_answered_for_long(
    run: Run, monkeypatch: pytest.MonkeyPatch, path: bytes
) -> None:
    """Without a word to it, it looks like one that has only ended its side."""
    monkeypatch.setattr(connections, "PATIENCE", 0.5)

    async def work() -> None:
        door = Door()
        async with opened(door) as address:
            _, writer = await asyncio.open_connection(address.host, address.port)
            writer.write(GET % path)
            writer.close()
            await door.has_ended.wait()

    run(work)
