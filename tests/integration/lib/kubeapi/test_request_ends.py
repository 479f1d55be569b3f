"""What ends a request before its server does: deadlines, an abort, a peer that is gone."""

import asyncio
import gc
import os
import socket
import stat
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from edge_sidecars.kubeapi import ApiTransport, NotSent, Plain, Request, Unreachable
from edge_sidecars.kubeapi.connector import USER_TIMEOUT
from tests.integration.lib.kubeapi.sending import (
    ARRIVAL,
    CHUNKED,
    Run,
    Tls,
    answer_all,
    ask,
    be_silent,
    chunk,
    failure,
    pieces,
    until,
)
from tools.harness.pods.wire.raw_server import Connection, RawServer

# Descriptors of this process are below.
MAX_DESCRIPTOR = 4096


# ── deadlines ──


def test_the_time_that_a_body_takes_is_not_the_answers(using: Run[bytes]) -> None:
    slow = pieces(b"one", b"two", b"three", pause=0.6)
    headers = [("Content-Length", "11")]
    with RawServer(answer_all) as server:
        answer = using(
            server.url, lambda api: ask(api, "PUT", body=slow, headers=headers, timeout=1.5)
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
            time.sleep(1.5)
            connection.send(chunk(b"two") + b"0\r\n\r\n")

    async def read(api: ApiTransport, *, idle_timeout: float | None) -> list[bytes]:
        async with api.send(Request("GET", "/x", header_timeout=1.2)) as answer:
            return [content async for content in answer.chunks(idle_timeout=idle_timeout)]

    async def work(api: ApiTransport) -> None:
        assert await read(api, idle_timeout=None) == [b"one", b"two"]
        assert await failure(read(api, idle_timeout=0.3)) is Unreachable

    with RawServer(serve) as server:
        using(server.url, work)


# ── an abort ──


def test_an_abort_ends_whatever_waits_and_says_what_was_sent(
    using: Run[None], tmp_path: Path
) -> None:
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
        assert connection.sees_end(within=20), "a connection outlived the abort"

    def accept(connection: Connection) -> None:
        arrived.release()
        assert connection.sees_end(within=20), "a handshake outlived the abort"

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
        api.abort()
        shaking.abort()
        async with asyncio.timeout(5):
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

    def timeouts() -> list[int]:
        found = []
        for sock in own_sockets(to=server.port):
            with sock:
                found.append(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT))
        return sorted(found)

    async def body() -> AsyncIterator[bytes]:
        yield b"begin"
        await stands.wait()

    async def work(api: ApiTransport) -> None:
        await ask(api)
        sending = asyncio.create_task(ask(api, "PUT", body=body()))
        await until(lambda: timeouts() == [0, USER_TIMEOUT * 1000])
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


def test_an_answer_that_outlasts_an_abort_is_read_to_its_end(using: Run[None]) -> None:
    """And its connection is used no more."""
    is_aborted = threading.Event()

    def serve(connection: Connection) -> None:
        if b"/stream" not in connection.request():
            connection.answer(b"whole")
            return
        connection.send(CHUNKED + chunk(b"begin"))
        assert is_aborted.wait(20)
        connection.send(chunk(b"end") + chunk(b""))
        assert connection.sees_end(within=20), "a connection outlived its use"

    async def work(api: ApiTransport) -> None:
        async with api.send(Request("GET", "/stream", header_timeout=5)) as answer:
            answer.outlast_abort()
            chunks = answer.chunks(idle_timeout=20)
            assert await anext(chunks) == b"begin"
            api.abort()
            is_aborted.set()
            await answer.gather(0.01)
            assert b"".join([each async for each in chunks]) == b"end"
        assert await ask(api) == b"whole"

    with RawServer(serve) as server:
        using(server.url, work)
