"""What a member asks of a peer, over real connections on this machine."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path

import pytest

from pool_sidecar.core.lan_state import LanState
from pool_sidecar.core.members import Peer, to_der
from pool_sidecar.core.pool_member import Link
from pool_sidecar.lan.certificate import Certificate, own_certificate
from pool_sidecar.lan.client import NoAnswer, PeerClient
from pool_sidecar.lan.http_head import BadHead, answer, read_head
from pool_sidecar.lan.tls import listener_context
from pool_sidecar.lan.tunnel import Stream

STATE = LanState("n2", "1", Link.OWN, True)


class Neighbour:
    """Answers `GET /state` when `may_answer` is set, and ends each CONNECT without a word."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while (head := await read_head(reader)) is not None and head.first[0] == "GET":
                self.asked.set()
                await self.may_answer.wait()
                writer.write(answer(HTTPStatus.OK, STATE.encode()))
        except (BadHead, OSError):
            pass
        finally:
            writer.transport.abort()


@pytest.fixture
def own(tmp_path: Path) -> Certificate:
    return own_certificate(tmp_path / "n1", "n1")


@pytest.fixture
def peers(tmp_path: Path) -> Certificate:
    return own_certificate(tmp_path / "n2", "n2")


@asynccontextmanager
async def dialled(
    neighbour: Neighbour, own: Certificate, peers: Certificate
) -> AsyncIterator[PeerClient]:
    context = listener_context(peers.certificate, peers.key, [to_der(own.certificate)])
    server = await asyncio.start_server(neighbour.serve, "127.0.0.1", 0, ssl=context)
    peer = Peer("n2", ("127.0.0.1",), (to_der(peers.certificate),))
    client = PeerClient(peer, server.sockets[0].getsockname()[1], own)
    try:
        yield client
    finally:
        client.close()
        server.close()


def test_a_tunnel_that_fails_says_nothing_of_a_round_that_is_under_way(
    own: Certificate, peers: Certificate
) -> None:
    async def run() -> None:
        neighbour = Neighbour()
        async with dialled(neighbour, own, peers) as client:
            assert await client.state() == STATE
            neighbour.may_answer.clear()
            neighbour.asked.clear()
            round_under_way = asyncio.create_task(client.state())
            await neighbour.asked.wait()
            with pytest.raises(NoAnswer):
                await client.tunnel()
            neighbour.may_answer.set()
            assert await round_under_way == STATE
            assert neighbour.connections == 2  # of the rounds, and of the tunnel

    asyncio.run(run())


def test_a_round_that_ends_as_its_handshake_completes_leaves_no_connection_behind(
    own: Certificate, peers: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a process wakes to a handshake and to its deadline at once: asyncio would go on to
    watch the descriptor, which by then is another connection's."""
    rounds: list[asyncio.Task[LanState]] = []
    completed = asyncio.StreamReaderProtocol.connection_made

    def complete(protocol: asyncio.StreamReaderProtocol, it: asyncio.BaseTransport) -> None:
        completed(protocol, it)
        # Of the client: the neighbour's own protocols have a callback.
        if rounds and protocol._client_connected_cb is None:  # type: ignore[attr-defined]
            rounds.pop().cancel()

    async def run() -> None:
        async with dialled(Neighbour(), own, peers) as client:
            monkeypatch.setattr(asyncio.StreamReaderProtocol, "connection_made", complete)
            under_way = asyncio.create_task(client.state())
            rounds.append(under_way)
            with pytest.raises(asyncio.CancelledError):
                await under_way
            assert await client.state() == STATE

    asyncio.run(run())


def test_a_connection_that_is_lost_before_it_is_used_is_an_oserror() -> None:
    async def run() -> None:
        server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        # As asyncio's TLS has it.
        writer.get_extra_info = lambda name, default=None: default  # type: ignore[method-assign]
        with pytest.raises(OSError, match="lost"):
            Stream(reader, writer)
        writer.transport.abort()
        server.close()

    asyncio.run(run())


def test_a_peer_that_leaves_while_it_is_asked_ends_that_round_and_nothing_else(
    own: Certificate, peers: Certificate
) -> None:
    """The directory closes its client; the round's task is cancelled some moments later."""

    async def run() -> None:
        neighbour = Neighbour()
        async with dialled(neighbour, own, peers) as client:
            assert await client.state() == STATE
            neighbour.may_answer.clear()
            neighbour.asked.clear()
            under_way = asyncio.create_task(client.state())
            await neighbour.asked.wait()
            client.close()
            await asyncio.wait({under_way})
            assert under_way.cancelled() or isinstance(under_way.exception(), NoAnswer)

    asyncio.run(run())
