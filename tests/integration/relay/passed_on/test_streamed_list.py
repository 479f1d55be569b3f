"""R9: a LIST that is handed on as it comes is compressed over the link, whatever the client
accepts, and never looks whole where it is not; over plain HTTP and TLS."""

import gzip
import http.client
import ssl
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from edge_sidecars.kubeapi import Plain
from relay_sidecar.upstream.streaming import PIECE
from relay_sidecar.web.listener import ServingCertificate
from tests.integration.raw_client import PATIENCE
from tests.integration.relay.hosted import Hosted
from tests.integration.relay.passed_on.passing import MODE, STREAMED, Passing
from tests.integration.relay.place import Place
from tools.harness.controlplane.access.certificates import Authority
from tools.harness.controlplane.reservation import LOOPBACK
from tools.harness.pods.wire.raw_server import Connection, RawServer
from tools.harness.relay_objects import Contents

MEBIBYTE = 1024 * 1024
CONTENT = STREAMED + b',"items":[' + b'{"metadata":{"name":"some"}},' * 100_000 + b"]}"
GZIPPED = gzip.compress(CONTENT)


@dataclass(frozen=True)
class Listening:
    """How the relay's listener and its clients speak."""

    server: ssl.SSLContext | None
    client: ssl.SSLContext | None

    def ask(self, relay: Hosted, **headers: str) -> tuple[http.client.HTTPResponse, bytes]:
        """Raises `IncompleteRead` for an answer that breaks off."""
        if self.client is None:
            connection = http.client.HTTPConnection(LOOPBACK, relay.port, timeout=PATIENCE)
        else:
            connection = http.client.HTTPSConnection(
                LOOPBACK, relay.port, timeout=PATIENCE, context=self.client
            )
        with closing(connection):
            connection.request("GET", "/x", headers={MODE: "stream", **headers})
            with connection.getresponse() as response:
                return response, response.read()


@pytest.fixture(scope="module", params=["http", "tls"])
def listening(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Listening:
    if request.param == "http":
        return Listening(None, None)
    folder: Path = tmp_path_factory.mktemp("tls")
    authority = Authority(folder, "ca")
    files = authority.issue_server("relay", hosts=[LOOPBACK])
    client = ssl.create_default_context(cafile=str(authority.bundle))
    return Listening(ServingCertificate(files.certificate, files.key).context, client)


def chunked(connection: Connection, body: bytes) -> None:
    """In pieces that end anywhere, with a proper end."""
    connection.send(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Encoding: gzip\r\n\r\n"
    )
    for piece in pieces(body):
        connection.send(b"%x\r\n%s\r\n" % (len(piece), piece))
    connection.send(b"0\r\n\r\n")


def with_length(connection: Connection, body: bytes) -> None:
    connection.answer(body, headers="Content-Encoding: gzip\r\n")


def pieces(body: bytes) -> Iterator[bytes]:
    yield body[:5]
    yield from (body[start : start + 999] for start in range(5, len(body), 999))


def server_of(send: Callable[[Connection, bytes], None], body: bytes) -> RawServer:
    def serve(connection: Connection) -> None:
        # The relay breaks off what cannot be read, at whatever moment.
        with suppress(ConnectionError):
            while request := connection.request():
                assert b"Accept-Encoding: gzip\r\n" in request
                send(connection, body)

    return RawServer(serve)


@pytest.mark.parametrize("send", [chunked, with_length])
def test_r9_a_client_without_gzip_gets_the_content_of_a_compressed_list(
    listening: Listening, send: Callable[[Connection, bytes], None]
) -> None:
    half = len(CONTENT) // 2
    members = gzip.compress(CONTENT[:half]) + gzip.compress(CONTENT[half:])
    for body in (GZIPPED, members):
        with server_of(send, body) as server:
            passing = Passing(Plain(server.url))
            with passing.host(tls=listening.server) as relay:
                response, got = listening.ask(relay)
                assert (response.headers["Content-Encoding"], got) == (None, CONTENT)
                assert b"".join(passing.pieces) == CONTENT
                assert max(map(len, passing.pieces)) <= PIECE
                assert len(passing.pieces[0]) >= len(STREAMED)


@pytest.mark.parametrize("send", [chunked, with_length])
def test_r9_a_client_with_gzip_gets_the_bytes_of_upstream(
    listening: Listening, send: Callable[[Connection, bytes], None]
) -> None:
    with server_of(send, GZIPPED) as server:
        passing = Passing(Plain(server.url))
        with passing.host(tls=listening.server) as relay:
            response, got = listening.ask(relay, **{"Accept-Encoding": "gzip"})
    assert (response.headers["Content-Encoding"], got) == ("gzip", GZIPPED)
    assert passing.pieces == []


@pytest.mark.parametrize("send", [chunked, with_length])
@pytest.mark.parametrize(
    "broken",
    [
        GZIPPED[:-9],
        GZIPPED[:-1],
        GZIPPED[: len(GZIPPED) // 2],
        GZIPPED[:-8] + bytes(8),
        GZIPPED + b"garbage",
        GZIPPED + gzip.compress(b"more" * 1000)[:-4],
    ],
    ids=["no trailer", "half a trailer", "half", "wrong checksum", "garbage", "second member"],
)
def test_r6_a_compressed_list_that_is_not_whole_never_looks_whole(
    listening: Listening, send: Callable[[Connection, bytes], None], broken: bytes
) -> None:
    with (
        server_of(send, broken) as server,
        Passing(Plain(server.url)).host(tls=listening.server) as relay,
        pytest.raises(http.client.IncompleteRead),
    ):
        listening.ask(relay)


def test_r8_a_list_that_inflates_a_thousandfold_comes_in_pieces(listening: Listening) -> None:
    content = STREAMED + bytes(64 * MEBIBYTE)
    with server_of(with_length, gzip.compress(content)) as server:
        passing = Passing(Plain(server.url))
        with passing.host(tls=listening.server) as relay:
            assert listening.ask(relay)[1] == content
    assert max(map(len, passing.pieces)) <= PIECE


def test_r9_over_the_link_a_list_is_compressed_for_a_plain_client(
    one_relay: Place, contents: Contents
) -> None:
    contents.configmaps(8, size=256 * 1024)
    path = contents.path("configmaps")
    # From here on a live stream holds them, and what upstream answers is handed on as it comes.
    one_relay.caller().get(path, {"resourceVersion": contents.version()}).expect()
    [relay] = one_relay.relays
    assert relay.is_link_up
    before = one_relay.link.traffic().response_bytes
    reply = one_relay.caller().get(path)
    came = one_relay.link.traffic().response_bytes - before
    assert reply.headers["Content-Encoding"] is None
    assert len(reply.expect()["items"]) == 8
    assert came < len(reply.body) / 8
