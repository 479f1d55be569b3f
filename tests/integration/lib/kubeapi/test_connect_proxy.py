"""Requests through a CONNECT proxy: TLS from end to end, a token for the proxy, one way at once."""

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import uvloop

from edge_sidecars.kubeapi import (
    ApiTransport,
    NotSent,
    ProxyRefused,
    Request,
    Unreachable,
)
from edge_sidecars.runtime.cli.proxies import HttpProxy
from tests.integration.lib.kubeapi.sending import Tls, answer_all, ask, tls_server, until
from tests.integration.lib.kubeapi.test_request_upgrades import SWITCHING, Received, upgrading
from tools.harness.pods.wire.raw_server import Connection, RawServer

TOKEN = "secret-of-the-proxy"


def passing(target_port: int, heads: list[bytes]) -> RawServer:
    """A proxy that passes bytes on to a port of this machine, and keeps what it was asked."""

    def serve(connection: Connection) -> None:
        head = connection.request_head()
        heads.append(head)
        if f"Bearer {TOKEN}".encode() not in head:
            connection.send(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
            return
        with socket.create_connection(("127.0.0.1", target_port), 10) as far:
            connection.send(b"HTTP/1.1 200 OK\r\n\r\n")
            back = threading.Thread(target=_copy, args=(far, connection), daemon=True)
            back.start()
            while chunk := connection.receive():
                far.sendall(chunk)
            far.shutdown(socket.SHUT_WR)
            back.join(10)

    return RawServer(serve)


def _copy(far: socket.socket, near: Connection) -> None:
    try:
        while chunk := far.recv(65536):
            near.send(chunk)
    except OSError:
        return  # One of them has ended.


def test_a_request_goes_through_the_proxy_and_its_bytes_are_tls(tmp_path: Path) -> None:
    heads: list[bytes] = []
    way: list[HttpProxy | None] = [None]

    async def work(url: str, proxy: RawServer, server: RawServer) -> None:
        api = ApiTransport(Tls(url, tmp_path / "ca.crt"), user_agent="test", detour=lambda: way[0])
        try:
            way[0] = HttpProxy(proxy.url, f"Bearer {TOKEN}")
            assert await ask(api) == b"whole"
            assert await ask(api) == b"whole"
            assert proxy.connections == 1, "it is kept"
            way[0] = None
            assert await ask(api) == b"whole"
            assert (proxy.connections, server.connections) == (1, 2), "the direct way is another"
            way[0] = HttpProxy(proxy.url, "Bearer wrong")
            with pytest.raises(ProxyRefused, match="407") as refused:
                await ask(api)
            assert not refused.value.is_full
        finally:
            await api.close()

    with tls_server(tmp_path, answer_all) as server, passing(server.port, heads) as proxy:
        url = server.url.replace("http:", "https:")
        asyncio.run(work(url, proxy, server))
    authority = urlsplit(url).netloc
    assert heads[0].startswith(f"CONNECT {authority} HTTP/1.1".encode())
    assert b"GET" not in heads[0]


def test_a_proxy_that_has_no_connection_left_does_not_end_those_that_it_gave(
    tmp_path: Path,
) -> None:
    full = asyncio.Event()

    def serve(connection: Connection) -> None:
        connection.request_head()
        if full.is_set():
            connection.send(b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\n")
            return
        with socket.create_connection(("127.0.0.1", server.port), 10) as far:
            connection.send(b"HTTP/1.1 200 OK\r\n\r\n")
            threading.Thread(target=_copy, args=(far, connection), daemon=True).start()
            while chunk := connection.receive():
                far.sendall(chunk)

    async def work(url: str, proxy: RawServer) -> None:
        way = HttpProxy(proxy.url)
        api = ApiTransport(Tls(url, tmp_path / "ca.crt"), user_agent="test", detour=lambda: way)
        try:
            assert await ask(api) == b"whole"
            full.set()
            with pytest.raises(ProxyRefused) as refused:
                async with api.send(Request("GET", "/", header_timeout=5.0, connection="fresh")):
                    pass
            assert refused.value.is_full
            assert await ask(api) == b"whole"
            assert proxy.connections == 2, "the first one was used again"
        finally:
            await api.close()

    with tls_server(tmp_path, answer_all) as server, RawServer(serve) as proxy:
        asyncio.run(work(server.url.replace("http:", "https:"), proxy))


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_a_connection_through_the_proxy_can_be_upgraded(
    tmp_path: Path, run: Callable[[Coroutine[None, None, None]], None]
) -> None:
    def serve(connection: Connection) -> None:
        connection.request()
        connection.send(SWITCHING + b"early")
        assert connection.receive_until(b"hello") == b"hello"
        connection.send(b" and late")

    async def work(url: str, proxy: RawServer) -> None:
        way = HttpProxy(proxy.url, f"Bearer {TOKEN}")
        api = ApiTransport(Tls(url, tmp_path / "ca.crt"), user_agent="test", detour=lambda: way)
        try:
            async with api.send(upgrading("POST")) as answer:
                assert answer.status == 101
                received = Received()
                transport = answer.take_over(received)
                transport.write(b"hello")
                await until(lambda: received.content == b"early and late")
                transport.abort()
                await received.lost
        finally:
            await api.close()

    with tls_server(tmp_path, serve) as server, passing(server.port, []) as proxy:
        run(work(server.url.replace("http:", "https:"), proxy))


def test_the_token_is_not_in_what_is_logged_of_a_proxy() -> None:
    assert TOKEN not in repr(HttpProxy("http://127.0.0.1:1", f"Bearer {TOKEN}"))


def test_without_the_proxy_nothing_is_sent(tmp_path: Path) -> None:
    async def work() -> None:
        api = ApiTransport(
            Tls("https://127.0.0.1:1", tmp_path / "ca.crt"),
            user_agent="test",
            detour=lambda: HttpProxy("http://127.0.0.1:1"),
        )
        try:
            with pytest.raises(Unreachable) as refused:
                async with api.send(Request("GET", "/", header_timeout=5.0)):
                    pass
            assert isinstance(refused.value, NotSent)
        finally:
            await api.close()

    with tls_server(tmp_path, answer_all):
        asyncio.run(work())
