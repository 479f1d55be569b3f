"""Requests and line streams against servers that misbehave byte by byte."""

import asyncio
import gzip
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import TypeVar

import pytest

from edge_sidecars.kubeapi import ApiClient, ApiError, Plain, Unreachable
from tools.harness.pods.wire.raw_server import Connection, RawServer

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
WRITES = ["PUT", "POST", "DELETE", "PATCH"]


T = TypeVar("T")


def with_server(url: str, work: Callable[[ApiClient], Awaitable[T]]) -> T:
    async def run() -> T:
        server = ApiClient(Plain(url), user_agent="test")
        try:
            return await work(server)
        finally:
            await server.close()

    return asyncio.run(run())


def request(
    url: str, method: str = "GET", *, timeout: float = 5, body: object = None
) -> dict[str, object]:
    return with_server(url, lambda it: it.request(method, "/x", timeout=timeout, body=body))


def chunk(content: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(content), content)


# ── what is no word of the API server ──


@pytest.mark.parametrize("status", ["401 X", "403 X", "404 X", "409 X", "410 X", "500 X"])
def test_a_web_page_with_any_status_is_the_answer_of_a_gateway(status: str) -> None:
    """As of a login: it forbids nothing, and nothing is gone."""

    def serve(connection: Connection) -> None:
        connection.request()
        page = "Content-Type: text/html; charset=utf-8\r\n"
        connection.answer(b"<html>log in</html>", status=status, headers=page)

    with RawServer(serve) as server, pytest.raises(ApiError) as raised:
        request(server.url)
    assert (type(raised.value), raised.value.status) == (ApiError, 502)
    assert f"the status {status[:3]}" in raised.value.message


# ── writes are never sent twice ──


@pytest.mark.parametrize("method", WRITES)
def test_a_second_write_has_a_connection_of_its_own_and_is_sent_once(method: str) -> None:
    """A kept-alive connection would have been dropped by the server in between."""

    def answer_first(connection: Connection) -> None:
        connection.request()
        if len(server.requests) == 1:
            connection.answer(b"{}", headers="Connection: keep-alive\r\n")
            connection.request()

    async def work(api: ApiClient) -> None:
        await api.request(method, "/first", timeout=5, body={})
        with pytest.raises(Unreachable):
            await api.request(method, "/second", timeout=5, body={})

    with RawServer(answer_first) as server:
        with_server(server.url, work)
    paths = [request.split(b" ")[1] for request in server.requests]
    assert paths == [b"/first", b"/second"]
    assert server.connections == 2


# ── hard deadlines ──


def accept_and_be_silent(connection: Connection) -> None:
    connection.request()
    assert connection.sees_end(within=10), "the connection outlived its time-out"


def trickle_headers(connection: Connection) -> None:
    connection.request()
    connection.send(b"HTTP/1.1 200 OK\r\n")
    while not connection.sees_end(within=0.1):
        connection.send(b"X-Slow: 1\r\n")


def trickle_body(connection: Connection) -> None:
    connection.request()
    connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
    while not connection.sees_end(within=0.1):
        connection.send(b" ")


@pytest.mark.parametrize("serve", [accept_and_be_silent, trickle_headers, trickle_body])
def test_a_request_ends_at_its_deadline_and_its_connection_with_it(
    serve: Callable[[Connection], None],
) -> None:
    with RawServer(serve) as server:
        started = time.monotonic()
        with pytest.raises(Unreachable, match=r"no answer from .* within 0\.5s"):
            request(server.url, timeout=0.5)
        assert 0.4 < time.monotonic() - started < 5
    # Leaving the block waits for the server's threads, which wait for the end of connections.


# ── answers that are none ──


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]",
        b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnull",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n\xff\xff",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + b"[" * 100_000,
    ],
)
def test_an_answer_that_is_no_json_object_is_unreachable(answer: bytes) -> None:
    def serve(connection: Connection) -> None:
        connection.request()
        connection.send(answer)

    with RawServer(serve) as server, pytest.raises(Unreachable):
        request(server.url)


def test_redirects_are_not_followed() -> None:
    def serve(connection: Connection) -> None:
        connection.request()
        connection.answer(
            b"", status="307 Temporary Redirect", headers=f"Location: {server.url}/other\r\n"
        )

    with RawServer(serve) as server, pytest.raises(ApiError) as raised:
        request(server.url, "PUT", body={})
    assert raised.value.status == 307
    assert not raised.value.is_refusal
    assert len(server.requests) == 1


def test_retry_after_reaches_the_caller() -> None:
    def serve(connection: Connection) -> None:
        connection.request()
        connection.answer(b"", status="429 Too Many Requests", headers="Retry-After: 7\r\n")

    with RawServer(serve) as server, pytest.raises(ApiError) as raised:
        request(server.url)
    assert (raised.value.status, raised.value.retry_after) == (429, 7.0)


def test_a_request_says_who_asks_and_what_it_sends() -> None:
    def serve(connection: Connection) -> None:
        connection.request()
        connection.answer(b'{"kind": "Lease"}')

    with RawServer(serve) as server:
        assert request(server.url, "PUT", body={"a": "ü"}) == {"kind": "Lease"}
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    assert body == b'{"a":"\\u00fc"}'
    assert b"User-Agent: test" in head
    assert b"Content-Type: application/json" in head
    assert b"Accept: application/json" in head
    assert b"Connection: close" in head


# ── streams of lines ──


def lines(url: str, *, open_timeout: float = 5) -> tuple[list[bytes], Exception | None]:
    """All lines, and how the stream ended."""

    async def work(api: ApiClient) -> tuple[list[bytes], Exception | None]:
        found: list[bytes] = []
        try:
            async with aclosing(api.lines("/w", open_timeout=open_timeout, params={})) as stream:
                async for line in stream:
                    found.append(line)  # noqa: PERF401 (extend would lose all when it breaks)
        except (ApiError, Unreachable) as error:
            return found, error
        return found, None

    return with_server(url, work)


def stream(*chunks: bytes, end: bytes = b"0\r\n\r\n", pause: float = 0.0) -> RawServer:
    def serve(connection: Connection) -> None:
        connection.request()
        connection.send(CHUNKED)
        for content in chunks:
            connection.send(chunk(content))
            time.sleep(pause)
        connection.send(end)

    return RawServer(serve)


def test_a_stream_that_does_not_begin_is_unreachable() -> None:
    with RawServer(accept_and_be_silent) as server:
        found, error = lines(server.url, open_timeout=0.5)
    assert found == []
    assert isinstance(error, Unreachable)


def test_a_packed_stream_comes_line_by_line_though_each_flush_is_a_member_of_its_own() -> None:
    """As kube-apiserver 1.37 packs what a watch begins with."""

    def serve(connection: Connection) -> None:
        assert b"Accept-Encoding: gzip" in connection.request()
        connection.send(CHUNKED[:-2] + b"Content-Encoding: gzip\r\n\r\n")
        connection.send(chunk(gzip.compress(b"one\ntwo\n")))
        for line in (b"three\n", b"four\n"):
            packed = gzip.compress(line)
            connection.send(chunk(packed[:7]))
            connection.send(chunk(packed[7:]))
        connection.sees_end(within=10)

    async def work(api: ApiClient) -> None:
        async with aclosing(api.lines("/w", open_timeout=5, params={})) as found:
            for expected in (b"one", b"two", b"three", b"four"):
                assert await asyncio.wait_for(anext(found), 5) == expected

    with RawServer(serve) as server:
        with_server(server.url, work)


def test_a_refused_stream_is_an_api_error() -> None:
    def serve(connection: Connection) -> None:
        connection.request()
        gone = b'{"kind": "Status", "reason": "Expired", "message": "too old"}'
        connection.answer(gone, status="410 Gone")

    with RawServer(serve) as server:
        found, error = lines(server.url)
    assert found == []
    assert isinstance(error, ApiError)
    assert error.status == 410


# ── bytes as they are ──


def test_a_body_of_bytes_is_sent_as_it_is_and_the_answer_told_as_it_came() -> None:
    def serve(connection: Connection) -> None:
        connection.request()
        connection.answer(b'{ "b": 2.0 }')

    accept = "application/json;as=PartialObjectMetadata"
    with RawServer(serve) as server:
        answer = with_server(
            server.url,
            lambda it: it.fetch("PUT", "/x", timeout=5, body=b'{"a": 1.0}', accept=accept),
        )
    (sent,) = server.requests
    assert sent.endswith(b'\r\n\r\n{"a": 1.0}')
    assert f"Accept: {accept}\r\n".encode() in sent
    assert answer == b'{ "b": 2.0 }'
