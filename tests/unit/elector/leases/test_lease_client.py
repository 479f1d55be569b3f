"""What a Lease's client says of refusals to who asks."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any, cast

import pytest

from edge_sidecars.kubeapi.client import ApiClient
from edge_sidecars.kubeapi.errors import ApiError, Forbidden
from edge_sidecars.runtime.clock import boottime
from elector_sidecar.config.config import load
from elector_sidecar.core.lease_watch import WatchLease
from elector_sidecar.leases.lease_client import LeaseClient

LEASE = {"metadata": {"name": "x", "uid": "u", "resourceVersion": "7"}, "spec": {}}
EVENT = (
    b'{"type":"ADDED","object":{"metadata":{"name":"x","uid":"u","resourceVersion":"7"},"spec":{}}}'
)


class Server:
    """Answers a request of its client, by the verb: the record, or what was put here."""

    def __init__(self) -> None:
        self.refuses: set[str] = set()

    def _judge(self, verb: str) -> None:
        if verb in self.refuses:
            raise Forbidden(403, "Forbidden", f'User "u" cannot {verb} resource "leases"')

    async def request(self, method: str, path: str, **_: Any) -> object:
        self._judge({"GET": "get", "PUT": "update", "POST": "create"}[method])
        return LEASE

    async def lines(
        self, path: str, *, open_timeout: float, params: Mapping[str, str]
    ) -> AsyncIterator[bytes]:
        self._judge("watch")
        yield EVENT


def client(server: Server) -> LeaseClient:
    flags = ["--lease=x", "--namespace=n", "--server=http://127.0.0.1:1"]
    config = load(flags, {}, hostname="h")
    return LeaseClient(cast(ApiClient, server), config)


async def read(it: LeaseClient) -> None:
    await it.read()


async def watch(it: LeaseClient) -> None:
    await it.watch(WatchLease(1, None), lambda *_, **__: None)


@pytest.mark.parametrize("first", [read, watch])
def test_what_an_api_server_that_just_starts_refused_is_no_reason_once_it_allows_anything(
    first: Any,
) -> None:
    """Whichever is allowed first: the other may not be asked for again for a long time."""

    async def run() -> None:
        server = Server()
        it = client(server)
        server.refuses = {"get", "watch"}
        await read(it)
        await watch(it)
        assert "(403)" in it.refusal(boottime())
        server.refuses = set()
        await first(it)
        assert it.refusal(boottime()) == ""

    asyncio.run(run())


def test_a_verb_that_stays_forbidden_is_the_reason_while_others_are_allowed() -> None:
    async def run() -> None:
        server = Server()
        it = client(server)
        server.refuses = {"watch"}
        await read(it)
        await watch(it)
        await read(it)
        assert "forbids watch (403): needs Role" in it.refusal(boottime())

    asyncio.run(run())


def test_an_error_that_is_no_refusal_is_no_reason() -> None:
    class Failing(Server):
        async def request(self, method: str, path: str, **_: Any) -> object:
            raise ApiError(500, "InternalError", "x")

    it = client(Failing())
    asyncio.run(read(it))
    assert it.refusal(boottime()) == ""
