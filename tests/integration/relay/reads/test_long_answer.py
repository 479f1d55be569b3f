"""R8: a client that asks for much has to read it, and gets all of it, over plain HTTP and TLS."""

import asyncio
import http.client
import socket
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
import uvloop
from aiohttp import web

from edge_sidecars.runtime.web.connections import Handler
from relay_sidecar.streams.list_encoder import Pieces
from relay_sidecar.upstream.streaming import PIECE, send_long
from relay_sidecar.web.listener import ServingCertificate
from tests.integration.relay.hosted import Hosted, NewEventLoop
from tools.harness.controlplane.access.certificates import Authority
from tools.harness.controlplane.reservation import LOOPBACK

# More than the kernel takes for a sender (tcp_wmem), several times.
BODY = bytes(range(256)) * (100 * PIECE // 256) + b"the end"
# Bytes: about a part, about what TLS keeps back by default, and all of it.
SIZES = (PIECE + 1, 2 * PIECE + 1, 3 * PIECE, len(BODY))
# Seconds: a third of what the relay has; and what a busy machine takes beside that.
PATIENCE = 5.0
SLACK = 10.0


async def much(request: web.BaseRequest) -> web.StreamResponse:
    """As many bytes as the path says."""
    size = int(request.path.removeprefix("/"))
    return await send_long(request, web.StreamResponse(), Pieces([BODY[:size]]))


@asynccontextmanager
async def opened() -> AsyncIterator[Handler]:
    yield much


@dataclass(frozen=True)
class Transport:
    """How the listener and its clients speak."""

    server: ssl.SSLContext | None
    client: ssl.SSLContext | None
    new_event_loop: NewEventLoop

    def hosted(self) -> Hosted:
        return Hosted(
            opened,
            tls=self.server,
            new_event_loop=self.new_event_loop,
            write_timeout=PATIENCE,
        )

    def connection(self, place: Hosted) -> http.client.HTTPConnection:
        if self.client is None:
            return http.client.HTTPConnection(LOOPBACK, place.port, timeout=PATIENCE + SLACK)
        opening = partial(http.client.HTTPSConnection, context=self.client)
        return opening(LOOPBACK, place.port, timeout=PATIENCE + SLACK)

    def asking(self, place: Hosted) -> socket.socket:
        """A request for all of it, of whose answer nothing has been read."""
        connection = self.connection(place)
        connection.connect()
        connection.sock.sendall(b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n" % len(BODY))
        return connection.sock


@pytest.fixture(params=["http", "tls", "tls-asyncio"])
def transport(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Transport]:
    """Also asyncio's own TLS: both pause a writer, each in its way."""
    kind = request.param
    is_asyncio = kind.endswith("asyncio")
    factory = asyncio.new_event_loop if is_asyncio else uvloop.new_event_loop
    if kind == "http":
        yield Transport(None, None, factory)
        return
    authority = Authority(tmp_path, "ca")
    files = authority.issue_server("relay", hosts=[LOOPBACK])
    client = ssl.create_default_context(cafile=str(authority.bundle))
    yield Transport(ServingCertificate(files.certificate, files.key).context, client, factory)


def taken(connection: socket.socket, size: int) -> bytes:
    """So many bytes; fewer where the server ends it. No MSG_WAITALL: TLS has none."""
    received = bytearray()
    try:
        while len(received) < size and (chunk := connection.recv(size - len(received))):
            received += chunk
    except (ConnectionResetError, ssl.SSLEOFError):
        pass
    return bytes(received)


def all_of(connection: socket.socket) -> bytes:
    """Until the server ends it."""
    return taken(connection, 3 * len(BODY))


def test_r8_long_answers_arrive_whole_one_after_the_other(transport: Transport) -> None:
    with transport.hosted() as place, closing(transport.connection(place)) as connection:
        for size in (*SIZES, *SIZES):
            connection.request("GET", f"/{size}")
            with connection.getresponse() as response:
                assert response.read() == BODY[:size]


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["http", "tls"], indirect=True)
def test_r8_who_does_not_read_an_answer_is_cut_off_and_who_reads_slowly_is_not(
    transport: Transport,
) -> None:
    with (
        transport.hosted() as place,
        transport.asking(place) as slow,
        transport.asking(place) as deaf,
    ):
        began, received = time.monotonic(), b""
        # Something, again and again, for longer than anybody waits for nothing.
        while time.monotonic() - began < 2 * PATIENCE:
            received += taken(slow, PIECE)
            time.sleep(1.0)
        slow.sendall(b"GET /1000000 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        answers = received + all_of(slow)
        assert answers.count(BODY) == 1
        assert answers.endswith(BODY[:1_000_000])
        assert len(all_of(deaf)) < len(BODY)
