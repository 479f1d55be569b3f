"""What is sent of a request: byte by byte what it was given, at most once, and whether at all."""

import asyncio
import os
import socket
import threading
import time
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from edge_sidecars.kubeapi import ApiTransport, NotSent, Plain, Unreachable
from tests.integration.lib.kubeapi.sending import (
    MEBIBYTE,
    WRITES,
    Run,
    Tls,
    answer_all,
    ask,
    be_silent,
    chunk,
    failure,
    pieces,
    tls_server,
)
from tools.harness.pods.wire.raw_server import Connection, RawServer

# ── what is sent ──

TARGETS = [
    "/api/v1/namespaces/default/services/http:web:80/proxy/a%2Fb//c/../d",
    "/api/v1/pods?labelSelector=a%20in%20%28b%2Cc%29&fieldSelector=metadata.name%3Dx",
    "/x?a=1&a=2&b=+&c=%2B&d",
    "/x?url=http://other/?y=z#end",
    "//x",
    "/%zz;v=1?[]={}",
]


@pytest.mark.parametrize("target", TARGETS)
def test_a_target_goes_over_the_wire_as_it_came(using: Run[bytes], target: str) -> None:
    with RawServer(answer_all) as server:
        using(server.url, lambda api: ask(api, target=target))
        using(server.url + "/k8s/clusters/c-1/", lambda api: ask(api, target=target))
    assert [request.split(b"\r\n")[0] for request in server.requests] == [
        f"GET {target} HTTP/1.1".encode(),
        f"GET /k8s/clusters/c-1{target} HTTP/1.1".encode(),
    ]


def test_headers_are_those_that_were_given_and_nothing_else_but_who_asks(using: Run[bytes]) -> None:
    headers = [("Accept", "a/b"), ("X-Stream", "v4"), ("X-Stream", "v3"), ("User-Agent", "me")]
    with RawServer(answer_all) as server:
        using(server.url, lambda api: ask(api, headers=headers))
        using(server.url, lambda api: ask(api))
    given, bare = (request.split(b"\r\n")[1:-2] for request in server.requests)
    host = f"Host: 127.0.0.1:{server.port}".encode()
    assert given == [host, b"Accept: a/b", b"X-Stream: v4", b"X-Stream: v3", b"User-Agent: me"]
    assert bare == [host, b"User-Agent: test"]


class WithToken(Plain):
    async def authorization(self) -> str | None:
        return "Bearer ours"


def test_who_asks_in_our_name_brings_no_token_and_a_caller_only_its_own(using: Run[None]) -> None:
    theirs = [("Authorization", "Bearer theirs")]

    async def work(api: ApiTransport) -> None:
        await ask(api, headers=theirs)
        await ask(api, headers=theirs, identity="caller")
        await ask(api, identity="caller")

    with RawServer(answer_all) as server:
        using(WithToken(server.url), work)
    ours, callers, nobodys = server.requests
    assert b"Bearer ours" in ours
    assert b"theirs" not in ours
    assert b"Bearer theirs" in callers
    assert b"ours" not in callers
    assert b"Authorization" not in nobodys


@pytest.mark.parametrize("size", [0, 1, 64 * 1024, 300_000])
def test_a_body_arrives_with_its_length(using: Run[bytes], size: int) -> None:
    body = os.urandom(size)
    with RawServer(answer_all) as server:
        using(server.url, lambda api: ask(api, "POST", body=body))
        using(
            server.url,
            lambda api: ask(
                api, "POST", body=pieces(body), headers=[("Content-Length", str(size))]
            ),
        )
    for request in server.requests:
        head, _, sent = request.partition(b"\r\n\r\n")
        assert sent == body
        assert f"Content-Length: {size}".encode() in head
        assert b"chunked" not in head


def test_a_body_without_a_length_arrives_in_chunks_as_they_come(using: Run[bytes]) -> None:
    seen: list[bytes] = []

    def serve(connection: Connection) -> None:
        connection.request()
        seen.append(connection.receive_until(b"0\r\n\r\n"))
        connection.answer(b"")

    with RawServer(serve) as server:
        using(server.url, lambda api: ask(api, "PUT", body=pieces(b"one", b"two", pause=0.1)))
    assert b"Transfer-Encoding: chunked" in server.requests[0]
    assert seen == [chunk(b"one") + chunk(b"two") + b"0\r\n\r\n"]


def test_a_body_that_fails_is_never_sent_as_if_it_were_whole(using: Run[type[Unreachable]]) -> None:
    seen: list[bytes] = []
    arrived = threading.Event()

    async def broken() -> AsyncIterator[bytes]:
        yield b"begin"
        assert await asyncio.to_thread(arrived.wait, 5)
        raise ConnectionResetError("the client has gone")

    def serve(connection: Connection) -> None:
        connection.request()
        seen.append(connection.receive_until(chunk(b"begin")))
        arrived.set()
        try:
            seen.append(connection.receive_until(b"0\r\n\r\n"))
        except ConnectionResetError:
            return

    with RawServer(serve) as server:
        kind = using(server.url, lambda api: failure(ask(api, "PUT", body=broken())))
    assert kind is Unreachable
    assert b"".join(seen) == chunk(b"begin")


def test_a_body_takes_no_more_memory_than_is_on_its_way(using: Run[bytes]) -> None:
    """It is taken from its sender as fast as the server reads."""
    total = 200 * MEBIBYTE
    given = received = 0
    ahead = 0

    async def body() -> AsyncIterator[bytes]:
        nonlocal given, ahead
        while given < total:
            given += MEBIBYTE
            ahead = max(ahead, given - received)
            yield b"x" * MEBIBYTE

    def serve(connection: Connection) -> None:
        nonlocal received
        connection.request_head()
        time.sleep(0.5)
        while received < total:
            received += connection.skip(total - received)
        connection.answer(b"whole")

    headers = [("Content-Length", str(total))]
    with RawServer(serve) as server:
        answer = using(server.url, lambda api: ask(api, "PUT", body=body(), headers=headers))
    assert answer == b"whole"
    assert ahead < 20 * MEBIBYTE


# ── sent at most once, and whether at all ──


def close_after_request(connection: Connection) -> None:
    connection.request()


@pytest.mark.parametrize("method", ["GET", *WRITES])
def test_what_no_answer_came_to_was_sent_once_with_an_unknown_outcome(
    using: Run[type[Unreachable]], method: str
) -> None:
    with RawServer(close_after_request) as server:
        kind = using(server.url, lambda api: failure(ask(api, method, body=b"{}")))
    assert kind is Unreachable
    assert len(server.requests) == 1
    # Not even sent within the shorter time, if this machine stands still for so long.
    for seconds in (0.4, 5.0):
        with RawServer(be_silent) as server:
            kind = using(
                server.url,
                lambda api, it=seconds: failure(  # type: ignore[misc]
                    ask(api, method, body=b"{}", timeout=it)
                ),
            )
        if kind is not NotSent:
            break
    assert kind is Unreachable
    assert len(server.requests) == 1


def test_where_nobody_listens_nothing_was_sent(using: Run[type[Unreachable]]) -> None:
    with RawServer(close_after_request) as server:
        pass
    assert using(server.url, lambda api: failure(ask(api, "PUT", body=b"{}"))) is NotSent


def test_where_no_connection_comes_about_in_time_nothing_was_sent(
    using: Run[type[Unreachable]],
) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server:
        address = server.getsockname()
        # Linux drops what asks for a connection when the queue is full, and answers nothing.
        with closing(socket.create_connection(address)), closing(socket.socket()) as second:
            second.setblocking(False)
            second.connect_ex(address)
            url = f"http://127.0.0.1:{address[1]}"
            kind = using(url, lambda api: failure(ask(api, "PUT", body=b"{}", timeout=0.5)))
    assert kind is NotSent


def test_without_a_tls_handshake_nothing_was_sent(
    using: Run[type[Unreachable]],
) -> None:
    def serve(connection: Connection) -> None:
        connection.sees_end(within=5)

    with RawServer(serve) as server:
        silent = using(
            Tls(server.url), lambda api: failure(ask(api, "PUT", body=b"{}", timeout=0.4))
        )
    with RawServer(lambda connection: connection.send(b"HTTP/1.1 400 Bad\r\n\r\n")) as server:
        plain = using(Tls(server.url), lambda api: failure(ask(api, "PUT", body=b"{}")))
    assert (silent, plain) == (NotSent, NotSent)


def test_to_a_server_that_is_not_trusted_nothing_is_sent(
    using: Run[type[Unreachable]], tmp_path: Path
) -> None:
    with tls_server(tmp_path, be_silent) as server:
        kind = using(Tls(server.url), lambda api: failure(ask(api, "PUT", body=b"{}")))
    assert kind is NotSent
    assert server.requests == []
