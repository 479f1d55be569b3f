"""`--pool-listen`: what is there for peers, and for whom."""

import http.client
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.strangers.targets import RELAY_OF_POOL, TOKEN, Running, listening, running
from tools.harness.controlplane.reservation import LOOPBACK

SERVICES = "/api/v1/services"


@pytest.fixture(scope="module")
def relay() -> Iterator[Running]:
    with running(listening(RELAY_OF_POOL, "pool")) as it:
        yield it


def status(it: Running, method: str, path: str, authorization: str = f"Bearer {TOKEN}") -> int:
    with closing(http.client.HTTPConnection(LOOPBACK, it.flooded, timeout=20)) as connection:
        headers = {"Authorization": authorization} if authorization else {}
        connection.request(method, path, headers=headers)
        with connection.getresponse() as answer:
            return answer.status


@pytest.mark.parametrize("authorization", ["", "Bearer ", f"Bearer {TOKEN}x", f"Basic {TOKEN}"])
def test_peers_show_the_token_of_the_pool(relay: Running, authorization: str) -> None:
    for path in (SERVICES, "/api/v1/secrets", "/version"):
        assert status(relay, "GET", path, authorization) == 401


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        # Upstream is away: there is no live stream of it.
        ("GET", SERVICES, 503),
        ("GET", "/api/v1/secrets", 503),
        ("GET", "/api/v1/namespaces/default/configmaps", 503),
        ("GET", "/version", 403),
        ("GET", "/api/v1/namespaces/default/pods/a/log", 403),
        ("POST", SERVICES, 403),
        ("DELETE", f"{SERVICES}/a", 403),
    ],
)
def test_peers_read_what_is_shared_and_nothing_else(
    relay: Running, method: str, path: str, expected: int
) -> None:
    assert status(relay, method, path) == expected
