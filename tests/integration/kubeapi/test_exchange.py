"""Exchanges that pass on any request, against servers that misbehave byte by byte."""

import asyncio
import gc
import gzip
import os
import socket
import ssl
import stat
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import TypeVar

import pytest
import uvloop

from kubeapi import Credentials, Dropped, NotSent, Plain, Unreachable
from kubeapi.answer import TooLong
from kubeapi.dialer import USER_TIMEOUT
from kubeapi.exchange import KEPT_FOR_WRITES, ApiTransport
from tests.controlplane.certificates import Authority
from tests.pods.raw_server import Connection, RawServer

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
WRITES = ["PUT", "POST", "DELETE", "PATCH"]
# Seconds for what the server did to reach the client's loop.
ARRIVAL = 0.3
MEBIBYTE = 1024 * 1024
# Descriptors of this process are below.
MAX_DESCRIPTOR = 4096

T = TypeVar("T")
Run = Callable[[str | Credentials, Callable[[ApiTransport], Awaitable[T]]], T]


@pytest.fixture(params=["asyncio", "uvloop"])
def using(request: pytest.FixtureRequest) -> Run[T]:
    """Runs what it is given on either loop, with the exchanges of a server."""
    factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop

    def run(server: str | Credentials, work: Callable[[ApiTransport], Awaitable[T]]) -> T:
        async def main() -> T:
            credentials = Plain(server) if isinstance(server, str) else server
            transport = ApiTransport(credentials, user_agent="test")
            try:
                return await work(transport)
            finally:
                await transport.close()

        with asyncio.Runner(loop_factory=factory) as runner:
            return runner.run(main())

    return run


def chunk(content: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(content), content)


def answer_all(connection: Connection) -> None:
    while connection.request():
        connection.answer(b"whole")


async def ask(
    api: ApiTransport,
    method: str = "GET",
    target: str = "/x",
    *,
    timeout: float = 5,
    body: bytes | AsyncIterator[bytes] | None = None,
    headers: list[tuple[str, str]] | None = None,
    as_caller: bool = False,
) -> bytes:
    async with api.exchange(
        method,
        target,
        header_timeout=timeout,
        headers=headers or [],
        body=body,
        as_caller=as_caller,
    ) as answer:
        return await answer.read(limit=100 * MEBIBYTE)


async def failure(exchange: Awaitable[object]) -> type[Unreachable]:
    """Of what kind it is, exactly."""
    with pytest.raises(Unreachable) as raised:
        await exchange
    return type(raised.value)


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
        await ask(api, headers=theirs, as_caller=True)
        await ask(api, as_caller=True)

    with RawServer(answer_all) as server:
        using(WithToken(server.url), work)
    ours, callers, nobodys = server.requests
    assert b"Bearer ours" in ours
    assert b"theirs" not in ours
    assert b"Bearer theirs" in callers
    assert b"ours" not in callers
    assert b"Authorization" not in nobodys


async def pieces(*content: bytes, pause: float = 0.0) -> AsyncIterator[bytes]:
    for each in content:
        yield each
        await asyncio.sleep(pause)


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


def be_silent(connection: Connection) -> None:
    connection.request()
    assert connection.sees_end(within=5), "the connection outlived its time-out"


@pytest.mark.parametrize("method", ["GET", *WRITES])
def test_what_no_answer_came_to_was_sent_once_with_an_unknown_outcome(
    using: Run[type[Unreachable]], method: str
) -> None:
    with RawServer(close_after_request) as server:
        kind = using(server.url, lambda api: failure(ask(api, method, body=b"{}")))
    assert kind is Unreachable
    assert len(server.requests) == 1
    with RawServer(be_silent) as server:
        kind = using(server.url, lambda api: failure(ask(api, method, body=b"{}", timeout=0.4)))
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


class Tls(Plain):
    """Trusts whom the test says."""

    def __init__(self, server: str, ca_file: Path | None = None) -> None:
        super().__init__(server.replace("http:", "https:"))
        self.context = ssl.create_default_context(cafile=ca_file)

    def tls(self, *, is_anonymous: bool = False) -> ssl.SSLContext:
        return self.context


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


# ── connections that are kept ──


def test_reads_share_a_connection(using: Run[None]) -> None:
    async def work(api: ApiTransport) -> None:
        for _ in range(3):
            assert await ask(api) == b"whole"

    with RawServer(answer_all) as server:
        using(server.url, work)
    assert server.connections == 1


def test_ours_and_callers_requests_never_share_a_connection(using: Run[None]) -> None:
    async def work(api: ApiTransport) -> None:
        for as_caller in (False, True, False, True):
            await ask(api, as_caller=as_caller)

    with RawServer(answer_all) as server:
        using(server.url, work)
    assert server.connections == 2


def test_a_write_takes_a_kept_connection_only_while_it_is_certainly_alive(using: Run[None]) -> None:
    async def work(api: ApiTransport) -> None:
        await ask(api)
        await ask(api, "PUT", body=b"{}")
        assert server.connections == 1
        await asyncio.sleep(KEPT_FOR_WRITES + 0.2)
        await ask(api, "PUT", body=b"{}")
        assert server.connections == 2

    with RawServer(answer_all) as server:
        using(server.url, work)


@pytest.mark.parametrize("method", ["GET", *WRITES])
@pytest.mark.parametrize("is_reset", [False, True])
def test_on_a_kept_connection_that_ends_unanswered_a_request_is_sent_once(
    using: Run[None], method: str, is_reset: bool
) -> None:
    def serve(connection: Connection) -> None:
        connection.request()
        connection.answer(b"whole")
        connection.request()
        if is_reset:
            connection.reset()

    async def work(api: ApiTransport) -> None:
        assert await ask(api) == b"whole"
        assert await failure(ask(api, method, body=b"{}")) is Dropped
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
    def serve(connection: Connection) -> None:
        connection.request()
        connection.answer(b"whole")

    async def work(api: ApiTransport) -> None:
        for _ in range(2):
            assert await ask(api) == b"whole"
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
        await asyncio.sleep(ARRIVAL)
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
        async with api.exchange("GET", "/x", header_timeout=5) as answer:
            async for content in answer.chunks():
                assert content == b"begin"
                break

    with RawServer(serve) as server:
        using(server.url, work)


# ── deadlines ──


def test_the_time_that_a_body_takes_is_not_the_answers(using: Run[bytes]) -> None:
    slow = pieces(b"one", b"two", b"three", pause=0.3)
    headers = [("Content-Length", "11")]
    with RawServer(answer_all) as server:
        answer = using(
            server.url, lambda api: ask(api, "PUT", body=slow, headers=headers, timeout=0.5)
        )
    assert answer == b"whole"


def test_after_a_slow_body_the_answer_has_its_whole_time_and_no_more(
    using: Run[type[Unreachable]],
) -> None:
    slow = pieces(b"one", b"two", b"three", pause=0.3)
    headers = [("Content-Length", "11")]
    with RawServer(be_silent) as server:
        started = time.monotonic()
        kind = using(
            server.url,
            lambda api: failure(ask(api, "PUT", body=slow, headers=headers, timeout=0.5)),
        )
    assert kind is Unreachable
    assert 1.3 < time.monotonic() - started < 5


def test_an_early_answer_ends_a_body_that_nobody_wants(using: Run[bytes]) -> None:
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 1000
            await asyncio.sleep(0.01)

    def serve(connection: Connection) -> None:
        connection.request()
        connection.answer(b"no", status="413 Too Large", headers="Connection: close\r\n")
        assert connection.sees_end(within=5)

    with RawServer(serve) as server:
        assert using(server.url, lambda api: ask(api, "PUT", body=endless())) == b"no"


def test_silence_within_an_answer_is_judged_only_if_told_to(using: Run[None]) -> None:
    def serve(connection: Connection) -> None:
        while connection.request():
            connection.send(CHUNKED + chunk(b"one"))
            time.sleep(0.8)
            connection.send(chunk(b"two") + b"0\r\n\r\n")

    async def read(api: ApiTransport, *, idle_timeout: float | None) -> list[bytes]:
        async with api.exchange("GET", "/x", header_timeout=0.4) as answer:
            return [content async for content in answer.chunks(idle_timeout=idle_timeout)]

    async def work(api: ApiTransport) -> None:
        assert await read(api, idle_timeout=None) == [b"one", b"two"]
        assert await failure(read(api, idle_timeout=0.3)) is Unreachable

    with RawServer(serve) as server:
        using(server.url, work)


# ── a cut ──


def test_a_cut_ends_whatever_waits_and_says_what_was_sent(using: Run[None], tmp_path: Path) -> None:
    """One is in its TLS handshake, one waits for an answer, one reads, one connection is idle."""
    arrived = threading.Semaphore(0)

    def serve(connection: Connection) -> None:
        while request := connection.request():
            if b"/silent" in request or b"/stream" in request:
                if b"/stream" in request:
                    connection.send(CHUNKED + chunk(b"begin"))
                arrived.release()
                break
            connection.answer(b"whole")
        assert connection.sees_end(within=5), "a connection outlived the cut"

    def accept(connection: Connection) -> None:
        arrived.release()
        assert connection.sees_end(within=5), "a handshake outlived the cut"

    async def work(api: ApiTransport, shaking: ApiTransport) -> None:
        await ask(api)
        idle = asyncio.create_task(ask(api, target="/silent", timeout=30))
        reading = asyncio.create_task(ask(api, target="/stream", timeout=30))
        handshake = asyncio.create_task(ask(shaking, "PUT", timeout=30))
        assert await asyncio.to_thread(arrived.acquire, timeout=5)
        assert await asyncio.to_thread(arrived.acquire, timeout=5)
        assert await asyncio.to_thread(arrived.acquire, timeout=5)
        await asyncio.sleep(ARRIVAL)
        await ask(api)
        api.cut()
        shaking.cut()
        async with asyncio.timeout(2):
            assert await failure(idle) is Unreachable
            assert await failure(reading) is Unreachable
            assert await failure(handshake) is NotSent
        connections = server.connections
        assert await ask(api) == b"whole"
        assert server.connections == connections + 1

    with RawServer(serve) as server, RawServer(accept) as unshaken:

        async def both(api: ApiTransport) -> None:
            shaking = ApiTransport(Tls(unshaken.url), user_agent="test")
            try:
                await work(api, shaking)
            finally:
                await shaking.close()

        using(server.url, both)


@pytest.mark.parametrize("is_tls", [False, True], ids=["plain", "tls"])
def test_a_connection_that_is_reset_as_it_is_made_takes_nothing_else_along(
    using: Run[None], is_tls: bool
) -> None:
    """Loops of uvloop closed a descriptor twice, and whatever had got its number in between."""
    others: list[int] = []

    async def work(api: ApiTransport) -> None:
        for _ in range(300):
            await failure(ask(api))
            others.append(os.open(os.devnull, os.O_RDONLY))
        await asyncio.sleep(ARRIVAL)
        gc.collect()

    with RawServer(Connection.reset) as server:
        using(Tls(server.url) if is_tls else Plain(server.url), work)
    for descriptor in others:
        os.close(descriptor)  # raises OSError if somebody else has done so


def test_the_kernel_is_told_to_notice_peers_that_vanish(using: Run[None]) -> None:
    async def work(api: ApiTransport) -> None:
        await ask(api)
        [sock] = own_sockets(to=server.port)
        with sock:
            user_timeout = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
            assert user_timeout == USER_TIMEOUT * 1000
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1

    with RawServer(answer_all) as server:
        using(server.url, work)


def test_a_peer_may_leave_a_stream_unread_for_as_long_as_it_likes(using: Run[None]) -> None:
    """The kernel's user time-out ends connections whose peer is there, but does not read."""
    stands = asyncio.Event()

    async def body() -> AsyncIterator[bytes]:
        yield b"begin"
        await stands.wait()

    async def work(api: ApiTransport) -> None:
        await ask(api)
        sending = asyncio.create_task(ask(api, "PUT", body=body()))
        await asyncio.sleep(ARRIVAL)
        timeouts = []
        for sock in own_sockets(to=server.port):
            with sock:
                timeouts.append(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT))
        assert sorted(timeouts) == [0, USER_TIMEOUT * 1000]
        stands.set()
        assert await sending == b"whole"
        assert await ask(api) == b"whole"

    def serve(connection: Connection) -> None:
        while request := connection.request():
            if b"chunked" in request:
                connection.receive_until(b"0\r\n\r\n")
            connection.answer(b"whole")

    with RawServer(serve) as server:
        using(server.url, work)
    assert server.connections == 2


def own_sockets(*, to: int) -> list[socket.socket]:
    """Copies of this process' connections to the port."""
    copies = [
        socket.socket(fileno=os.dup(number))
        for number in [each for each in range(MAX_DESCRIPTOR) if is_socket(each)]
    ]
    found = [sock for sock in copies if peer_port(sock) == to]
    for sock in set(copies) - set(found):
        sock.close()
    return found


def is_socket(descriptor: int) -> bool:
    try:
        return stat.S_ISSOCK(os.fstat(descriptor).st_mode)
    except OSError:
        return False


def peer_port(sock: socket.socket) -> int | None:
    try:
        return int(sock.getpeername()[1]) if sock.family == socket.AF_INET else None
    except OSError:
        return None


# ── answers ──


def test_an_answer_comes_with_its_head_as_it_was_sent(using: Run[None]) -> None:
    def serve(connection: Connection) -> None:
        connection.request()
        connection.answer(
            b"",
            status="409 Own Words",
            headers='Warning: 299 - "one"\r\nWarning: 299 - "two"\r\nRetry-After: 1\r\n',
        )

    async def work(api: ApiTransport) -> None:
        async with api.exchange("GET", "/x", header_timeout=5) as answer:
            assert (answer.status, answer.reason) == (409, "Own Words")
            assert answer.headers.getall("Warning") == ['299 - "one"', '299 - "two"']
            assert answer.headers["retry-after"] == "1"

    with RawServer(serve) as server:
        using(server.url, work)


def test_redirects_are_answers_like_others(using: Run[None]) -> None:
    def serve(connection: Connection) -> None:
        connection.request()
        connection.answer(b"", status="307 X", headers="Location: /other\r\n")

    async def work(api: ApiTransport) -> None:
        async with api.exchange("GET", "/x", header_timeout=5) as answer:
            assert answer.status == 307

    with RawServer(serve) as server:
        using(server.url, work)
    assert len(server.requests) == 1


def test_bytes_stay_encoded_unless_they_are_to_be_decoded(using: Run[None]) -> None:
    plain = b"whole" * 1000
    packed = gzip.compress(plain)

    def serve(connection: Connection) -> None:
        while connection.request():
            connection.answer(packed, headers="Content-Encoding: gzip\r\n")

    async def read(api: ApiTransport, *, is_decoded: bool) -> bytes:
        async with api.exchange("GET", "/x", header_timeout=5, is_decoded=is_decoded) as answer:
            return await answer.read(limit=MEBIBYTE)

    async def work(api: ApiTransport) -> None:
        assert await read(api, is_decoded=False) == packed
        assert await read(api, is_decoded=True) == plain

    with RawServer(serve) as server:
        using(server.url, work)
    assert server.connections == 1


def test_a_chunk_arrives_before_the_next_one_is_sent(using: Run[None]) -> None:
    arrived = threading.Event()

    def serve(connection: Connection) -> None:
        connection.request()
        connection.send(CHUNKED + chunk(b"one"))
        assert arrived.wait(5)
        connection.send(chunk(b"two") + b"0\r\n\r\n")

    async def work(api: ApiTransport) -> None:
        async with api.exchange("GET", "/x", header_timeout=5) as answer:
            found = []
            async for content in answer.chunks():
                found.append(content)
                arrived.set()
            assert found == [b"one", b"two"]

    with RawServer(serve) as server:
        using(server.url, work)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort",
        CHUNKED + b"5\r\nbe",
        CHUNKED + chunk(b"begin"),
        CHUNKED + chunk(b"begin") + b"garbage\r\n",
        CHUNKED + chunk(b"begin") + b"0\r\n",
    ],
)
@pytest.mark.parametrize("is_reset", [False, True])
def test_a_body_that_breaks_off_never_just_ends(
    using: Run[type[Unreachable]], answer: bytes, is_reset: bool
) -> None:
    def serve(connection: Connection) -> None:
        connection.request()
        connection.send(answer)
        if is_reset:
            time.sleep(0.1)
            connection.reset()

    with RawServer(serve) as server:
        assert using(server.url, lambda api: failure(ask(api))) is Unreachable


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"\x16\x03\x01\x02\x00",
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n{}",
    ],
)
def test_what_is_no_http_is_no_answer(using: Run[type[Unreachable]], answer: bytes) -> None:
    def serve(connection: Connection) -> None:
        connection.request()
        connection.send(answer)

    with RawServer(serve) as server:
        assert using(server.url, lambda api: failure(ask(api))) is Unreachable


def test_an_answer_that_is_longer_than_wanted_is_given_up(using: Run[None]) -> None:
    async def work(api: ApiTransport) -> None:
        async with api.exchange("GET", "/x", header_timeout=5) as answer:
            with pytest.raises(TooLong):
                await answer.read(limit=4)

    with RawServer(answer_all) as server:
        using(server.url, work)


@pytest.mark.parametrize(
    "answer", [b"HTTP/1.1 204 No Content\r\n\r\n", b"HTTP/1.1 304 Same\r\n\r\n"]
)
def test_an_answer_without_a_body_leaves_its_connection_for_others(
    using: Run[None], answer: bytes
) -> None:
    def serve(connection: Connection) -> None:
        while connection.request():
            connection.send(answer)

    async def work(api: ApiTransport) -> None:
        for _ in range(2):
            assert await ask(api) == b""

    with RawServer(serve) as server:
        using(server.url, work)
    assert server.connections == 1


def test_a_head_has_a_length_and_no_body(using: Run[None]) -> None:
    def serve(connection: Connection) -> None:
        while connection.request():
            connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")

    async def work(api: ApiTransport) -> None:
        for _ in range(2):
            async with api.exchange("HEAD", "/x", header_timeout=5) as answer:
                assert answer.headers["Content-Length"] == "1000"
                assert await answer.read(limit=1) == b""

    with RawServer(serve) as server:
        using(server.url, work)
    assert server.connections == 1


def test_a_reader_that_does_not_read_stops_the_server_instead_of_filling_memory(
    using: Run[None],
) -> None:
    sent = 0
    piece = b"x" * MEBIBYTE

    def serve(connection: Connection) -> None:
        nonlocal sent
        connection.request()
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (200 * MEBIBYTE))
        for _ in range(200):
            connection.send(piece)
            sent += len(piece)

    async def work(api: ApiTransport) -> None:
        async with api.exchange("GET", "/x", header_timeout=5) as answer:
            await asyncio.sleep(1)
            # What fits into both kernels' buffers, and ours.
            assert sent < 50 * MEBIBYTE
            size = 0
            async for content in answer.chunks():
                assert len(content) <= 2 * MEBIBYTE
                size += len(content)
            assert size == 200 * MEBIBYTE

    with RawServer(serve) as server:
        using(server.url, work)


# ── lines of a watch ──


def stream(*chunks: bytes, end: bytes = b"0\r\n\r\n", pause: float = 0.0) -> RawServer:
    def serve(connection: Connection) -> None:
        connection.request()
        connection.send(CHUNKED)
        for content in chunks:
            connection.send(chunk(content))
            time.sleep(pause)
        connection.send(end)

    return RawServer(serve)


async def batches(api: ApiTransport, *, max_line: int = 32 * MEBIBYTE) -> list[list[bytes]]:
    async with api.exchange("GET", "/w", header_timeout=5) as answer:
        return [batch async for batch in answer.batches(max_line=max_line)]


def test_lines_are_whole_whatever_the_chunks(using: Run[list[list[bytes]]]) -> None:
    text = '{"name": "Käse"}\n{"n": 2}\n\n{"n": 3}\n'.encode()
    expected = [line for line in text.split(b"\n") if line]
    for server in (
        stream(*(text[i : i + 1] for i in range(len(text)))),
        stream(text),
        stream(text[:13], text[13:], pause=0.1),
    ):
        with server:
            found = using(server.url, batches)
        assert [line for batch in found for line in batch] == expected
        assert all(found)


def test_lines_that_came_together_are_told_together(using: Run[list[list[bytes]]]) -> None:
    with stream(b"".join(b"%d\n" % i for i in range(1000))) as server:
        found = using(server.url, batches)
    assert len(found) < 20
    assert [line for batch in found for line in batch] == [b"%d" % i for i in range(1000)]


def test_a_line_arrives_before_the_next_one_is_sent(using: Run[None]) -> None:
    def serve(connection: Connection) -> None:
        connection.request()
        connection.send(CHUNKED + chunk(b"one\ntw"))
        assert connection.sees_end(within=5)

    async def work(api: ApiTransport) -> None:
        async with api.exchange("GET", "/w", header_timeout=5) as answer:
            async for batch in answer.batches():
                assert batch == [b"one"]
                break

    with RawServer(serve) as server:
        using(server.url, work)


def test_a_line_that_comes_while_its_reader_is_at_work_is_there_when_it_asks(
    using: Run[list[bytes]],
) -> None:
    is_at_work, is_sent = threading.Event(), threading.Event()

    def serve(connection: Connection) -> None:
        connection.request()
        connection.send(CHUNKED + chunk(b"one\n"))
        for line in (b"two\n", b"three\n"):
            assert is_at_work.wait(5)
            is_at_work.clear()
            connection.send(chunk(line))
            is_sent.set()
        assert connection.sees_end(within=5)

    async def work(api: ApiTransport) -> list[bytes]:
        found: list[bytes] = []
        async with api.exchange("GET", "/w", header_timeout=5) as answer:
            async for batch in answer.batches(idle_timeout=5):
                found += batch
                if len(found) == 3:
                    break
                is_at_work.set()
                assert await asyncio.to_thread(is_sent.wait, 5)
                is_sent.clear()
        return found

    with RawServer(serve) as server:
        assert using(server.url, work) == [b"one", b"two", b"three"]


def test_a_huge_line_is_one_line(using: Run[list[list[bytes]]]) -> None:
    huge = b"x" * (20 * MEBIBYTE)
    with stream(b"small\n", huge, b"\nnext\n") as server:
        found = using(server.url, batches)
    assert [line for batch in found for line in batch] == [b"small", huge, b"next"]


@pytest.mark.parametrize(
    ("chunks", "end"),
    [
        ((b"one\n",), b""),
        ((b"one\n",), b"5\r\nab"),
        ((b"one\n", b"tw"), b"0\r\n\r\n"),
        ((b"one\n",), b"garbage\r\n"),
    ],
)
def test_a_watch_that_breaks_is_unreachable_after_its_whole_lines(
    using: Run[list[bytes]], chunks: tuple[bytes, ...], end: bytes
) -> None:
    async def work(api: ApiTransport) -> list[bytes]:
        found: list[bytes] = []

        async def read() -> None:
            async with api.exchange("GET", "/w", header_timeout=5) as answer:
                async for batch in answer.batches():
                    found.extend(batch)

        assert await failure(read()) is Unreachable
        return found

    with stream(*chunks, end=end, pause=0.2) as server:
        assert using(server.url, work) == [b"one"]


def test_a_line_without_an_end_does_not_use_up_the_memory(using: Run[type[Unreachable]]) -> None:
    with stream(*[b"x" * MEBIBYTE] * 5) as server:
        kind = using(server.url, lambda api: failure(batches(api, max_line=2 * MEBIBYTE)))
    assert kind is Unreachable


# ── upgrades ──


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
        async with api.exchange(
            "POST", "/exec", header_timeout=5, headers=UPGRADE, is_upgrade=True
        ) as answer:
            assert answer.status == 101
            received = Received()
            transport = answer.take_over(received)
            assert received.transport is transport
            api.cut()  # is no business of an upgraded connection
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


def test_an_upgraded_connection_is_closed_with_its_exchange(using: Run[None]) -> None:
    def serve(connection: Connection) -> None:
        connection.request()
        connection.send(SWITCHING)
        assert connection.sees_end(within=5)

    async def work(api: ApiTransport) -> None:
        async with api.exchange(
            "GET", "/exec", header_timeout=5, headers=UPGRADE, is_upgrade=True
        ) as answer:
            answer.take_over(Received())

    with RawServer(serve) as server:
        using(server.url, work)


def test_a_refused_upgrade_is_an_answer_like_others(using: Run[None]) -> None:
    def serve(connection: Connection) -> None:
        connection.request()
        connection.answer(b"no", status="403 Forbidden")

    async def work(api: ApiTransport) -> None:
        async with api.exchange(
            "POST", "/exec", header_timeout=5, headers=UPGRADE, is_upgrade=True
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


# ── servers ──


def tls_server(folder: Path, serve: Callable[[Connection], None]) -> RawServer:
    authority = Authority(folder, "ca")
    certificate = authority.issue_server("server", hosts=["127.0.0.1"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.certificate, certificate.key)
    return RawServer(serve, tls=context)
