"""The proxy on loopback, over real connections on this machine; the lender is made up."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import pytest

from edge_sidecars.kubeapi.credentials import WatchedFiles
from edge_sidecars.runtime.cli.values import Address
from pool_sidecar.core.members import Peer
from pool_sidecar.lan.client import PeerClient, Refused
from pool_sidecar.lan.local_proxy import MAX_UNPROVEN, RETIRE_AFTER, LocalProxy
from pool_sidecar.lan.tunnel import Stream

TOKEN = "of the relay"
LIMIT = 2


class Lender(PeerClient):
    """Lends `LIMIT` connections, which lead to one that repeats what it reads."""

    def __init__(self) -> None:
        self.peer = Peer("n3")
        self.open = 0
        self.port = 0
        self.is_present = True
        self.asked = asyncio.Event()

    async def repeat(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while piece := await reader.read(100):
                writer.write(piece)
        except OSError:
            pass  # It was reset.
        finally:
            self.open -= 1
            writer.transport.abort()

    async def tunnel(self, target: str = "cloud:443") -> Stream:
        self.asked.set()
        await asyncio.sleep(0.02)  # Of a round trip; what was reset before is over.
        if self.open >= LIMIT:
            raise Refused("429")
        self.open += 1
        return Stream(*await asyncio.open_connection("127.0.0.1", self.port))


class Site:
    def __init__(self, lender: Lender, relay_port: int) -> None:
        self.lender = lender
        self.failed: list[str] = []
        self.clients: list[Client] = []
        self.proxy = LocalProxy(
            WatchedFiles((), lambda: TOKEN),
            {("api", "443"), ("10.96.0.1", "443")},
            lender=lambda: lender if lender.is_present else None,
            failed=self.failed.append,
            peer=lambda name: lender if name == lender.peer.name else None,
            node="own",
            relay=("127.0.0.1", relay_port),
        )

    async def connect(self, token: str, target: str = "api:443") -> "Client":
        assert self.proxy.bound is not None
        client = Client(*await asyncio.open_connection("127.0.0.1", self.proxy.bound.port))
        self.clients.append(client)
        client.writer.write(
            f"CONNECT {target} HTTP/1.1\r\nProxy-Authorization: Bearer {token}\r\n\r\n".encode()
        )
        head = await client.reader.readuntil(b"\r\n\r\n")
        client.status = head.split()[1].decode()
        return client


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.status = ""

    async def is_open(self) -> bool:
        try:
            self.writer.write(b"x")
            return await self.reader.read(1) == b"x"
        except OSError:
            return False


def on_site(run: Callable[[Site], Awaitable[None]], *, relay_port: int | None = None) -> None:
    async def in_loop() -> None:
        lender = Lender()
        server = await asyncio.start_server(lender.repeat, "127.0.0.1", 0)
        lender.port = server.sockets[0].getsockname()[1]
        site = Site(lender, relay_port or lender.port)
        await site.proxy.open(Address("127.0.0.1", 0))
        try:
            await run(site)
        finally:
            for client in site.clients:
                client.writer.transport.abort()
            site.proxy.close()
            server.close()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            if others:
                await asyncio.wait(others, timeout=5.0)

    asyncio.run(in_loop())


def test_processes_without_the_token_take_no_place_from_those_with_it() -> None:
    async def run(site: Site) -> None:
        assert site.proxy.bound is not None
        port = site.proxy.bound.port
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(MAX_UNPROVEN + 1)]
        with_token = await site.connect(TOKEN)
        assert with_token.status == "200"
        assert await with_token.is_open()
        first, last = silent[0][0], silent[-1][0]
        assert await first.read() == b""
        assert not last.at_eof()
        for _, writer in silent:
            writer.transport.abort()
        assert await with_token.is_open()

    on_site(run)


def test_a_lender_that_gives_no_more_keeps_what_it_gave() -> None:
    async def run(site: Site) -> None:
        given = [await site.connect(TOKEN) for _ in range(LIMIT)]
        refused = await site.connect(TOKEN)
        assert (refused.status, site.failed) == ("429", [])
        assert b"n3 lends no more" in await refused.reader.read()
        for each in given:
            assert await each.is_open()

    on_site(run)


def test_for_the_heartbeat_the_newest_of_the_others_makes_room() -> None:
    async def run(site: Site) -> None:
        given = [await site.connect(TOKEN) for _ in range(LIMIT)]
        own = await site.connect(site.proxy.own_token)
        assert (own.status, site.failed) == ("200", [])
        assert [await each.is_open() for each in (*given, own)] == [True, False, True]

    on_site(run)


def test_one_heartbeat_does_not_make_room_for_another_one() -> None:
    async def run(site: Site) -> None:
        own = [await site.connect(site.proxy.own_token) for _ in range(LIMIT + 1)]
        assert [it.status for it in own] == ["200", "200", "429"]

    on_site(run)


def test_a_lender_that_is_the_one_no_more_while_it_is_asked_lends_nothing() -> None:
    async def run(site: Site) -> None:
        asking = asyncio.create_task(site.connect(TOKEN))
        await site.lender.asked.wait()
        site.lender.is_present = False
        assert (await asking).status == "503"

    on_site(run)


def test_a_pod_s_name_of_the_api_server_leads_there_too_and_no_other_one_anywhere() -> None:
    async def run(site: Site) -> None:
        assert (await site.connect(TOKEN, "10.96.0.1:443")).status == "200"
        for strange in ("10.96.0.1:22", "example.com:443", "api"):
            assert (await site.connect(TOKEN, strange)).status == "403"

    on_site(run)


def test_a_stranger_gets_no_connection() -> None:
    async def run(site: Site) -> None:
        assert (await site.connect("none of ours")).status == "407"

    on_site(run)


@pytest.mark.slow
def test_when_the_own_link_is_back_what_is_under_way_ends_in_order_before_it_is_ended() -> None:
    async def run(site: Site) -> None:
        given = await site.connect(TOKEN)
        site.proxy.retire()
        # The own link went again meanwhile: the lender is the one of now.
        await asyncio.sleep(RETIRE_AFTER + 0.5)
        assert await given.is_open()
        site.lender.is_present = False
        site.proxy.retire()
        assert await given.is_open()
        await asyncio.wait_for(_end(given), 2 * RETIRE_AFTER)

    on_site(run)


async def _end(client: Client) -> None:
    try:
        await client.reader.read()
    except ConnectionResetError:
        return


async def read(site: Site, token: str, path: str, method: str = "GET") -> bytes:
    """What comes back: what the peer repeats, or a refusal."""
    assert site.proxy.bound is not None
    reader, writer = await asyncio.open_connection("127.0.0.1", site.proxy.bound.port)
    writer.write(f"{method} {path} HTTP/1.1\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
    try:
        return await reader.read(1000)
    finally:
        writer.close()


def test_a_process_with_the_token_reads_the_relay_of_a_peer() -> None:
    async def run(site: Site) -> None:
        told = await read(site, TOKEN, "/relay/n3/api/v1/services?watch=true")
        assert told.startswith(b"GET /api/v1/services?watch=true HTTP/1.1\r\n")
        assert TOKEN.encode() not in told, "it is of this node"

    on_site(run)


def test_a_process_with_the_token_reads_the_relay_of_its_own_node_with_the_token_that_asks() -> (
    None
):
    async def run(site: Site) -> None:
        told = await read(site, TOKEN, "/relay/own/api/v1/services?watch=true")
        assert told.startswith(b"GET /api/v1/services?watch=true HTTP/1.1\r\n")
        assert f"Authorization: Bearer {TOKEN}".encode() in told
        assert not site.lender.asked.is_set(), "it goes over no peer"
        assert b" 401 " in await read(site, "guessed", "/relay/own/api")

    on_site(run)


def test_without_a_relay_that_peers_read_its_own_node_gets_a_refusal() -> None:
    async def run(site: Site) -> None:
        assert b" 503 " in await read(site, TOKEN, "/relay/own/api")

    # tcpmux: nobody listens there.
    on_site(run, relay_port=1)


def test_nobody_reads_a_relay_without_the_token_or_of_who_is_no_member() -> None:
    async def run(site: Site) -> None:
        assert b" 401 " in await read(site, "guessed", "/relay/n3/api")
        assert b" 503 " in await read(site, TOKEN, "/relay/n9/api")
        assert b" 403 " in await read(site, TOKEN, "/relay/n3")
        assert b" 407 " in await read(site, TOKEN, "/relay/n3/api", method="PUT")
        assert not site.lender.asked.is_set()

    on_site(run)


def test_reads_go_on_when_the_link_changes_and_end_with_the_membership() -> None:
    async def run(site: Site) -> None:
        assert site.proxy.bound is not None
        reader, writer = await asyncio.open_connection("127.0.0.1", site.proxy.bound.port)
        head = f"GET /relay/n3/api HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
        writer.write(head.encode())
        assert (await reader.read(1000)).startswith(b"GET /api ")
        site.proxy.reset_all()
        writer.write(b"x")
        assert await reader.read(1) == b"x"
        site.proxy.keep_readers(lambda name: False)
        with contextlib.suppress(OSError):
            assert await reader.read(1) == b""

    on_site(run)
