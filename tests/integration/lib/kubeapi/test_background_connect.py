"""Setting up a connection has time of its own, beside the requests that want it."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from edge_sidecars.kubeapi import ApiClient, NotSent
from tests.integration.lib.kubeapi.sending import Tls, tls_server
from tools.harness.controlplane.fault_proxy.proxy import FaultProxy
from tools.harness.controlplane.settling import connections_closed
from tools.harness.pods.wire.raw_server import Connection, RawServer

Work = Callable[[ApiClient, FaultProxy], Awaitable[None]]


def answer_all(connection: Connection) -> None:
    while connection.request():
        connection.answer(b"{}")


def over_tls(folder: Path, work: Work, serve: Callable[[Connection], None]) -> RawServer:
    """`work` with a proxy in between; returns the server, to count its connections.

    The proxy stops last: with Python 3.13 a client does not wait until the server has closed too,
    and a proxy that stops before it has forwarded the client's end would reset the server.
    """
    server = tls_server(folder, serve)
    with FaultProxy(server.port) as proxy, server:

        async def run() -> None:
            api = ApiClient(Tls(proxy.url, folder / "ca.crt"), user_agent="test")
            try:
                await work(api, proxy)
            finally:
                await api.close()
                await connections_closed()

        asyncio.run(run())
    return server


async def ask(api: ApiClient, *, timeout: float, pooled: bool = False) -> None:
    await api.request("PUT", "/x", timeout=timeout, body={}, pooled=pooled)


def test_the_time_of_a_request_counts_from_when_it_has_its_connection(tmp_path: Path) -> None:
    """A handshake and an answer, each as late as one request may take."""

    async def work(api: ApiClient, proxy: FaultProxy) -> None:
        proxy.delay_response(2.0)
        await ask(api, timeout=3.0)

    assert len(over_tls(tmp_path, work, answer_all).requests) == 1


def test_a_set_up_that_outlasts_its_request_is_the_next_ones(tmp_path: Path) -> None:
    async def work(api: ApiClient, proxy: FaultProxy) -> None:
        proxy.black_hole()
        with pytest.raises(NotSent, match="no connection"):
            await ask(api, timeout=0.5)
        proxy.heal()  # what was held comes now
        await asyncio.sleep(1.0)
        await ask(api, timeout=5.0)

    server = over_tls(tmp_path, work, answer_all)
    assert (server.connections, len(server.requests)) == (1, 1)


def test_only_where_it_takes_long_a_connection_that_just_answered_is_used_again(
    tmp_path: Path,
) -> None:
    async def work(api: ApiClient, proxy: FaultProxy) -> None:
        for _ in range(2):
            await ask(api, timeout=5.0)
        proxy.delay_response(0.8)
        for _ in range(4):
            await ask(api, timeout=5.0)

    # Two quick ones, one that turns out to be slow, and one for the rest.
    assert over_tls(tmp_path, work, answer_all).connections == 4


def test_a_set_up_that_takes_long_puts_no_other_connection_out_of_use(tmp_path: Path) -> None:
    """As a second attempt beside a late renewal."""

    async def work(api: ApiClient, proxy: FaultProxy) -> None:
        await ask(api, timeout=5.0, pooled=True)
        proxy.delay_response(1.0)
        with pytest.raises(NotSent):
            await ask(api, timeout=0.3)
        await ask(api, timeout=5.0, pooled=True)

    assert over_tls(tmp_path, work, answer_all).connections == 2
