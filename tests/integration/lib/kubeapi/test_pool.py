"""Connections that are used again, against servers that misuse them byte by byte."""

import asyncio
import gc
import io
import threading
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import aiohttp
import pytest
from aiohttp.resolver import ThreadedResolver

from edge_sidecars.kubeapi import ApiClient, ApiError, Credentials, Plain, Unreachable
from edge_sidecars.kubeapi.connector import Connector, Resolver
from edge_sidecars.kubeapi.pool import MAX_AGE, Channel, ConnectionPool
from tests.integration.lib.kubeapi.sending import until
from tools.harness.pods.wire.raw_server import Connection, RawServer

T = TypeVar("T")
# Seconds for what the server did to reach the client's loop.
ARRIVAL = 0.3


def using(
    credentials: Credentials, work: Callable[[ApiClient], Awaitable[T]], *, pooled_for: float = 5.0
) -> T:
    async def run() -> T:
        server = ApiClient(credentials, user_agent="test", pooled_for=pooled_for)
        try:
            return await work(server)
        finally:
            await server.close()

    return asyncio.run(run())


async def put(api: ApiClient, path: str, *, timeout: float = 5, pooled: bool = True) -> object:
    return await api.request("PUT", path, timeout=timeout, body={}, pooled=pooled)


def answer_all(connection: Connection) -> None:
    """Each request with its own path, and by the path's word."""
    while request := connection.request():
        path = request.split(b" ")[1]
        status = path.removeprefix(b"/").decode() if path[1:].isdigit() else "200"
        connection.answer(b'{"path": "%s"}' % path, status=f"{status} X")


def paths(server: RawServer) -> list[bytes]:
    return [request.split(b" ")[1] for request in server.requests]


def test_kept_requests_share_a_connection_and_others_have_their_own() -> None:
    async def work(api: ApiClient) -> None:
        await put(api, "/a")
        await put(api, "/b")
        await put(api, "/c", pooled=False)
        await put(api, "/d")

    with RawServer(answer_all) as server:
        using(Plain(server.url), work)
    assert paths(server) == [b"/a", b"/b", b"/c", b"/d"]
    assert server.connections == 2
    assert [b"Connection: close" in each for each in server.requests] == [0, 0, 1, 0]


def test_a_kept_request_beside_another_has_a_connection_of_its_own() -> None:
    async def work(api: ApiClient) -> None:
        await put(api, "/first")
        hanging = asyncio.create_task(put(api, "/hang", timeout=2))
        await until(lambda: len(server.requests) == 2)
        assert await put(api, "/second") == {"path": "/second"}
        with pytest.raises(Unreachable):
            await hanging

    def serve(connection: Connection) -> None:
        while request := connection.request():
            if b"/hang" in request:
                assert connection.sees_end(within=5), "it outlived its time-out"
                return
            connection.answer(b'{"path": "%s"}' % request.split(b" ")[1])

    with RawServer(serve) as server:
        using(Plain(server.url), work)
    assert server.connections == 2


# ── a request is sent once ──


def test_bytes_that_nobody_asked_for_are_nobodys_answer() -> None:
    answered, strayed = threading.Semaphore(0), threading.Semaphore(0)

    def serve(connection: Connection) -> None:
        while request := connection.request():
            connection.answer(b'{"path": "%s"}' % request.split(b" ")[1])
            assert answered.acquire(timeout=10)
            connection.answer(b'{"path": "stray"}')
            strayed.release()

    async def work(api: ApiClient) -> None:
        for path in ("/a", "/b"):
            assert await put(api, path) == {"path": path}
            answered.release()
            assert await asyncio.to_thread(strayed.acquire, timeout=10)
            await asyncio.sleep(ARRIVAL)

    with RawServer(serve) as server:
        using(Plain(server.url), work)
    assert server.connections == 2


# ── what puts kept connections out of use ──


def test_after_a_time_out_the_next_requests_have_fresh_connections() -> None:
    """Also where it was a connection of its own that hung: the way there is the same."""

    def serve(connection: Connection) -> None:
        while request := connection.request():
            if b"/hang" in request:
                assert connection.sees_end(within=5)
                return
            connection.answer(b"{}")

    async def work(api: ApiClient) -> None:
        for pooled in (True, False):
            await put(api, "/a")
            with pytest.raises(Unreachable, match="no answer"):
                await put(api, "/hang", timeout=1.0, pooled=pooled)
        await put(api, "/b")

    with RawServer(serve) as server:
        using(Plain(server.url), work)
    # /a and /hang; /a; /hang; /b
    assert server.connections == 4


@pytest.mark.parametrize(
    ("status", "connections"),
    [(404, 1), (409, 1), (401, 2), (429, 2), (500, 2), (503, 2), (504, 2)],
)
def test_a_server_that_fails_is_left_and_one_that_only_refuses_is_not(
    status: int, connections: int
) -> None:
    async def work(api: ApiClient) -> None:
        await put(api, "/a")
        with pytest.raises(ApiError):
            await put(api, f"/{status}")
        await put(api, "/b")

    with RawServer(answer_all) as server:
        using(Plain(server.url), work)
    assert server.connections == connections


def test_a_connection_that_was_lent_during_a_failure_is_not_kept() -> None:
    def serve(connection: Connection) -> None:
        while request := connection.request():
            if b"/slow" in request:
                time.sleep(2 * ARRIVAL)
            status = "500 X" if b"/fails" in request else "200 OK"
            connection.answer(b"{}", status=status)

    async def work(api: ApiClient) -> None:
        slow = asyncio.create_task(put(api, "/slow"))
        await asyncio.sleep(ARRIVAL)
        with pytest.raises(ApiError):
            await put(api, "/fails", pooled=False)
        await slow
        await put(api, "/b")

    with RawServer(serve) as server:
        using(Plain(server.url), work)
    assert server.connections == 3


def test_a_connection_that_the_server_wants_closed_is_not_kept() -> None:
    def serve(connection: Connection) -> None:
        connection.request()
        connection.answer(b"{}", headers="Connection: close\r\n")
        assert connection.sees_end(within=5)

    async def work(api: ApiClient) -> None:
        await put(api, "/a")
        await put(api, "/b")

    with RawServer(serve) as server:
        using(Plain(server.url), work)
    assert server.connections == 2


def test_a_connection_that_was_idle_for_too_long_is_not_used_again() -> None:
    async def work(api: ApiClient) -> None:
        await put(api, "/a")
        await asyncio.sleep(ARRIVAL)
        await put(api, "/b")

    with RawServer(answer_all) as server:
        using(Plain(server.url), work, pooled_for=ARRIVAL / 2)
    assert server.connections == 2


def test_answers_leave_nothing_behind_on_their_connection() -> None:
    def serve(connection: Connection) -> None:
        while connection.request():
            connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")
            time.sleep(0.02)  # else the body is there before anybody waits for it
            connection.send(b"{}")

    def bodies() -> int:
        gc.collect()
        return sum(isinstance(each, aiohttp.StreamReader) for each in gc.get_objects())

    async def work(api: ApiClient) -> int:
        at_first = bodies()
        for _ in range(40):
            await put(api, "/a")
        return bodies() - at_first

    with RawServer(serve) as server:
        left = using(Plain(server.url), work)
    assert server.connections == 1
    assert left < 10


# ── one channel, looked at from near by ──


async def with_channel(
    server: RawServer,
    body: bytes,
    look: Callable[[Channel], None],
    *,
    after: threading.Event | None = None,
    ended: threading.Event | None = None,
    max_age: float = MAX_AGE,
) -> None:
    """`look` is called after one request, and `after`, before the channel is given back. Returns
    after `ended`: what a connection still had to send goes out only as long as the loop runs."""
    pool = ConnectionPool(_opened, idle=2 * MAX_AGE, max_idle=1, max_age=max_age)
    try:
        async with pool.channel(None, idle=0) as channel:
            async with channel.session.put(server.url, data=io.BytesIO(body)) as response:
                await response.read()
            channel.used()
            assert after is None or await asyncio.to_thread(after.wait, 10)
            await asyncio.sleep(ARRIVAL)
            look(channel)
    finally:
        await pool.close()
    assert ended is None or await asyncio.to_thread(ended.wait, 10)


def _opened() -> aiohttp.ClientSession:
    resolver = Resolver(ThreadedResolver())
    connector = Connector(keepalive_timeout=9, resolver=resolver, maker=None)
    return aiohttp.ClientSession(connector=connector)


def test_a_connection_is_given_up_at_its_age_however_busy() -> None:
    """Of several API servers behind one address, each gets its turn."""

    def look(channel: Channel) -> None:
        now = time.clock_gettime(time.CLOCK_BOOTTIME)
        assert channel.is_usable(now, idle=2 * MAX_AGE)
        assert not channel.is_usable(now + MAX_AGE, idle=2 * MAX_AGE)

    with RawServer(answer_all) as server:
        asyncio.run(with_channel(server, b"{}", look))


def test_who_wants_few_connections_uses_them_for_longer() -> None:
    def look(channel: Channel) -> None:
        now = time.clock_gettime(time.CLOCK_BOOTTIME)
        assert channel.is_usable(now + MAX_AGE, idle=2 * MAX_AGE)
        assert not channel.is_usable(now + 1.5 * MAX_AGE, idle=2 * MAX_AGE)

    with RawServer(answer_all) as server:
        asyncio.run(with_channel(server, b"{}", look, max_age=1.5 * MAX_AGE))


def test_idle_seconds_count_on_a_clock_that_runs_through_a_suspend() -> None:
    """aiohttp's own clock would find a connection young whose other end is long gone."""

    def look(channel: Channel) -> None:
        now = time.clock_gettime(time.CLOCK_BOOTTIME)
        assert channel.is_usable(now, idle=MAX_AGE / 2)
        assert not channel.is_usable(now + MAX_AGE / 2, idle=MAX_AGE / 2)

    with RawServer(answer_all) as server:
        asyncio.run(with_channel(server, b"{}", look))


def test_a_connection_whose_request_was_answered_before_it_was_sent_is_not_kept() -> None:
    ended = threading.Event()

    def serve(connection: Connection) -> None:
        connection.answer(b"{}")
        time.sleep(ARRIVAL)
        assert connection.sees_end(within=5)
        ended.set()

    def look(channel: Channel) -> None:
        now = time.clock_gettime(time.CLOCK_BOOTTIME)
        assert not channel.is_usable(now, idle=2 * MAX_AGE)

    with RawServer(serve) as server:
        asyncio.run(with_channel(server, b"x" * 50_000_000, look, ended=ended))
