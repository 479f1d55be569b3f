"""The documents of a real API server, kept: complete, true, and cheap to keep up to date."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edge_sidecars.apimachinery.discovery import AGGREGATED
from relay_sidecar.journal.journal import Journal
from relay_sidecar.journal.records import Saved
from relay_sidecar.upstream.documents.documents import JSON, SPACE, CachedDocument, DocumentCache
from relay_sidecar.upstream.documents.upkeep import ACCEPT, FetchedDocument, prefetch
from tests.integration.relay.documents.asked import Asked, with_upstream
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.schemas.sedna_kinds import install
from tools.harness.relay_objects import Contents, Widgets

PLAIN = {"Accept": JSON}


def read(document: CachedDocument | None) -> Any:
    assert document is not None
    return json.loads(document.body())


def comparable(document: Any) -> Any:
    """Without what the aggregated form does not tell, and in an order of its own."""
    for resource in document.get("resources", ()):
        resource.pop("storageVersionHash", None)
    for key in ("resources", "groups"):
        if key in document:
            document[key].sort(key=lambda one: one["name"])
    return document


async def said(asked: Asked) -> dict[str, Any]:
    """What the API server itself says now, by the path."""

    async def say(path: str) -> Any:
        return json.loads((await asked.fetch(path, PLAIN)).body)

    groups = (await say("/apis"))["groups"]
    lists = [f"/apis/{one['groupVersion']}" for group in groups for one in group["versions"]]
    whole = ("/api", "/apis", "/api/v1", "/version", "/openapi/v3")
    return {
        path: await say(path)
        for path in (*whole, *(f"/apis/{one['name']}" for one in groups), *lists)
    }


def test_every_list_of_discovery_is_what_upstream_says_though_it_was_not_asked(
    control_plane: ControlPlane,
) -> None:
    # Custom resources beside the built-in ones.
    install(control_plane)

    async def run(asked: Asked, journal: Journal, saved: Saved) -> None:
        truth, before = await said(asked), None
        # The API server publishes the kinds of this test and of those before it bit by bit.
        while truth != before:
            asked.forget()
            documents = DocumentCache(journal, {})
            await prefetch(documents, asked)
            paths = [path for path, _ in asked.asked]
            assert sorted(paths) == ["/api", "/api", "/apis", "/openapi/v3", "/version"]
            truth, before = await said(asked), truth
        assert len(truth) > 40
        for path, document in truth.items():
            assert comparable(read(documents.recall(path, JSON))) == comparable(document), path
        for path in ("/api", "/apis"):
            for accept in (*AGGREGATED[:1], ACCEPT):
                upstream = await asked.fetch(path, {"Accept": accept})
                document = documents.recall(path, accept)
                assert document is not None
                assert document.body() == upstream.body
                assert document.content_type == upstream.headers["Content-Type"]
                assert document.etag == upstream.headers["ETag"]

    with_upstream(control_plane, None, run)


def test_asking_again_costs_next_to_nothing_also_after_a_restart(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    wanted = ["v1", "apps/v1"]

    async def first(asked: Asked, journal: Journal, saved: Saved) -> None:
        await prefetch(DocumentCache(journal, {}), asked, wanted)
        assert asked.received > 100_000
        assert {status for _, status in asked.asked} == {200}

    async def again(asked: Asked, journal: Journal, saved: Saved) -> None:
        documents = DocumentCache(journal, saved.kept[SPACE])
        before = read(documents.recall("/openapi/v3/apis/apps/v1", JSON))
        quiet = 0
        while quiet < 2:
            asked.forget()
            known = groups(documents)
            await prefetch(documents, asked, wanted)
            # Kinds of tests before this one come and go bit by bit.
            is_same = known == groups(documents)
            assert dict(asked.asked) == {
                "/version": 200,
                "/api": 304,
                "/apis": 304 if is_same else 200,
                "/openapi/v3/api/v1": 304,
                "/openapi/v3/apis/apps/v1": 304,
            }
            assert asked.received < 1000 or not is_same
            quiet += is_same
        assert read(documents.recall("/openapi/v3/apis/apps/v1", JSON)) == before

    with_upstream(control_plane, tmp_path, first)
    with_upstream(control_plane, tmp_path, again)


def groups(documents: DocumentCache) -> bytes:
    found = documents.recall("/apis", ACCEPT)
    assert found is not None
    return found.body()


class Old(Asked):
    """An API server that does not aggregate its discovery, as before Kubernetes 1.27."""

    async def fetch(self, path: str, headers: Mapping[str, str]) -> FetchedDocument:
        return await super().fetch(path, {**headers, "Accept": JSON})


def test_of_a_server_that_does_not_aggregate_each_list_is_asked_for_once(
    control_plane: ControlPlane,
) -> None:
    async def run(asked: Asked, journal: Journal, saved: Saved) -> None:
        documents, old = DocumentCache(journal, {}), Old(asked.transport)
        await prefetch(documents, old)
        groups = read(documents.recall("/apis", JSON))["groups"]
        lists = [f"/apis/{one['groupVersion']}" for group in groups for one in group["versions"]]
        paths = ["/api", "/api", "/apis", "/api/v1", "/openapi/v3", "/version", *lists]
        assert sorted(path for path, _ in old.asked) == sorted(paths)
        for path in lists:
            truth = await old.fetch(path, {})
            document = documents.recall(path, ACCEPT)
            assert document is not None
            assert document.body() == truth.body
        old.forget()
        await prefetch(documents, old)
        assert sorted(path for path, _ in old.asked) == ["/api", "/apis", "/version"]

    with_upstream(control_plane, None, run)


class Stranger(Asked):
    """Somebody whom the API server lets see its version only (`system:public-info-viewer`)."""

    async def fetch(self, path: str, headers: Mapping[str, str]) -> FetchedDocument:
        return await super().fetch(path, {**headers, "Impersonate-User": "system:anonymous"})


def test_what_upstream_refuses_is_not_taken_for_an_answer(
    control_plane: ControlPlane,
) -> None:
    async def run(asked: Asked, journal: Journal, saved: Saved) -> None:
        documents = DocumentCache(journal, {})
        await prefetch(documents, Stranger(asked.transport))
        assert documents.recall("/apis", ACCEPT) is None
        assert [record.key for record in documents.records()] == [b"/version application/json"]

    with_upstream(control_plane, None, run)


def test_a_new_resource_is_known_after_the_next_asking(
    control_plane: ControlPlane, contents: Contents
) -> None:
    async def run(asked: Asked, journal: Journal, saved: Saved) -> None:
        documents = DocumentCache(journal, {})
        await prefetch(documents, asked)
        widgets = await asyncio.to_thread(Widgets, control_plane)
        path = f"/apis/{widgets.group}/v1"
        while documents.recall(path, JSON) is None:
            await asyncio.sleep(0.1)
            await prefetch(documents, asked)
        names = {one["name"] for one in read(documents.recall(path, JSON))["resources"]}
        assert names == {"widgets", "widgets/status"}
        await asyncio.to_thread(widgets.delete)
        while documents.recall(path, JSON) is not None:
            await asyncio.sleep(0.1)
            await prefetch(documents, asked)

    with_upstream(control_plane, None, run)
