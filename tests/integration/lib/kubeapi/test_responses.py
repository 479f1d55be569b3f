"""Answers as they came, from servers that misbehave byte by byte."""

import asyncio
import gzip
import threading
import time

import pytest

from edge_sidecars.kubeapi import ApiTransport, Request, Unreachable
from edge_sidecars.kubeapi.messages import TooLong
from tests.integration.lib.kubeapi.sending import (
    CHUNKED,
    MEBIBYTE,
    Run,
    answer_all,
    ask,
    chunk,
    failure,
)
from tools.harness.pods.wire.raw_server import Connection, RawServer


def test_an_answer_comes_with_its_head_as_it_was_sent(using: Run[None]) -> None:
    def serve(connection: Connection) -> None:
        connection.request()
        connection.answer(
            b"",
            status="409 Own Words",
            headers='Warning: 299 - "one"\r\nWarning: 299 - "two"\r\nRetry-After: 1\r\n',
        )

    async def work(api: ApiTransport) -> None:
        async with api.send(Request("GET", "/x", header_timeout=5)) as answer:
            assert (answer.status, answer.reason) == (409, "Own Words")
            assert answer.headers.getall("Warning") == ['299 - "one"', '299 - "two"']
            assert answer.headers["retry-after"] == "1"

    with RawServer(serve) as server:
        using(server.url, work)


def test_bytes_stay_encoded_unless_they_are_to_be_decoded(using: Run[None]) -> None:
    plain = b"whole" * 1000
    packed = gzip.compress(plain)

    def serve(connection: Connection) -> None:
        while connection.request():
            connection.answer(packed, headers="Content-Encoding: gzip\r\n")

    async def read(api: ApiTransport, *, is_decoded: bool) -> bytes:
        async with api.send(
            Request("GET", "/x", header_timeout=5, is_decoded=is_decoded)
        ) as answer:
            return await answer.read(limit=MEBIBYTE)

    async def work(api: ApiTransport) -> None:
        assert await read(api, is_decoded=False) == packed
        assert await read(api, is_decoded=True) == plain

    with RawServer(serve) as server:
        using(server.url, work)
    assert server.connections == 1


def test_a_chunk_arrives_before_the_next_one_is_sent(using: Run[None]) -> None:
    arrived = threading.Event()

    def serve(connection: Connection) -> None:
        connection.request()
        connection.send(CHUNKED + chunk(b"one"))
        assert arrived.wait(5)
        connection.send(chunk(b"two") + b"0\r\n\r\n")

    async def work(api: ApiTransport) -> None:
        async with api.send(Request("GET", "/x", header_timeout=5)) as answer:
            found = []
            async for content in answer.chunks():
                found.append(content)
                arrived.set()
            assert found == [b"one", b"two"]

    with RawServer(serve) as server:
        using(server.url, work)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort",
        CHUNKED + b"5\r\nbe",
        CHUNKED + chunk(b"begin"),
        CHUNKED + chunk(b"begin") + b"garbage\r\n",
        CHUNKED + chunk(b"begin") + b"0\r\n",
    ],
)
@pytest.mark.parametrize("is_reset", [False, True])
def test_a_body_that_breaks_off_never_just_ends(
    using: Run[type[Unreachable]], answer: bytes, is_reset: bool
) -> None:
    def serve(connection: Connection) -> None:
        connection.request()
        connection.send(answer)
        if is_reset:
            time.sleep(0.1)
            connection.reset()

    with RawServer(serve) as server:
        assert using(server.url, lambda api: failure(ask(api))) is Unreachable


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"\x16\x03\x01\x02\x00",
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n{}",
    ],
)
def test_what_is_no_http_is_no_answer(using: Run[type[Unreachable]], answer: bytes) -> None:
    def serve(connection: Connection) -> None:
        connection.request()
        connection.send(answer)

    with RawServer(serve) as server:
        assert using(server.url, lambda api: failure(ask(api))) is Unreachable


def test_an_answer_that_is_longer_than_wanted_is_given_up(using: Run[None]) -> None:
    async def work(api: ApiTransport) -> None:
        async with api.send(Request("GET", "/x", header_timeout=5)) as answer:
            with pytest.raises(TooLong):
                await answer.read(limit=4)

    with RawServer(answer_all) as server:
        using(server.url, work)


@pytest.mark.parametrize(
    "answer", [b"HTTP/1.1 204 No Content\r\n\r\n", b"HTTP/1.1 304 Same\r\n\r\n"]
)
def test_an_answer_without_a_body_leaves_its_connection_for_others(
    using: Run[None], answer: bytes
) -> None:
    def serve(connection: Connection) -> None:
        while connection.request():
            connection.send(answer)

    async def work(api: ApiTransport) -> None:
        for _ in range(2):
            assert await ask(api) == b""

    with RawServer(serve) as server:
        using(server.url, work)
    assert server.connections == 1


def test_a_head_has_a_length_and_no_body(using: Run[None]) -> None:
    def serve(connection: Connection) -> None:
        while connection.request():
            connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")

    async def work(api: ApiTransport) -> None:
        for _ in range(2):
            async with api.send(Request("HEAD", "/x", header_timeout=5)) as answer:
                assert answer.headers["Content-Length"] == "1000"
                assert await answer.read(limit=1) == b""

    with RawServer(serve) as server:
        using(server.url, work)
    assert server.connections == 1


def test_a_reader_that_does_not_read_stops_the_server_instead_of_filling_memory(
    using: Run[None],
) -> None:
    sent = 0
    piece = b"x" * MEBIBYTE

    def serve(connection: Connection) -> None:
        nonlocal sent
        connection.request()
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (200 * MEBIBYTE))
        for _ in range(200):
            connection.send(piece)
            sent += len(piece)

    async def work(api: ApiTransport) -> None:
        async with api.send(Request("GET", "/x", header_timeout=5)) as answer:
            await asyncio.sleep(1)
            # What fits into both kernels' buffers, and ours.
            assert sent < 50 * MEBIBYTE
            size = 0
            async for content in answer.chunks():
                assert len(content) <= 2 * MEBIBYTE
                size += len(content)
            assert size == 200 * MEBIBYTE

    with RawServer(serve) as server:
        using(server.url, work)
