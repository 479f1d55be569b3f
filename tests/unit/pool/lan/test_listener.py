"""What a member lets its peers have, over real connections on this machine."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pool_sidecar.core.budget import Budget, LendingLimits
from pool_sidecar.core.lan_state import LanState
from pool_sidecar.core.members import Directory, Peer, to_der
from pool_sidecar.core.pool_member import Link
from pool_sidecar.lan.certificate import Certificate, own_certificate
from pool_sidecar.lan.client import PeerClient, Refused
from pool_sidecar.lan.cloud_dial import receive_buffer
from pool_sidecar.lan.http_head import MAX_HEAD, BadHead, read_head
from pool_sidecar.lan.listener import (
    BACKLOG,
    HANDSHAKES,
    HANDSHAKES_AT_ONCE,
    MAX_OF_HOST,
    OTHERS,
    READERS,
    LanListener,
)
from pool_sidecar.lan.tls import client_context
from pool_sidecar.lan.tunnel import RECEIVE

LIMITS = LendingLimits()


class Lender:
    """Node n1, which knows n2."""

    def __init__(self, folder: Path) -> None:
        self.own = own_certificate(folder / "n1", "n1")
        self.others = own_certificate(folder / "n2", "n2")
        other = Peer("n2", ("127.0.0.1",), (to_der(self.others.certificate),))
        self.known = Directory("n1", "pool", peers={"n2": other})
        self.directory = self.known
        # What becomes true while the API server is dialled.
        self.meanwhile: Callable[[], None] = lambda: None
        self.is_lending = self.is_serving = True
        # What came to the API server, or the relay.
        self.asked = b""

    def state(self, now: float) -> bytes:
        return LanState("n1", "1", Link.OWN, True).encode()

    def lends(self, now: float) -> bool:
        asked, meanwhile = self.is_lending, self.meanwhile
        meanwhile()
        return asked

    def serves(self, now: float) -> bool:
        return self.is_serving

    def relay_token(self) -> str:
        return "of n1"

    def client(self, port: int, own: Certificate) -> PeerClient:
        return PeerClient(Peer("n1", ("127.0.0.1",), (to_der(self.own.certificate),)), port, own)


@pytest.fixture
def lender(tmp_path: Path) -> Lender:
    return Lender(tmp_path)


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def while_listening(
    lender: Lender,
    run: Callable[[LanListener, int], Awaitable[None]],
    *,
    limits: LendingLimits = LIMITS,
) -> None:
    async def in_loop() -> None:
        async def cloud(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            lender.asked += await reader.read(1000)
            writer.write(b"of the relay" if lender.asked.startswith(b"GET") else b"")
            await reader.read()
            writer.close()

        server = await asyncio.start_server(cloud, "127.0.0.1", 0)
        address = server.sockets[0].getsockname()
        listener = LanListener(lender, lender.own, limits, server=address, relay=address)
        listener.trust(lender.directory)
        port = free_port()
        listener.open(["127.0.0.1"], port)
        try:
            await run(listener, port)
        finally:
            await listener.close()
            server.close()

    asyncio.run(in_loop())


def test_a_peer_that_asks_for_a_tunnel_gets_one(lender: Lender) -> None:
    async def run(listener: LanListener, port: int) -> None:
        stream = await lender.client(port, lender.others).tunnel()
        assert listener.tunnels.names == {"n2"}
        stream.reset()

    while_listening(lender, run)


def test_a_tunnel_takes_no_more_at_once_than_the_budget_lets_pass_soon(
    lender: Lender, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = LendingLimits(rate=8192, connections=8)
    sizes: list[int] = []
    spend = Budget.spend

    def recorded(budget: Budget, borrower: str, size: int, now: float) -> float:
        if budget is lent[0]:
            sizes.append(size)
            if sum(sizes) >= 50_000:
                all_passed.set()
        return spend(budget, borrower, size, now)

    lent: list[Budget] = []
    all_passed = asyncio.Event()

    async def run(listener: LanListener, port: int) -> None:
        lent.append(listener.budget)
        stream = await lender.client(port, lender.others).tunnel()
        stream.writer.write(b"x" * 50_000)
        await all_passed.wait()
        stream.reset()

    monkeypatch.setattr(Budget, "spend", recorded)
    while_listening(lender, run, limits=limits)
    assert max(sizes) <= limits.piece


def test_of_a_sender_that_is_held_back_little_waits_in_the_kernel(lender: Lender) -> None:
    async def run(listener: LanListener, port: int) -> None:
        stream = await lender.client(port, lender.others).tunnel()
        sizes = [
            writer.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
            for writer in near_ends(listener)
        ]
        stream.reset()
        # Linux counts its own overhead, too, and doubles what was asked for.
        assert sizes == [2 * RECEIVE]

    while_listening(lender, run)


def near_ends(listener: LanListener) -> list[asyncio.StreamWriter]:
    return [it._ends[0].writer for it in listener.tunnels._open]


def test_who_leaves_the_directory_while_the_api_server_is_dialled_gets_no_tunnel(
    lender: Lender,
) -> None:
    def leave() -> None:
        lender.directory = replace(lender.known, peers={})

    async def run(listener: LanListener, port: int) -> None:
        with pytest.raises(Refused):
            await lender.client(port, lender.others).tunnel()
        assert listener.tunnels.names == set()

    lender.meanwhile = leave
    while_listening(lender, run)


def test_a_link_that_goes_while_the_api_server_is_dialled_is_not_lent(lender: Lender) -> None:
    def go() -> None:
        lender.is_lending = False

    async def run(listener: LanListener, port: int) -> None:
        with pytest.raises(Refused):
            await lender.client(port, lender.others).tunnel()
        assert listener.tunnels.names == set()

    lender.meanwhile = go
    while_listening(lender, run)


def test_strangers_from_many_addresses_take_no_place_from_a_member(lender: Lender) -> None:
    async def run(listener: LanListener, port: int) -> None:
        strangers = []
        for number in range(LIMITS.all_connections + OTHERS + MAX_OF_HOST):
            sock = socket.socket()
            strangers.append(sock)
            sock.bind((f"127.0.0.{2 + number // MAX_OF_HOST}", 0))
            sock.connect(("127.0.0.1", port))
            await asyncio.sleep(0)  # It is accepted.
        client = lender.client(port, lender.others)
        try:
            assert (await client.state()).node == "n1"
        finally:
            client.close()
            for sock in strangers:
                sock.close()

    while_listening(lender, run)


def test_strangers_get_so_many_handshakes_a_second_and_a_member_gets_its_own(
    lender: Lender, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One after the other, so that no limit of open connections is met."""
    now = 100.0
    monkeypatch.setattr("pool_sidecar.lan.listener.boottime", lambda: now)
    context = client_context(lender.others.certificate, lender.others.key, ())

    async def is_let_in(port: int) -> bool:
        """As far as a handshake, which fails: nobody is trusted by this client."""
        try:
            await asyncio.open_connection(
                "127.0.0.1", port, ssl=context, local_addr=("127.0.0.9", 0)
            )
        except ssl.SSLCertVerificationError:
            return True
        except OSError:
            return False
        raise AssertionError("a client that trusts nobody trusts the listener")

    async def run(listener: LanListener, port: int) -> None:
        nonlocal now
        assert all([await is_let_in(port) for _ in range(HANDSHAKES_AT_ONCE)])
        assert not any([await is_let_in(port) for _ in range(HANDSHAKES_AT_ONCE)])
        client = lender.client(port, lender.others)
        assert (await client.state()).node == "n1"
        client.close()
        now += 1.0
        let_in = [await is_let_in(port) for _ in range(2 * HANDSHAKES)]
        assert let_in == [True] * HANDSHAKES + [False] * HANDSHAKES

    while_listening(lender, run)


@pytest.mark.parametrize("how", ["silent", "no certificate"])
def test_pods_that_come_under_the_address_of_a_member_take_no_handshake_from_it(
    lender: Lender, how: str
) -> None:
    """40 connections a second, for longer than the burst of the address lasts."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

    async def pod(port: int) -> None:
        with contextlib.suppress(OSError):
            secured = None if how == "silent" else context
            _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=secured)
            try:
                await asyncio.sleep(5.0)
            finally:
                writer.transport.abort()

    async def pods(port: int) -> None:
        async with asyncio.TaskGroup() as group:
            while True:
                group.create_task(pod(port))
                await asyncio.sleep(1 / 40)

    async def run(listener: LanListener, port: int) -> None:
        client = lender.client(port, lender.others)
        assert (await client.state()).node == "n1"
        flood = asyncio.create_task(pods(port))
        await asyncio.sleep(3.0)
        tunnels = []
        for _ in range(12):
            tunnels.append(await client.tunnel())
            await asyncio.sleep(0.1)
        client.close()
        assert (await client.state()).node == "n1"
        for each in tunnels:
            each.reset()
        client.close()
        flood.cancel()
        await asyncio.wait([flood])

    while_listening(lender, run)


def test_a_flood_of_connections_leaves_turns_of_the_loop_to_everything_else(
    lender: Lender, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns: list[int] = [0]
    seen: list[int] = []
    all_seen = asyncio.Event()

    def tick() -> None:
        turns[0] += 1
        asyncio.get_running_loop().call_soon(tick)

    def refuse(listener: LanListener, host: str, *, is_stranger: bool) -> None:
        seen.append(turns[0])
        if len(seen) == BACKLOG:
            all_seen.set()

    async def run(listener: LanListener, port: int) -> None:
        strangers = [socket.create_connection(("127.0.0.1", port)) for _ in range(BACKLOG)]
        tick()
        await all_seen.wait()
        for sock in strangers:
            sock.close()

    monkeypatch.setattr(LanListener, "_context_of", refuse)
    while_listening(lender, run)
    assert len(set(seen)) == BACKLOG


READ = b"GET /api/v1/services HTTP/1.1\r\nHost: relay\r\nAuthorization: Bearer of-n2\r\n\r\n"


def test_a_peer_reads_the_relay_by_one_get_with_the_token_of_this_node(lender: Lender) -> None:
    async def run(listener: LanListener, port: int) -> None:
        stream = await lender.client(port, lender.others).tunnel("relay")
        stream.writer.write(READ)
        assert await stream.reader.read(100) == b"of the relay"
        assert lender.asked.startswith(b"GET /api/v1/services HTTP/1.1\r\n")
        assert b"Authorization: Bearer of n1\r\n" in lender.asked
        assert b"of-n2" not in lender.asked
        assert listener.readers.names == {"n2"}
        assert listener.tunnels.names == set(), "the link is not lent for it"
        stream.reset()

    while_listening(lender, run)


def test_a_relay_without_a_live_stream_is_not_read(lender: Lender) -> None:
    async def run(listener: LanListener, port: int) -> None:
        lender.is_serving = False
        with pytest.raises(Refused, match="503"):
            await lender.client(port, lender.others).tunnel("relay")

    while_listening(lender, run)


def test_a_write_never_comes_to_the_relay(lender: Lender) -> None:
    async def run(listener: LanListener, port: int) -> None:
        stream = await lender.client(port, lender.others).tunnel("relay")
        stream.writer.write(READ.replace(b"GET", b"PUT", 1))
        assert (await stream.reader.read(100)).startswith(b"HTTP/1.1 403 ")
        assert lender.asked == b""
        stream.reset()

    while_listening(lender, run)


def test_a_peer_that_leaves_the_directory_reads_no_further(lender: Lender) -> None:
    async def run(listener: LanListener, port: int) -> None:
        stream = await lender.client(port, lender.others).tunnel("relay")
        stream.writer.write(READ)
        assert await stream.reader.read(100) == b"of the relay"
        lender.directory = Directory("n1", "pool")
        listener.trust(lender.directory)
        with contextlib.suppress(OSError):
            assert await stream.reader.read(100) == b""

    while_listening(lender, run)


def test_one_peer_holds_no_more_reads_than_there_may_be(lender: Lender) -> None:
    async def run(listener: LanListener, port: int) -> None:
        client = lender.client(port, lender.others)
        streams = [await client.tunnel("relay") for _ in range(READERS.connections)]
        with pytest.raises(Refused, match="429"):
            await client.tunnel("relay")
        for stream in streams:
            stream.reset()

    while_listening(lender, run)


def test_what_is_taken_from_the_api_server_is_held_to_the_rate_from_the_first_window_on(
    lender: Lender,
) -> None:
    limits = LendingLimits(rate=16 * 1024, burst=64 * 1024, connections=16, all_connections=16)
    count, seconds = 8, 2.0
    sent, pouring, ended = 0, set[asyncio.StreamWriter](), asyncio.Event()

    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        pouring.add(writer)
        # So that what is written is what the lender's kernel has taken, but for some kilobytes.
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        writer.transport.set_write_buffer_limits(0)
        with contextlib.suppress(OSError):
            while True:
                writer.write(bytes(4096))
                await writer.drain()
                sent += 4096
        pouring.discard(writer)
        if not pouring:
            ended.set()

    async def run() -> None:
        server = await asyncio.start_server(pour, "127.0.0.1", 0)
        address = server.sockets[0].getsockname()
        listener = LanListener(lender, lender.own, limits, server=address, relay=address)
        listener.trust(lender.directory)
        port = free_port()
        listener.open(["127.0.0.1"], port)
        clients = [lender.client(port, lender.others) for _ in range(count)]
        streams = [await it.tunnel() for it in clients]
        await asyncio.sleep(seconds)
        for it in streams:
            it.reset()
        await listener.close()
        server.close()
        async with asyncio.timeout(5):
            await ended.wait()

    asyncio.run(run())
    # The kernel counts its own overhead twice (tcp(7)), and the sender has some kilobytes.
    ahead = 4 * receive_buffer(limits.rate)
    assert sent <= limits.burst + seconds * limits.rate + count * ahead


@pytest.mark.parametrize("end", ["\n", "\r", "\x00", "\x7f"])
def test_a_target_with_a_control_character_is_no_request(end: str) -> None:
    async def run() -> None:
        reader = asyncio.StreamReader(limit=MAX_HEAD)
        reader.feed_data(f"CONNECT cloud:443{end}GET / HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        with pytest.raises(BadHead, match="control"):
            await read_head(reader)

    asyncio.run(run())
