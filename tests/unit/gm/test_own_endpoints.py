"""Who may drain a GM."""

import asyncio
from typing import cast

import pytest
from aiohttp.test_utils import make_mocked_request

from gm.web.own_endpoints import Gm, GmEndpoints


class _Gm:
    drains = 0

    async def drained(self) -> None:
        self.drains += 1


@pytest.mark.parametrize(
    ("remote", "status"),
    [
        ("127.0.0.1", 200),
        ("::1", 200),
        ("10.244.0.7", 403),
        ("fe80::1%eth0", 403),
        ("", 403),
    ],
)
def test_a_gm_is_drained_from_its_own_pod_alone(remote: str, status: int) -> None:
    gm = _Gm()
    request = make_mocked_request("POST", "/drain").clone(remote=remote)
    answer = asyncio.run(GmEndpoints(cast(Gm, gm)).handle(request))
    assert (answer.status, gm.drains) == (status, status == 200)
