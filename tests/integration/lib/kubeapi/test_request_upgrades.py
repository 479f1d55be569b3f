"""Connections that are something else from an answer on, and who owns them."""

import asyncio
import gc
import time
from pathlib import Path

import pytest

from edge_sidecars.kubeapi import ApiTransport, Plain, Request, Unreachable
from tests.integration.lib.kubeapi.sending import (
    CHUNKED,
    Run,
    Tls,
    ask,
    chunk,
    failure,
    tls_server,
)
from tools.harness.pods.wire.raw_server import Connection, RawServer


class Received(asyncio.Protocol):
    """Keeps what it gets."""

    def __init__(self) -> None:
        self.content = b""
        self.lost = asyncio.get_running_loop().create_future()
        self.transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.content += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set_result(exc)


UPGRADE = [("Connection", "Upgrade"), ("Upgrade", "SPDY/3.1")]


def upgrading(method: str) -> Request:
    return Request(method, "/exec", header_timeout=5, headers=UPGRADE, connection="upgrade")


SWITCHING = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n"


@pytest.mark.parametrize("is_tls", [False, True])
def test_an_upgraded_connection_belongs_to_who_took_it_over(
    using: Run[None], tmp_path: Path, is_tls: bool
) -> None:
    seen: list[bytes] = []

    def serve(connection: Connection) -> None:
        connection.request()
        connection.send(SWITCHING + b"early")
        seen.append(connection.receive_until(b"hello"))
        connection.send(b" and late")

    async def work(api: ApiTransport) -> None:
        async with api.send(
            Request("POST", "/exec", header_timeout=5, headers=UPGRADE, connection="upgrade")
        ) as answer:
            assert answer.status == 101
            received = Received()
            transport = answer.take_over(received)
            assert received.transport is transport
            api.abort()  # is no business of an upgraded connection
            transport.write(b"hello")
            async with asyncio.timeout(5):
                assert await received.lost is None
            assert received.content == b"early and late"

    server = tls_server(tmp_path, serve) if is_tls else RawServer(serve)
    with server:
        credentials = Tls(server.url, tmp_path / "ca.crt") if is_tls else Plain(server.url)
        using(credentials, work)
    assert b"Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n" in server.requests[0]
    assert seen == [b"hello"]


def test_an_upgraded_connection_is_closed_with_its_request(using: Run[None]) -> None:
    def serve(connection: Connection) -> None:
        connection.request()
        connection.send(SWITCHING)
        assert connection.sees_end(within=5)

    async def work(api: ApiTransport) -> None:
        async with api.send(
            Request("GET", "/exec", header_timeout=5, headers=UPGRADE, connection="upgrade")
        ) as answer:
            answer.take_over(Received())

    with RawServer(serve) as server:
        using(server.url, work)


def test_a_refused_upgrade_is_an_answer_like_others(using: Run[None]) -> None:
    def serve(connection: Connection) -> None:
        connection.request()
        connection.answer(b"no", status="403 Forbidden")

    async def work(api: ApiTransport) -> None:
        async with api.send(
            Request("POST", "/exec", header_timeout=5, headers=UPGRADE, connection="upgrade")
        ) as answer:
            assert answer.status == 403
            assert await answer.read(limit=10) == b"no"

    with RawServer(serve) as server:
        using(server.url, work)


def test_nothing_is_reported_behind_the_callers_back(
    using: Run[None], capfd: pytest.CaptureFixture[str]
) -> None:
    def serve(connection: Connection) -> None:
        connection.request()
        connection.send(CHUNKED + chunk(b"begin"))
        time.sleep(0.2)
        connection.reset()

    async def work(api: ApiTransport) -> None:
        assert await failure(ask(api)) is Unreachable

    with RawServer(serve) as server:
        using(server.url, work)
    gc.collect()
    assert capfd.readouterr().err == ""
