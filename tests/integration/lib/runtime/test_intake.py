"""What a connection may send before it has sent a request, and that nothing of it outlives it.

Every test runs on both event loops and without the garbage collector, as the programs do for long
after their start: what needs it to be freed is found.
"""

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress

import pytest
import uvloop

from edge_sidecars.runtime.cli.values import Address
from edge_sidecars.runtime.web import aiohttp_web as web
from edge_sidecars.runtime.web.connections import Connection
from edge_sidecars.runtime.web.inflow import MAX_UNFINISHED
from edge_sidecars.runtime.web.intake import MAX_HEAD
from edge_sidecars.runtime.web.listener import Listener, ListenerOptions
from tools.harness.controlplane.reservation import LOOPBACK

# Seconds for a busy machine; a head has ten.
SOON = 30.0
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: x\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
MIB = 1024 * 1024
Run = Callable[[Callable[[], Awaitable[None]]], None]


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    def on_loop(work: Callable[[], Awaitable[None]]) -> None:
        async def main() -> None:
            async with asyncio.timeout(SOON):
                await work()

        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(main())

    gc.collect()
    gc.disable()
    yield on_loop
    gc.enable()


class Door:
    """Reads the body of a POST, and only of that; remembers who came."""

    def __init__(self) -> None:
        self.came: list[weakref.ref[object]] = []
        self.heads: list[str] = []
        self.release = asyncio.Event()
        self.arrived = asyncio.Semaphore(0)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.came.append(weakref.ref(request.protocol))
        self.heads.append(request.headers.get("X", ""))
        self.arrived.release()
        if request.method == "POST":
            assert isinstance(request.protocol, Connection)
            request.protocol.gathers_body = request.path != "/passed-on"
            while await request.content.readany():
                pass
        if request.path == "/later":
            await self.release.wait()
        return web.Response(text="ok")


@asynccontextmanager
async def opened(door: Door, *, max_head: int = MAX_HEAD) -> AsyncIterator[Listener]:
    options = ListenerOptions(log="test.http", backlog=128, shutdown_grace=0.1, max_head=max_head)
    listener = Listener(Address(LOOPBACK, 0), door.handle, options=options, limit=256)
    await listener.open()
    try:
        yield listener
    finally:
        await listener.close()


async def dialled(listener: Listener) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection(listener.bound.host, listener.bound.port)


async def said(listener: Listener, content: bytes) -> bytes:
    """All that comes back until the server closes, which it does by itself."""
    reader, writer = await dialled(listener)
    writer.write(content)
    found = bytearray()
    try:
        with suppress(ConnectionError):
            while piece := await reader.read(65536):
                found += piece
    finally:
        writer.close()
    return bytes(found)


async def nobody_is_left(listener: Listener, door: Door) -> None:
    while True:
        await asyncio.sleep(0.01)
        if not listener.taken and all(each() is None for each in door.came):
            break
    assert listener.intake.inflow.used == 0


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (GET[:-2] + b"X: " + b"a" * MIB, 431),
        (b"GET /" + b"a" * MIB, 431),
        (GET[:-2] + b"X: 1\r\n" * MIB, 431),
        (b"\x00\x01" * MIB, 400),
        (b"\x16\x03\x01\x02\x00" + b"a" * MIB, 400),
        (b"GET / HTTP/1.1\r\nno colon\r\n\r\n" + b"a" * MIB, 400),
        (GET[:-2] + b"X: \xff\r\n\r\n", 400),
        (GET[:-2] + b"\xff: x\r\n\r\n", 400),
        (b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (POST + CHUNKED + b"zz\r\n" + b"a" * MIB, 400),
        (POST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
    ],
)
def test_what_is_no_request_is_answered_once_and_not_kept(
    run: Run, content: bytes, status: int
) -> None:
    async def work() -> None:
        door = Door()
        async with opened(door) as listener:
            answer = await said(listener, content)
            assert answer.startswith(b"HTTP/1.1 %d " % status)
            assert answer.count(b"HTTP/1.") == 1
            assert len(answer) < 1024  # Nothing of what was sent comes back.
            await nobody_is_left(listener, door)
            assert listener.intake.refused == {status: 1}

    run(work)


@pytest.mark.parametrize("junk", [b"\x00" * MIB, b"GET / HTTP/1.1\r\nX: " + b"a" * MIB])
def test_requests_before_what_is_none_are_answered_in_order(run: Run, junk: bytes) -> None:
    async def work() -> None:
        door = Door()
        async with opened(door) as listener:
            answer = await said(listener, GET * 100 + junk)
            answered = answer.count(b"HTTP/1.1 200 OK")
            # Those that came together with what is none are as little whole as it is.
            assert 0 < answered <= 100
            assert answer.count(b"HTTP/1.") == answered + 1
            await nobody_is_left(listener, door)

    run(work)


@pytest.mark.parametrize("size", [1, MAX_HEAD - 1, MAX_HEAD, MAX_HEAD + 1, 2 * MAX_HEAD])
@pytest.mark.parametrize("pieces", [1, 7])
def test_a_head_is_as_long_as_it_is_however_it_comes(run: Run, size: int, pieces: int) -> None:
    async def work() -> None:
        door = Door()
        async with opened(door) as listener:
            head = GET[:-2] + b"Connection: close\r\nX: "
            content = head + b"a" * max(size - len(head) - 4, 1) + b"\r\n\r\n"
            reader, writer = await dialled(listener)
            step = -(-len(content) // pieces)
            for at in range(0, len(content), step):
                writer.write(content[at : at + step])
                await asyncio.sleep(0.01)
            answer = await reader.read()
            writer.close()
            fits = len(content) <= MAX_HEAD
            assert answer.startswith(b"HTTP/1.1 200 " if fits else b"HTTP/1.1 431 ")

    run(work)


def test_ten_thousand_requests_in_one_connection_are_all_answered(run: Run) -> None:
    async def work() -> None:
        door = Door()
        async with opened(door) as listener:
            last = GET[:-2] + b"Connection: close\r\n\r\n"
            answer = await said(listener, GET * 9_999 + last)
            assert answer.count(b"HTTP/1.1 200 OK") == 10_000
            await nobody_is_left(listener, door)

    run(work)


def test_behind_a_request_that_takes_long_little_is_read(run: Run) -> None:
    async def work() -> None:
        door = Door()
        async with opened(door) as listener:
            reader, writer = await dialled(listener)
            later = GET.replace(b"/ ", b"/later ")
            last = GET[:-2] + b"Connection: close\r\nX: last\r\n\r\n"
            # Each with a head of a KiB.
            writer.write(later + (GET[:-2] + b"X: " + b"a" * 1024 + b"\r\n\r\n") * 20_000 + last)
            await door.arrived.acquire()
            for _ in range(20):
                await asyncio.sleep(0.01)
                assert listener.intake.inflow.used <= MIB
            door.release.set()
            found = 0
            while piece := await reader.read(65536):
                found += piece.count(b"HTTP/1.1 200 OK")
            assert door.heads[-1] == "last"
            assert len(door.heads) == 20_002
            writer.close()
            await nobody_is_left(listener, door)

    run(work)


@pytest.mark.parametrize("path", [b"/", b"/later"])
def test_a_body_without_end_is_not_read_for_ever(run: Run, path: bytes) -> None:
    async def work() -> None:
        door = Door()
        door.release.set()
        async with opened(door) as listener:
            head = b"GET %s HTTP/1.1\r\nHost: x\r\n" % path + CHUNKED
            reader, writer = await dialled(listener)
            writer.write(head)
            sent = 0
            with suppress(ConnectionError):
                while not writer.is_closing():
                    writer.write(b"1000\r\n" + b"a" * 0x1000 + b"\r\n")
                    await writer.drain()
                    sent += 0x1000
                    if reader.at_eof():
                        break
            writer.close()
            assert sent < 64 * MIB
            await nobody_is_left(listener, door)

    run(work)


def test_who_sends_most_gives_way_when_all_that_is_unfinished_is_too_much(run: Run) -> None:
    async def work() -> None:
        door = Door()
        async with opened(door, max_head=MIB) as listener:
            small = await dialled(listener)
            small[1].write(GET[:-2] + b"X: small")
            big = [await dialled(listener) for _ in range(20)]
            for number, (_, writer) in enumerate(big):
                writer.write(GET[:-2] + b"X: " + b"a" * (MIB - 1000 - number))
            inflow = listener.intake.inflow
            while not inflow.evicted:
                assert inflow.used <= MAX_UNFINISHED
                await asyncio.sleep(0.01)
            assert b"431" in (await asyncio.wait_for(_first_line_of_any(big), SOON))
            small[1].write(b"\r\n\r\n")
            assert b"200" in await small[0].readline()
            for _, writer in (small, *big):
                writer.close()
            del big, small, writer
            await nobody_is_left(listener, door)

    run(work)


async def _first_line_of_any(
    pairs: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]],
) -> bytes:
    tasks = [asyncio.ensure_future(reader.readline()) for reader, _ in pairs]
    done, others = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for each in others:
        each.cancel()
    await asyncio.wait(tasks)
    return done.pop().result()


def test_a_body_that_has_to_give_way_is_told_that_the_server_is_full(run: Run) -> None:
    async def work() -> None:
        door = Door()
        async with opened(door) as listener:
            pairs = [await dialled(listener) for _ in range(3)]
            answers = asyncio.create_task(_first_line_of_any(pairs))
            for _, writer in pairs:
                writer.write(POST + b"Content-Length: %d\r\n\r\n" % (4 * MIB))
                writer.write(b"a" * (4 * MIB - 1))
            assert b"503" in await answers
            assert listener.intake.inflow.used <= MAX_UNFINISHED
            for _, writer in pairs:
                writer.close()
            await nobody_is_left(listener, door)

    run(work)


def test_a_body_that_is_not_read_makes_its_client_wait_and_is_not_refused(run: Run) -> None:
    """As when upstream takes nothing of an upload."""

    async def work() -> None:
        door = Door()
        async with opened(door) as listener:
            pairs = [await dialled(listener) for _ in range(16)]
            head = b"PUT /later HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (4 * MIB)
            for _, writer in pairs:
                writer.write(head + b"a" * (4 * MIB))
            for _ in range(50):
                await asyncio.sleep(0.01)
                assert listener.intake.inflow.used <= MAX_UNFINISHED
            assert not listener.intake.refused
            door.release.set()
            for reader, writer in pairs:
                assert b"200" in await reader.readline()
                writer.close()

    run(work)


def test_who_reads_a_body_hears_that_it_is_none_and_answers_once(run: Run) -> None:
    async def work() -> None:
        door = Door()
        async with opened(door) as listener:
            reader, writer = await dialled(listener)
            writer.write(POST + CHUNKED + b"3\r\nabc\r\n")
            await door.arrived.acquire()
            writer.write(b"nonsense\r\n" + b"a" * MIB)
            answer = bytearray()
            with suppress(ConnectionError):
                while piece := await reader.read(65536):
                    answer += piece
            writer.close()
            assert answer.startswith(b"HTTP/1.1 400 ")
            assert answer.count(b"HTTP/1.") == 1
            await nobody_is_left(listener, door)

    run(work)


@pytest.mark.parametrize(
    "content",
    [
        GET[:-2],
        pytest.param(b"", marks=pytest.mark.long),
        pytest.param(GET + GET[:-3], marks=pytest.mark.long),
    ],
)
def test_a_head_that_does_not_become_whole_is_not_waited_for(run: Run, content: bytes) -> None:
    async def work() -> None:
        door = Door()
        async with opened(door) as listener:
            answer = await said(listener, content)
            assert answer.count(b"HTTP/1.1 200 OK") == content.startswith(GET)
            assert answer.count(b"HTTP/1.1 408 ") == bool(content)
            await nobody_is_left(listener, door)

    run(work)


@pytest.mark.long
def test_a_client_that_waits_between_its_requests_is_let(run: Run) -> None:
    async def work() -> None:
        door = Door()
        async with opened(door) as listener:
            _, writer = await dialled(listener)
            writer.write(GET)
            await door.arrived.acquire()
            await asyncio.sleep(11.0)
            writer.write(GET)
            await door.arrived.acquire()
            writer.close()

    run(work)
