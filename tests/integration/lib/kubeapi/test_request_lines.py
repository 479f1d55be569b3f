"""Lines of a watch: whole ones, as soon as they are there."""

import asyncio
import threading
import time

import pytest

from edge_sidecars.kubeapi import ApiTransport, Request, Unreachable
from tests.integration.lib.kubeapi.sending import CHUNKED, MEBIBYTE, Run, chunk, failure
from tools.harness.pods.wire.raw_server import Connection, RawServer


def stream(*chunks: bytes, end: bytes = b"0\r\n\r\n", pause: float = 0.0) -> RawServer:
    def serve(connection: Connection) -> None:
        connection.request()
        connection.send(CHUNKED)
        for content in chunks:
            connection.send(chunk(content))
            time.sleep(pause)
        connection.send(end)

    return RawServer(serve)


async def batches(api: ApiTransport, *, max_line: int = 32 * MEBIBYTE) -> list[list[bytes]]:
    async with api.send(Request("GET", "/w", header_timeout=5)) as answer:
        return [batch async for batch in answer.batches(max_line=max_line)]


def test_lines_are_whole_whatever_the_chunks(using: Run[list[list[bytes]]]) -> None:
    text = '{"name": "Käse"}\n{"n": 2}\n\n{"n": 3}\n'.encode()
    expected = [line for line in text.split(b"\n") if line]
    for server in (
        stream(*(text[i : i + 1] for i in range(len(text)))),
        stream(text),
        stream(text[:13], text[13:], pause=0.1),
    ):
        with server:
            found = using(server.url, batches)
        assert [line for batch in found for line in batch] == expected
        assert all(found)


def test_lines_that_came_together_are_told_together(using: Run[list[list[bytes]]]) -> None:
    with stream(b"".join(b"%d\n" % i for i in range(1000))) as server:
        found = using(server.url, batches)
    assert len(found) < 20
    assert [line for batch in found for line in batch] == [b"%d" % i for i in range(1000)]


def test_a_line_that_goes_on_tells_how_it_does(using: Run[list[list[bytes]]]) -> None:
    """Of who asks for that: each 1000 bytes are a sign of life, and fewer are none."""

    async def read(api: ApiTransport) -> list[list[bytes]]:
        async with api.send(Request("GET", "/w", header_timeout=5)) as answer:
            return [batch async for batch in answer.batches(progress=1000)]

    parts = [b"x" * 600] * 4
    with stream(b"a\n", *parts, b"\n" + b"y" * 600, b"\n", pause=0.1) as server:
        found = using(server.url, read)
    assert found == [[b"a"], [], [], [b"x" * 2400], [b"y" * 600]]


def test_a_line_arrives_before_the_next_one_is_sent(using: Run[None]) -> None:
    def serve(connection: Connection) -> None:
        connection.request()
        connection.send(CHUNKED + chunk(b"one\ntw"))
        assert connection.sees_end(within=5)

    async def work(api: ApiTransport) -> None:
        async with api.send(Request("GET", "/w", header_timeout=5)) as answer:
            async for batch in answer.batches():
                assert batch == [b"one"]
                break

    with RawServer(serve) as server:
        using(server.url, work)


def test_a_line_that_comes_while_its_reader_is_at_work_is_there_when_it_asks(
    using: Run[list[bytes]],
) -> None:
    is_at_work, is_sent = threading.Event(), threading.Event()

    def serve(connection: Connection) -> None:
        connection.request()
        connection.send(CHUNKED + chunk(b"one\n"))
        for line in (b"two\n", b"three\n"):
            assert is_at_work.wait(5)
            is_at_work.clear()
            connection.send(chunk(line))
            is_sent.set()
        assert connection.sees_end(within=5)

    async def work(api: ApiTransport) -> list[bytes]:
        found: list[bytes] = []
        async with api.send(Request("GET", "/w", header_timeout=5)) as answer:
            async for batch in answer.batches(idle_timeout=5):
                found += batch
                if len(found) == 3:
                    break
                is_at_work.set()
                assert await asyncio.to_thread(is_sent.wait, 5)
                is_sent.clear()
        return found

    with RawServer(serve) as server:
        assert using(server.url, work) == [b"one", b"two", b"three"]


def test_a_huge_line_is_one_line(using: Run[list[list[bytes]]]) -> None:
    huge = b"x" * (20 * MEBIBYTE)
    with stream(b"small\n", huge, b"\nnext\n") as server:
        found = using(server.url, batches)
    assert [line for batch in found for line in batch] == [b"small", huge, b"next"]


@pytest.mark.parametrize(
    ("chunks", "end"),
    [
        ((b"one\n",), b""),
        ((b"one\n",), b"5\r\nab"),
        ((b"one\n", b"tw"), b"0\r\n\r\n"),
        ((b"one\n",), b"garbage\r\n"),
    ],
)
def test_a_watch_that_breaks_is_unreachable_after_its_whole_lines(
    using: Run[list[bytes]], chunks: tuple[bytes, ...], end: bytes
) -> None:
    async def work(api: ApiTransport) -> list[bytes]:
        found: list[bytes] = []

        async def read() -> None:
            async with api.send(Request("GET", "/w", header_timeout=5)) as answer:
                async for batch in answer.batches():
                    found.extend(batch)

        assert await failure(read()) is Unreachable
        return found

    with stream(*chunks, end=end, pause=0.2) as server:
        assert using(server.url, work) == [b"one"]


def test_a_line_without_an_end_does_not_use_up_the_memory(using: Run[type[Unreachable]]) -> None:
    with stream(*[b"x" * MEBIBYTE] * 5) as server:
        kind = using(server.url, lambda api: failure(batches(api, max_line=2 * MEBIBYTE)))
    assert kind is Unreachable
