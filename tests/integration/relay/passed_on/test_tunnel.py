"""R9: exec, attach and port-forward: upgraded connections carry any bytes both ways."""

import hashlib
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from edge_sidecars.kubeapi import Plain
from tests.integration.raw_client import PATIENCE, RawClient
from tests.integration.relay.passed_on.passing import Passing, through
from tools.harness.controlplane.access.certificates import Authority
from tools.harness.pods.wire.raw_server import Connection, RawServer

MEBIBYTE = 1024 * 1024
SPDY = (
    b"POST /api/v1/namespaces/n/pods/p/exec?command=sh&stdin=true HTTP/1.1\r\nHost: r\r\n"
    b"Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n"
    b"X-Stream-Protocol-Version: v3.channel.k8s.io\r\nContent-Length: 0\r\n\r\n"
)
WEBSOCKET = (
    b"GET /api/v1/namespaces/n/pods/p/exec?command=sh&stdin=true HTTP/1.1\r\nHost: r\r\n"
    b"Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
    b"Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.c2VjcmV0, v5.channel.k8s.io\r\n"
    b"Sec-WebSocket-Protocol: v4.channel.k8s.io\r\n\r\n"
)
UPGRADES = pytest.mark.parametrize("request_head", [SPDY, WEBSOCKET], ids=["spdy", "websocket"])


def switch(request: bytes) -> bytes:
    """The answer of a server that agrees."""
    if b"SPDY" in request:
        told = b"Upgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n"
    else:
        told = b"Upgrade: websocket\r\nSec-WebSocket-Protocol: v5.channel.k8s.io\r\n"
    return b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n" + told + b"\r\n"


def echo(connection: Connection) -> None:
    """In the other case, until the client ends it."""
    connection.send(switch(connection.request()))
    while content := connection.receive():
        connection.send(content.swapcase())


class Tls(Plain):
    def __init__(self, server: str, ca_file: Path) -> None:
        super().__init__(server.replace("http:", "https:"))
        self._context = ssl.create_default_context(cafile=ca_file)

    def tls(self, *, is_anonymous: bool = False) -> ssl.SSLContext:
        return self._context


def tls_server(folder: Path, serve: Callable[[Connection], None]) -> RawServer:
    authority = Authority(folder, "ca")
    files = authority.issue_server("server", hosts=["127.0.0.1"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    return RawServer(serve, tls=context)


@UPGRADES
def test_r9_an_upgrade_is_asked_for_upstream_as_the_client_does_but_for_its_token(
    request_head: bytes,
) -> None:
    with through(echo) as (server, client):
        client.send(request_head)
        assert client.head()[0] == 101
    first, *lines = server.requests[0].split(b"\r\n")[:-2]
    assert first == request_head.split(b"\r\n")[0]
    assert b"Connection: Upgrade" in lines
    assert b"c2VjcmV0" not in server.requests[0]
    if request_head is SPDY:
        assert b"Upgrade: SPDY/3.1" in lines
        versions = [line for line in lines if line.startswith(b"X-Stream-Protocol-Version")]
        assert [version.split(b": ")[1][:2] for version in versions] == [b"v4", b"v3"]
    else:
        assert b"Upgrade: websocket" in lines
        protocols = [line for line in lines if line.startswith(b"Sec-WebSocket-Protocol")]
        assert [protocol.split(b": ")[1][:2] for protocol in protocols] == [b"v5", b"v4"]


@pytest.mark.parametrize(
    ("origin", "is_ours"),
    [("http://r", True), ("https://r", True), ("http://other", False), ("null", False)],
)
def test_r9_a_websockets_origin_is_the_server_that_is_asked(origin: str, is_ours: bool) -> None:
    """Another relay would refuse that of this one, as one of a web page."""
    asked = WEBSOCKET.replace(b"Host: r\r\n", f"Host: r\r\nOrigin: {origin}\r\n".encode())
    with through(echo) as (server, client):
        client.send(asked)
        assert client.head()[0] == 101
        [line] = [it for it in server.requests[0].split(b"\r\n") if it.startswith(b"Origin: ")]
        assert line.decode() == f"Origin: {server.url if is_ours else origin}"


def test_r9_what_a_websocket_client_sends_too_early_is_not_lost() -> None:
    with through(echo) as (_, client):
        client.send(WEBSOCKET + b"early")
        assert client.head()[0] == 101
        assert client.until(b"EARLY") == b"EARLY"


@pytest.mark.parametrize("is_tls", [False, True], ids=["plain", "tls"])
def test_r9_the_end_of_upstream_is_the_clients_after_all_that_was_sent(
    is_tls: bool, tmp_path: Path
) -> None:
    content = os.urandom(5 * MEBIBYTE)

    def serve(connection: Connection) -> None:
        connection.send(switch(connection.request()))
        connection.send(content)

    server = tls_server(tmp_path, serve) if is_tls else RawServer(serve)
    with server:
        upstream = Tls(server.url, tmp_path / "ca.crt") if is_tls else Plain(server.url)
        with Passing(upstream).host() as relay, RawClient(relay.port) as client:
            client.send(SPDY)
            assert client.head()[0] == 101
            assert client.rest() == content


@pytest.mark.parametrize("is_tls", [False, True], ids=["plain", "tls"])
def test_r9_the_end_of_a_client_is_upstreams_after_all_that_was_sent(
    is_tls: bool, tmp_path: Path
) -> None:
    content = os.urandom(5 * MEBIBYTE)
    received: list[bytes] = []
    ended = threading.Event()

    def serve(connection: Connection) -> None:
        connection.send(switch(connection.request()))
        while found := connection.receive():
            received.append(found)
            time.sleep(0.001)
        ended.set()

    server = tls_server(tmp_path, serve) if is_tls else RawServer(serve)
    with server:
        upstream = Tls(server.url, tmp_path / "ca.crt") if is_tls else Plain(server.url)
        with Passing(upstream).host() as relay:
            with RawClient(relay.port) as client:
                client.send(SPDY)
                assert client.head()[0] == 101
                client.send(content)
            assert ended.wait(PATIENCE)
    assert hashlib.sha256(b"".join(received)).digest() == hashlib.sha256(content).digest()


def test_r9_a_client_that_has_sent_all_still_hears() -> None:
    """As far as TCP has it: TLS ends in both directions at once."""

    def serve(connection: Connection) -> None:
        connection.send(switch(connection.request()))
        found = b""
        while content := connection.receive():
            found += content
        connection.send(b"all of " + found)

    with through(serve) as (_, client):
        client.send(SPDY)
        assert client.head()[0] == 101
        client.send(b"it")
        client.sock.shutdown(socket.SHUT_WR)
        assert client.rest() == b"all of it"


def test_r9_a_server_that_has_sent_all_still_hears() -> None:
    heard: list[bytes] = []
    has_ended = threading.Event()

    def serve(connection: Connection) -> None:
        connection.send(switch(connection.request()) + b"all")
        connection.shut_write()
        heard.append(connection.receive_until(b"it"))
        has_ended.set()

    with through(serve) as (_, client):
        client.send(SPDY)
        assert client.head()[0] == 101
        assert client.rest() == b"all"
        client.send(b"it")
        assert has_ended.wait(PATIENCE)
    assert heard == [b"it"]


@pytest.mark.parametrize("is_reset", [False, True])
def test_r9_a_client_that_vanishes_takes_the_tunnel_along(is_reset: bool) -> None:
    ended = threading.Event()

    def serve(connection: Connection) -> None:
        connection.send(switch(connection.request()))
        assert connection.sees_end(within=5)
        ended.set()

    with RawServer(serve) as server, Passing(Plain(server.url)).host() as relay:
        with RawClient(relay.port) as client:
            client.send(SPDY)
            assert client.head()[0] == 101
            if is_reset:
                client.reset()
        assert ended.wait(PATIENCE)


def test_r8_a_side_that_does_not_read_stops_the_other_one() -> None:
    total = 100 * MEBIBYTE
    sent = 0

    def serve(connection: Connection) -> None:
        nonlocal sent
        connection.send(switch(connection.request()))
        piece = b"x" * MEBIBYTE
        while sent < total:
            connection.send(piece)
            sent += len(piece)

    with through(serve) as (_, client):
        client.send(SPDY)
        assert client.head()[0] == 101
        time.sleep(1)
        assert sent < 50 * MEBIBYTE
        size = len(client.unread)
        while received := client.sock.recv(MEBIBYTE):
            size += len(received)
    assert size == total


def test_r9_a_change_of_protocol_that_nobody_asked_for_is_no_answer() -> None:
    def serve(connection: Connection) -> None:
        connection.request()
        connection.send(switch(SPDY))
        assert connection.sees_end(within=5)

    with through(serve) as (_, client):
        client.send(b"PUT /x HTTP/1.1\r\nHost: r\r\nContent-Length: 0\r\n\r\n")
        assert client.head()[0] == 504


def test_r9_an_open_tunnel_does_not_hold_up_the_end_of_the_relay() -> None:
    with RawServer(echo) as server:
        with Passing(Plain(server.url)).host() as relay:
            client = RawClient(relay.port)
            client.send(SPDY)
            assert client.head()[0] == 101
            started = time.monotonic()
        assert time.monotonic() - started < 10
        with client:
            assert client.rest() == b""
