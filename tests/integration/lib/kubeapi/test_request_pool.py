"""Connections that requests leave: which may use them again, and for how long."""

import asyncio
import ssl
import threading
import time
from pathlib import Path

import pytest

from edge_sidecars.kubeapi import NotSent, Request, StaleConnection, transport
from edge_sidecars.kubeapi.messages import Identity
from edge_sidecars.kubeapi.transport import POOLED_FOR_WRITES, ApiTransport
from tests.integration.lib.kubeapi.sending import (
    ARRIVAL,
    CHUNKED,
    WRITES,
    Run,
    Tls,
    answer_all,
    ask,
    be_silent,
    chunk,
    failure,
    tls_server,
    until,
)
from tools.harness.pods.wire.raw_server import Connection, RawServer

IDENTITIES: list[Identity] = ["own", "caller", "own", "caller"]


def test_reads_share_a_connection(using: Run[None]) -> None:
    async def work(api: ApiTransport) -> None:
        for _ in range(3):
            assert await ask(api) == b"whole"

    with RawServer(answer_all) as server:
        using(server.url, work)
    assert server.connections == 1


@pytest.mark.parametrize(
    ("method", "target"), [("GET", "/a%2fb?x=#y"), ("HEAD", "/x"), ("OPTIONS", "*")]
)
def test_a_connection_that_is_used_again_gets_the_same_bytes_as_before(
    using: Run[None], method: str, target: str
) -> None:
    """Only the first request over a connection takes the way through aiohttp's session."""
    headers = [("Accept", "a/b"), ("X-Twice", "1"), ("X-Twice", "2")]

    def serve(connection: Connection) -> None:
        while connection.request():
            length = b"5\r\n\r\n" if method == "HEAD" else b"5\r\n\r\nwhole"
            connection.send(b"HTTP/1.1 103 Early Hints\r\n\r\n")
            connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: " + length)

    async def work(api: ApiTransport) -> None:
        for _ in range(3):
            got = await ask(api, method, target, headers=headers)
            assert got == (b"" if method == "HEAD" else b"whole")

    with RawServer(serve) as server:
        using(server.url, work)
    first, *others = server.requests
    assert first.startswith(f"{method} {target} HTTP/1.1\r\nHost: 127.0.0.1:".encode())
    assert others == [first, first]
    assert server.connections == 1


def test_ours_and_callers_requests_never_share_a_connection(using: Run[None]) -> None:
    async def work(api: ApiTransport) -> None:
        for identity in IDENTITIES:
            await ask(api, identity=identity)

    with RawServer(answer_all) as server:
        using(server.url, work)
    assert server.connections == 2


def test_a_write_takes_a_kept_connection_only_while_it_is_certainly_alive(using: Run[None]) -> None:
    async def work(api: ApiTransport) -> None:
        while True:
            await ask(api)
            answered_at, connections = time.monotonic(), server.connections
            await ask(api, "PUT", body=b"{}")
            if server.connections == connections:
                break
            # Once more where this machine stood still for longer than that.
            assert time.monotonic() - answered_at >= POOLED_FOR_WRITES
        await asyncio.sleep(POOLED_FOR_WRITES + 0.2)
        await ask(api, "PUT", body=b"{}")
        assert server.connections == connections + 1

    with RawServer(answer_all) as server:
        using(server.url, work)


@pytest.mark.parametrize("method", ["GET", *WRITES])
@pytest.mark.parametrize("is_reset", [False, True])
def test_on_a_kept_connection_that_ends_unanswered_a_request_is_sent_once(
    using: Run[None], method: str, is_reset: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However slow this machine is.
    monkeypatch.setattr(transport, "POOLED_FOR_WRITES", 60.0)

    def serve(connection: Connection) -> None:
        connection.request()
        connection.answer(b"whole")
        connection.request()
        if is_reset:
            connection.reset()

    async def work(api: ApiTransport) -> None:
        assert await ask(api) == b"whole"
        assert await failure(ask(api, method, body=b"{}")) is StaleConnection
        assert await ask(api) == b"whole"

    with RawServer(serve) as server:
        using(server.url, work)
    assert [request.split(b" ")[0].decode() for request in server.requests] == [
        "GET",
        method,
        "GET",
    ]
    assert server.connections == 2


def test_a_kept_connection_that_was_closed_meanwhile_is_not_used(using: Run[None]) -> None:
    closed = threading.Semaphore(0)

    def serve(connection: Connection) -> None:
        connection.request()
        connection.answer(b"whole")
        connection.shut_write()
        closed.release()

    async def work(api: ApiTransport) -> None:
        for _ in range(2):
            assert await ask(api) == b"whole"
            assert await asyncio.to_thread(closed.acquire, timeout=10)
            await asyncio.sleep(ARRIVAL)

    with RawServer(serve) as server:
        using(server.url, work)
    assert server.connections == 2


def test_another_trust_or_identity_means_another_connection(
    using: Run[None], tmp_path: Path
) -> None:
    with tls_server(tmp_path, answer_all) as server:
        credentials = Tls(server.url, tmp_path / "ca.crt")

        async def work(api: ApiTransport) -> None:
            await ask(api)
            await ask(api)
            assert server.connections == 1
            credentials.context = ssl.create_default_context(cafile=tmp_path / "ca.crt")
            await ask(api)
            assert server.connections == 2
            credentials.context = ssl.create_default_context()
            assert await failure(ask(api)) is NotSent

        using(credentials, work)
    assert len(server.requests) == 3


def test_a_request_that_is_given_up_closes_its_connection(using: Run[None]) -> None:
    async def work(api: ApiTransport) -> None:
        task = asyncio.create_task(ask(api, "PUT", body=b"{}", timeout=30))
        await until(lambda: bool(server.requests))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with RawServer(be_silent) as server:
        using(server.url, work)
    assert len(server.requests) == 1


def test_an_answer_that_is_not_read_to_its_end_closes_its_connection(using: Run[None]) -> None:
    def serve(connection: Connection) -> None:
        connection.request()
        connection.send(CHUNKED + chunk(b"begin"))
        assert connection.sees_end(within=5)

    async def work(api: ApiTransport) -> None:
        async with api.send(Request("GET", "/x", header_timeout=5)) as answer:
            async for content in answer.chunks():
                assert content == b"begin"
                break

    with RawServer(serve) as server:
        using(server.url, work)
