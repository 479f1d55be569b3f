"""R8: who asks for much has to read it."""

import http.client
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing

import pytest
from aiohttp import web

from relay_sidecar import long_answer
from relay_sidecar.long_answer import PIECE, in_parts, send_long
from sidecar.web.places import Handler
from tests.controlplane.reservation import LOOPBACK
from tests.integration.relay.hosted import Hosted

# More than the kernel takes for a sender (tcp_wmem), several times.
BODY = bytes(range(256)) * (80 * PIECE // 256) + b"the end"
# Seconds: a third of what the relay has; and what a busy machine takes beside that.
PATIENCE = 5.0
SLACK = 10.0


async def much(request: web.BaseRequest) -> web.StreamResponse:
    response = web.StreamResponse()
    response.content_length = len(BODY)
    return await send_long(request, response, in_parts(BODY))


@asynccontextmanager
async def opened() -> AsyncIterator[Handler]:
    yield much


def asking(place: Hosted) -> socket.socket:
    connection = socket.create_connection((LOOPBACK, place.port), timeout=PATIENCE + SLACK)
    connection.sendall(b"GET /much HTTP/1.1\r\nHost: x\r\n\r\n")
    return connection


def all_of(connection: socket.socket) -> bytes:
    """Until the server ends it."""
    received = b""
    try:
        while chunk := connection.recv(PIECE):
            received += chunk
    except ConnectionResetError:
        pass
    return received


def test_r8_a_long_answer_arrives_whole_and_the_next_one_too() -> None:
    with Hosted(opened) as place:
        it = http.client.HTTPConnection(LOOPBACK, place.port)
        with closing(it) as connection:
            for _ in range(2):
                connection.request("GET", "/much")
                with connection.getresponse() as response:
                    assert response.read() == BODY


@pytest.mark.slow
def test_r8_who_does_not_read_an_answer_is_cut_off_and_who_reads_slowly_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(long_answer, "PATIENCE", PATIENCE)
    with Hosted(opened) as place, asking(place) as slow, asking(place) as deaf:
        began, received = time.monotonic(), b""
        # Something, again and again, for longer than anybody waits for nothing.
        while time.monotonic() - began < 2 * PATIENCE:
            received += slow.recv(PIECE, socket.MSG_WAITALL)
            time.sleep(1.0)
        slow.sendall(b"GET /bye HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert (received + all_of(slow)).count(BODY) == 2
        assert len(all_of(deaf)) < len(BODY)
