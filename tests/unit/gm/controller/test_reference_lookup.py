"""When a reference counts as missing: after a while, and when the API server says so itself."""

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest

from edge_sidecars.kubeapi import ApiClient, ApiError
from edge_sidecars.kubeapi.credentials import Plain
from edge_sidecars.runtime.clock import boottime
from edge_sidecars.sedna_api.core.api_object import Document, Json, ObjectKey
from gm.cache.informers import Informers
from gm.controller.reference_lookup import PATIENCE, MissedReferences, ReferenceLookup
from gm.controller.secret_lookup import SecretLookup
from tests.unit.gm.controller.samples import NAMESPACE, video
from tests.unit.gm.documents import document
from tools.harness.pods.wire.raw_server import Connection, RawServer

MODEL = ObjectKey("model", NAMESPACE, "base")
NODE = ObjectKey("node", "", "edge-a")
PATHS = {
    MODEL: f"/apis/sedna.io/v1alpha1/namespaces/{NAMESPACE}/models/base",
    NODE: "/api/v1/nodes/edge-a",
}


class Api:
    """Answers each path with what is in `there`, else with `status`."""

    def __init__(self) -> None:
        self.there: dict[str, Json] = {}
        self.status = 404

    def serve(self, connection: Connection) -> None:
        while asked := connection.request():
            found = self.there.get(asked.split()[1].decode())
            body = found or {"kind": "Status", "code": self.status, "message": "none"}
            status = "200 OK" if found else f"{self.status} None"
            connection.answer(json.dumps(body).encode(), status=status)


class World:
    """A job whose Model and Node no stream has shown yet."""

    def __init__(self, api: Api, server: RawServer, client: ApiClient) -> None:
        self.api, self._server = api, server
        self.informers = Informers(lambda: True)
        for collection in self.informers.collections.values():
            collection.sources[""].replaced([], 5)
        secrets = SecretLookup(client, timeout=5, is_named=bool, changed=lambda _: None)
        self._lookup = ReferenceLookup(client, self.informers, secrets, timeout=5)
        self.missed = MissedReferences()
        self.job: Document = document("videoanalyticsjob", "va1", spec=video()["spec"])

    @property
    def asked(self) -> list[str]:
        return [it.split()[1].decode() for it in self._server.requests]

    async def find(self) -> dict[ObjectKey, Json | None]:
        return dict(await self._lookup.find(self.job, self.job.json(), self.missed))

    def awaited(self) -> set[ObjectKey]:
        return set(self.missed.awaited(boottime()))

    async def lose_patience(self) -> dict[ObjectKey, Json | None]:
        assert await self.find() == {MODEL: None, NODE: None}
        assert self.awaited() == {MODEL, NODE}
        assert self.asked == []
        self.missed.since = {key: at - PATIENCE for key, at in self.missed.since.items()}
        return await self.find()


def playing(play: Callable[[World], Awaitable[None]]) -> None:
    async def run(api: Api, server: RawServer) -> None:
        client = ApiClient(Plain(server.url), user_agent="test")
        try:
            await play(World(api, server, client))
        finally:
            await client.close()

    api = Api()
    with RawServer(api.serve) as server:
        asyncio.run(run(api, server))


@pytest.mark.parametrize("status", [404, 403])
def test_what_the_api_server_does_not_have_is_missing_and_asked_for_once(status: int) -> None:
    async def play(world: World) -> None:
        world.api.status = status
        assert await world.lose_patience() == {MODEL: None, NODE: None}
        assert world.awaited() == set()
        await world.find()
        assert sorted(world.asked) == sorted(PATHS.values())

    playing(play)


def test_what_a_stream_has_not_shown_yet_is_used_as_the_api_server_has_it() -> None:
    async def play(world: World) -> None:
        late = {"name": "base", "namespace": NAMESPACE, "uid": "u", "resourceVersion": "9"}
        world.api.there[PATHS[MODEL]] = {"metadata": late, "spec": {"url": "/m"}}
        found = await world.lose_patience()
        model, node = found[MODEL], found[NODE]
        assert model is not None
        assert model["spec"] == {"url": "/m"}
        assert node is None
        assert world.awaited() == set()
        assert world.informers.get(MODEL) is not None

    playing(play)


def test_an_api_server_that_cannot_say_is_no_answer() -> None:
    async def play(world: World) -> None:
        world.api.status = 503
        with pytest.raises(ApiError):
            await world.lose_patience()
        assert world.awaited() == {MODEL, NODE}
        world.api.status = 404
        await world.find()
        assert world.awaited() == set()

    playing(play)


def test_patience_begins_anew_for_what_was_there_meanwhile_or_is_named_anew() -> None:
    async def play(world: World) -> None:
        await world.lose_patience()
        models = world.informers.collections["model"].sources[""]
        models.changed(document("model", "base", version=6, spec={"url": "/m"}))
        await world.find()
        models.deleted(document("model", "base", version=7, spec={"url": "/m"}))
        await world.find()
        assert world.awaited() == {MODEL}

    playing(play)
