"""The relay's sockets: how many may come, which certificate they see, how long a line may be."""

import gzip
import http.client
import socket
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager, closing
from http import HTTPStatus
from pathlib import Path

import pytest
from aiohttp import web

from edge_sidecars.runtime.web.connections import Handler
from relay_sidecar.web.listener import MIN_CONNECTIONS, ServingCertificate, connection_limit
from tests.integration.relay.hosted import Hosted, Opened
from tools.harness.controlplane.access.certificates import Authority, CertificateFiles
from tools.harness.controlplane.reservation import LOOPBACK
from tools.harness.pods.wire.caller import Caller


def answering(handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]) -> Opened:
    @asynccontextmanager
    async def opened() -> AsyncIterator[Handler]:
        yield handler

    return opened


async def ok(request: web.BaseRequest) -> web.StreamResponse:
    return web.Response(text="ok")


async def echo(request: web.BaseRequest) -> web.StreamResponse:
    return web.Response(body=await request.read())


def connected(place: Hosted) -> socket.socket:
    return socket.create_connection((LOOPBACK, place.port), timeout=5)


def is_closed(sock: socket.socket) -> bool:
    """Whether the other side ends it, sooner or later."""
    try:
        return sock.recv(1) == b""
    except ConnectionResetError:
        return True


def test_one_connection_too_many_takes_the_place_of_the_one_idle_longest() -> None:
    with Hosted(answering(ok), limit=3) as place, ExitStack() as stack:
        idle = [stack.enter_context(connected(place)) for _ in range(3)]
        for sock in idle:
            sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert sock.recv(1000).startswith(b"HTTP/1.1 200")
        assert Caller(place.url).get("/").status == HTTPStatus.OK
        assert is_closed(idle[0])
        idle[2].sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert idle[2].recv(1000).startswith(b"HTTP/1.1 200")


def test_descriptors_are_shared_between_clients_and_what_is_asked_for_them() -> None:
    assert connection_limit(1_000_000, wanted=1000, others=64) == 1000
    assert connection_limit(1024, wanted=10_000, others=64) * 2 + 64 < 1024
    assert connection_limit(64, wanted=1000, others=64) == MIN_CONNECTIONS


def test_long_selectors_in_the_first_line_are_read() -> None:
    """As by kube-apiserver: Go reads a MiB of headers."""
    with Hosted(answering(ok)) as place:
        assert Caller(place.url).get(f"/?labelSelector={'a' * 200_000}").status == HTTPStatus.OK


def test_a_body_is_passed_on_as_it_was_packed() -> None:
    packed = gzip.compress(b"{}")
    with Hosted(answering(echo)) as place:
        headers = {"Content-Encoding": "gzip"}
        answer = Caller(place.url).ask("/", method="POST", headers=headers, body=packed)
    assert answer.body == packed


# ── TLS ──


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "ca")


@pytest.fixture
def files(authority: Authority) -> CertificateFiles:
    return authority.issue_server("relay", hosts=[LOOPBACK])


def serial(place: Hosted, authority: Authority) -> str:
    """Of the certificate that a new connection sees; with a request, to be sure that it works."""
    context = ssl.create_default_context(cafile=str(authority.bundle))
    connection = http.client.HTTPSConnection(LOOPBACK, place.port, context=context, timeout=5)
    with closing(connection):
        connection.request("GET", "/")
        with connection.getresponse() as response:
            assert response.read() == b"ok"
        certificate = connection.sock.getpeercert()
        assert certificate is not None
        return str(certificate["serialNumber"])


def test_a_renewed_certificate_is_shown_to_the_next_connection(
    authority: Authority, files: CertificateFiles
) -> None:
    certificate = ServingCertificate(files.certificate, files.key)
    with Hosted(answering(ok), tls=certificate.context) as place:
        first = serial(place, authority)
        assert serial(place, authority) == first
        new = authority.issue_server("new", hosts=[LOOPBACK])
        new.key.rename(files.key)
        assert serial(place, authority) == first, "half a pair is none"
        new.certificate.rename(files.certificate)
        assert serial(place, authority) != first


@pytest.mark.slow
def test_connections_that_never_shake_hands_leave_no_place_taken(
    authority: Authority, files: CertificateFiles
) -> None:
    certificate = ServingCertificate(files.certificate, files.key)
    with Hosted(answering(ok), tls=certificate.context, limit=5) as place:
        for _ in range(20):
            with connected(place) as sock:
                sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                assert is_closed(sock)
        started = time.monotonic()
        while time.monotonic() < started + 20:
            try:
                assert serial(place, authority)
                return
            except OSError:
                time.sleep(0.2)
        pytest.fail("no place is left")
