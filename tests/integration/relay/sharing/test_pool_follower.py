"""How the lines of a pool-sidecar are followed, whatever it answers."""

import asyncio
import json
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

from edge_sidecars.kubeapi import ApiClient, Plain
from edge_sidecars.kubeapi.credentials import watched_token
from relay_sidecar.pool.detour import follow
from relay_sidecar.pool.sources import MAX_VALID, SourcesLine
from tools.harness.pods.wire.raw_server import Connection, RawServer

# Seconds.
MEASURED = 6.0
# Requests in these: delays double from 0.2 s up, and half of each is chance.
MOST = 7
SOON = 20.0

LINE = json.dumps({"detour": True, "via": "n3", "validSeconds": 6}).encode() + b"\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

Serve = Callable[[Connection], None]


def answers(body: bytes, status: str = "200 OK") -> Serve:
    def serve(connection: Connection) -> None:
        connection.request()
        connection.answer(body, status=status)

    return serve


def closes(connection: Connection) -> None:
    connection.request()


def resets(connection: Connection) -> None:
    connection.request()
    connection.reset()


def no_http(connection: Connection) -> None:
    connection.request()
    connection.send(b"\x00garbage\r\n\r\n")


SERVERS: dict[str, Serve] = {
    "closes": closes,
    "resets": resets,
    "no HTTP": no_http,
    "401": answers(b"{}", "401 Unauthorized"),
    "403": answers(b"{}", "403 Forbidden"),
    "404": answers(b"{}", "404 Not Found"),
    "429": answers(b"{}", "429 Too Many Requests"),
    "503": answers(b"{}", "503 Service Unavailable"),
    "ends at once": answers(b""),
    "ends after a line": answers(LINE),
    "ends after many lines": answers(LINE * 100),
    "garbles": answers(b"\x00\n"),
    "garbles after a line": answers(LINE + b"garbage\n"),
    "another document": answers(b'{"kind":"Status"}\n'),
    "ends within a line": answers(LINE + b'{"detour"'),
}


async def following(url: str, heard: list[SourcesLine], token: Path | None = None) -> None:
    found = None if token is None else watched_token(token)
    client = ApiClient(Plain(url, found), user_agent="test")
    try:
        await follow(client, heard.append)
    finally:
        await client.close()


def test_a_pool_sidecar_that_refuses_ends_or_garbles_everything_is_asked_ever_less_often() -> None:
    async def work(servers: list[RawServer]) -> None:
        tasks = [asyncio.create_task(following(it.url, [])) for it in servers]
        await asyncio.sleep(MEASURED)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    with ExitStack() as stack:
        servers = {name: stack.enter_context(RawServer(it)) for name, it in SERVERS.items()}
        asyncio.run(work(list(servers.values())))
        counts = {name: len(server.requests) for name, server in servers.items()}
    assert all(1 <= it <= MOST for it in counts.values()), counts


def test_lines_are_heard_with_the_token_of_now_and_a_silent_stream_is_left(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first")

    def serve(connection: Connection) -> None:
        with suppress(ConnectionError):
            connection.request()
            connection.send(CHUNKED + b"%x\r\n%s\r\n" % (len(LINE), LINE))
            # And then nothing more.
            token.write_text("second")
            connection.sees_end(within=SOON)

    heard: list[SourcesLine] = []

    async def work(server: RawServer) -> None:
        task = asyncio.create_task(following(server.url, heard, token))
        async with asyncio.timeout(SOON):
            while len(server.requests) < 2:  # noqa: ASYNC110 - a server in threads tells nobody
                await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.wait([task])

    with RawServer(serve) as server:
        asyncio.run(work(server))
        first, second = server.requests[:2]
    assert heard[0] == SourcesLine("n3", MAX_VALID)
    assert b"GET /sources?watch=true" in first
    assert b"Bearer first" in first
    assert b"Bearer second" in second
