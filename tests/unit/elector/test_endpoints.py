"""Who may be asked what: the listener that contrib's users have opened to the pod network."""

import asyncio

import pytest
from aiohttp.test_utils import make_mocked_request

from edge_sidecars.kubeapi import ApiClient, Plain
from elector_sidecar.config.config import load
from elector_sidecar.elector import Elector
from elector_sidecar.machine import SingleMachine
from elector_sidecar.main_container import MainContainer
from elector_sidecar.web.endpoints import ElectorEndpoints
from elector_sidecar.web.wait_limit import WaitLimit

CONFIG = load(["--lease", "x", "--namespace", "ns", "--server", "http://h"], {}, hostname="host")


@pytest.mark.parametrize(
    ("remote", "status"),
    [
        ("127.0.0.1", 409),  # not leader, so nothing to resign from
        ("127.8.9.10", 409),
        ("::1", 409),
        ("", 409),  # a unix socket
        ("10.1.2.3", 403),
        ("192.168.0.1", 403),
        ("fe80::1%eth0", 403),
        ("127.0.0.1.example.org", 403),
    ],
)
def test_resigning_over_contribs_listener_is_for_this_machine(remote: str, status: int) -> None:
    assert asyncio.run(answer("POST", "/resign", remote=remote)) == status


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "OPTIONS"])
@pytest.mark.parametrize("path", ["/shards", "/owns", "/shards/0/released"])
def test_contribs_listener_has_no_shards(method: str, path: str) -> None:
    """A client of shards must not take the leader's name for its document."""
    assert asyncio.run(answer(method, path)) == 404
    assert asyncio.run(answer(method, "/any/other")) == 200


async def answer(method: str, path: str, *, remote: str = "127.0.0.1") -> int:
    server = ApiClient(Plain("http://h"), user_agent="test")
    async with MainContainer() as main:
        machine = SingleMachine(CONFIG, server, identity="host_1")
        elector = Elector(CONFIG, main, machine)
        request = make_mocked_request(method, path).clone(remote=remote)
        response = await ElectorEndpoints(elector, WaitLimit(8)).handle_contrib(request)
        await server.close()
    return response.status
