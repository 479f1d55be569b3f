"""Who may be asked what: the listener that contrib's users have opened to the pod network."""

import asyncio

import pytest
from aiohttp.test_utils import make_mocked_request

from edge_sidecars.kubeapi import ApiClient, Plain
from elector_sidecar.config.config import load
from elector_sidecar.elector import Elector
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
    async def answer() -> int:
        server = ApiClient(Plain("http://h"), user_agent="test")
        async with MainContainer() as main:
            answers = ElectorEndpoints(
                Elector(CONFIG, server, main, identity="host_1"), WaitLimit(8)
            )
            request = make_mocked_request("POST", "/resign").clone(remote=remote)
            response = await answers.handle_contrib(request)
            await server.close()
        return response.status

    assert asyncio.run(answer()) == status
