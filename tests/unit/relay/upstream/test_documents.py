"""What is remembered of upstream's documents, and which of it a client gets."""

import asyncio
import gzip
import json
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import pytest

from edge_sidecars.apimachinery.resources import ResourceName
from relay_sidecar.journal.journal import Journal
from relay_sidecar.journal.records import Saved
from relay_sidecar.upstream.documents.documents import (
    MAX_VERSIONS,
    SPACE,
    CachedDocument,
    DocumentCache,
)
from tests.unit.relay.journal.journal_history import play

V2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
V2BETA1 = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
# kubectl 1.30 and later.
KUBECTL = f"{V2},{V2BETA1},application/json"
# client-go with protobuf, as CoreDNS and kubelet are set up.
PROTOBUF_FIRST = "application/vnd.kubernetes.protobuf,application/json"
OPENAPI_V3 = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf"
OPENAPI_V3_ANSWER = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"
GROUPS = {"kind": "APIGroupList", "apiVersion": "v1", "groups": []}
AGGREGATED = {
    "kind": "APIGroupDiscoveryList",
    "apiVersion": "apidiscovery.k8s.io/v2",
    "items": [
        {
            "metadata": {"name": "example.com"},
            "versions": [
                {
                    "version": "v2",
                    "freshness": "Current",
                    "resources": [
                        {
                            "resource": "things",
                            "responseKind": {"group": "", "version": "", "kind": "Thing"},
                            "scope": "Namespaced",
                            "singularResource": "thing",
                            "verbs": ["get", "list"],
                        }
                    ],
                },
                {"version": "v1", "freshness": "Stale"},
            ],
        }
    ],
}


def dumped(document: object) -> bytes:
    return json.dumps(document).encode()


def with_documents(
    directory: Path | None, what: Callable[[DocumentCache], Awaitable[None]]
) -> None:
    """From a start of the relay to its end."""

    async def run(journal: Journal, saved: Saved) -> None:
        await what(DocumentCache(journal, saved.kept.get(SPACE, {})))

    play(directory, run)


def answer(content_type: str, etag: str | None = None, **more: str) -> Mapping[str, str]:
    headers = {"Content-Type": content_type, **more}
    return headers if etag is None else headers | {"Etag": f'"{etag}"'}


def body_of(document: CachedDocument | None) -> object:
    assert document is not None
    return json.loads(document.body())


@pytest.mark.parametrize(
    "path",
    [
        "/version",
        "/version/",
        "/api",
        "/api/",
        "/apis",
        "/api/v1",
        "/apis/apps",
        "/apis/apps/v1",
        "/apis/apps/v1/",
        "/openapi/v2",
        "/openapi/v3",
        "/openapi/v3/api/v1",
        "/openapi/v3/apis/apps/v1?hash=ABC",
        "/openapi/v3/.well-known/openid-configuration",
    ],
)
def test_discovery_openapi_and_version_are_kept(path: str) -> None:
    assert DocumentCache.is_kept(path)


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "",
        "/healthz",
        "/metrics",
        "/apiserver",
        "/api/v1/pods",
        "/api/v1/namespaces/x/pods",
        "/apis/apps/v1/deployments",
        "/openapi",
        "/openapi/v2/more",
        "/version/openshift",
        "/logs",
    ],
)
def test_nothing_else_is_kept(path: str) -> None:
    assert not DocumentCache.is_kept(path)


def test_what_upstream_said_is_there_after_a_restart(tmp_path: Path) -> None:
    async def before(documents: DocumentCache) -> None:
        assert await documents.remember("/version", 200, answer("application/json"), b'{"a":1}')
        openapi = gzip.compress(b'{"openapi":"3.0.0"}')
        headers = answer("application/json", "E1", **{"Content-Encoding": "gzip"})
        assert await documents.remember("/openapi/v3/api/v1?hash=E1", 200, headers, openapi)

    async def after(documents: DocumentCache) -> None:
        assert body_of(documents.recall("/version", "")) == {"a": 1}
        document = documents.recall("/openapi/v3/api/v1?hash=OTHER", "application/json")
        assert body_of(document) == {"openapi": "3.0.0"}
        assert document is not None
        assert (document.etag, document.content_type) == ('"E1"', "application/json")
        assert documents.recall("/apis", KUBECTL) is None

    with_documents(tmp_path, before)
    with_documents(tmp_path, after)


@pytest.mark.parametrize(
    ("status", "content_type", "body"),
    [
        (200, "text/html", b"<html>Please log in</html>"),
        (200, "application/json", b"<html>Please log in</html>"),
        (200, "application/json", b'{"kind":"APIGroupList","gro'),
        (200, "application/json", b""),
        (200, "", b"{}"),
        (404, "application/json", b'{"kind":"Status"}'),
        (503, "application/json", b'{"kind":"Status"}'),
        (304, "application/json", b""),
        (206, "application/json", b"{}"),
    ],
)
def test_what_is_no_document_does_not_take_the_place_of_one(
    status: int, content_type: str, body: bytes
) -> None:
    async def run(documents: DocumentCache) -> None:
        await documents.remember("/apis", 200, answer("application/json"), dumped(GROUPS))
        assert not await documents.remember("/apis", status, answer(content_type), body)
        assert body_of(documents.recall("/apis", "application/json")) == GROUPS

    with_documents(None, run)


@pytest.mark.parametrize("coding", ["br", "gzip"])
def test_a_body_that_cannot_be_unpacked_is_not_remembered(coding: str) -> None:
    async def run(documents: DocumentCache) -> None:
        headers = answer("application/json", **{"Content-Encoding": coding})
        assert not await documents.remember("/version", 200, headers, b"{}")
        assert documents.recall("/version", "") is None

    with_documents(None, run)


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        (KUBECTL, V2),
        (V2, V2),
        ("application/json", "application/json"),
        ("", "application/json"),
        ("*/*", "application/json"),
        ("application/*", "application/json"),
        (f"application/json,{V2}", "application/json"),
        (f"application/json;q=0.5,{V2};q=0.4", "application/json"),
        (f"application/json;q=0.5, {V2.replace(';', '; ')}; q=0.9", V2),
        (f"{V2BETA1},{V2}", V2),
        # Nothing of that is there, and JSON is always a legal answer.
        (V2BETA1, "application/json"),
        (PROTOBUF_FIRST, "application/json"),
        ("application/vnd.kubernetes.protobuf", "application/json"),
        ("application/yaml", "application/json"),
    ],
)
def test_of_several_variants_a_client_gets_the_one_it_likes_best(
    accept: str, content_type: str
) -> None:
    async def run(documents: DocumentCache) -> None:
        await documents.remember("/api", 200, answer(V2, "A"), dumped(AGGREGATED))
        await documents.remember("/api", 200, answer("application/json"), b"{}")
        document = documents.recall("/api", accept)
        assert document is not None
        assert document.content_type == content_type

    with_documents(None, run)


def test_a_client_that_reads_no_aggregated_discovery_gets_none() -> None:
    async def run(documents: DocumentCache) -> None:
        await documents.remember("/api", 200, answer(V2, "A"), dumped(AGGREGATED))
        for accept in ("application/json", "*/*", "", V2BETA1):
            assert documents.recall("/api", accept) is None

    with_documents(None, run)


def test_openapis_index_is_json_though_it_says_text() -> None:
    async def run(documents: DocumentCache) -> None:
        headers = answer("text/plain; charset=utf-8")
        await documents.remember("/openapi/v3", 200, headers, b'{"paths":{}}')
        for accept in ("application/json", "*/*", "", OPENAPI_V3):
            assert body_of(documents.recall("/openapi/v3", accept)) == {"paths": {}}
        assert not await documents.remember("/version", 200, headers, b"{}")

    with_documents(None, run)


def test_protobuf_of_openapi_is_kept_beside_its_json_until_either_is_outdated() -> None:
    path = "/openapi/v3/apis/apps/v1"

    async def run(documents: DocumentCache) -> None:
        await documents.remember(path, 200, answer("application/json", "E1"), b'{"v":1}')
        await documents.remember(path, 200, answer(OPENAPI_V3_ANSWER, "E1"), b"\x0a\x01protobuf")
        document = documents.recall(path, OPENAPI_V3)
        assert document is not None
        assert document.body() == b"\x0a\x01protobuf"
        assert body_of(documents.recall(path, "application/json")) == {"v": 1}
        await documents.remember(path, 200, answer("application/json", "E2"), b'{"v":2}')
        assert body_of(documents.recall(path, OPENAPI_V3)) == {"v": 2}

    with_documents(None, run)


def test_an_outdated_variant_does_not_come_back_by_a_restart(tmp_path: Path) -> None:
    path = "/openapi/v3/apis/apps/v1"

    async def before(documents: DocumentCache) -> None:
        await documents.remember(path, 200, answer(OPENAPI_V3_ANSWER, "E1"), b"\x0a\x01protobuf")
        await documents.remember(path, 200, answer("application/json", "E2"), b'{"v":2}')

    async def after(documents: DocumentCache) -> None:
        assert body_of(documents.recall(path, OPENAPI_V3)) == {"v": 2}

    with_documents(tmp_path, before)
    with_documents(tmp_path, after)


def test_lists_follow_from_the_aggregated_document() -> None:
    async def run(documents: DocumentCache) -> None:
        await documents.remember("/apis", 200, answer(V2, "A"), dumped(AGGREGATED))
        resources = body_of(documents.recall("/apis/example.com/v2", "application/json"))
        assert resources == {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": "example.com/v2",
            "resources": [
                {
                    "name": "things",
                    "singularName": "thing",
                    "namespaced": True,
                    "kind": "Thing",
                    "verbs": ["get", "list"],
                }
            ],
        }
        versions = [
            {"groupVersion": "example.com/v2", "version": "v2"},
            {"groupVersion": "example.com/v1", "version": "v1"},
        ]
        group = {"name": "example.com", "versions": versions, "preferredVersion": versions[0]}
        assert body_of(documents.recall("/apis/example.com", PROTOBUF_FIRST)) == {
            "kind": "APIGroup",
            "apiVersion": "v1",
            **group,
        }
        assert body_of(documents.recall("/apis", "application/json")) == {
            "kind": "APIGroupList",
            "apiVersion": "v1",
            "groups": [group],
        }
        # Upstream could not tell what this version serves: nor can we.
        assert documents.recall("/apis/example.com/v1", "application/json") is None
        assert documents.recall("/apis/other.com/v1", "application/json") is None

    with_documents(None, run)


def test_which_resources_are_in_no_namespace_changes_with_each_document() -> None:
    async def run(documents: DocumentCache) -> None:
        things = ResourceName("example.com", "v2", "things")
        assert not documents.is_cluster_scoped(things), "nothing is known of it"
        for is_namespaced in (False, True, False):
            told = {"resources": [{"name": "things", "namespaced": is_namespaced}]}
            await documents.remember(things.api_path, 200, answer("application/json"), dumped(told))
            assert documents.is_cluster_scoped(things) is not is_namespaced
        await documents.remember("/apis", 200, answer(V2, "A"), dumped(AGGREGATED))
        assert not documents.is_cluster_scoped(things), "the aggregated one is newer"
        for number in range(2 * MAX_VERSIONS):
            assert not documents.is_cluster_scoped(ResourceName(f"{number}.com", "v1", "things"))
        assert not documents.is_cluster_scoped(things)

    with_documents(None, run)


def test_of_a_list_and_an_aggregated_document_the_newer_one_counts() -> None:
    path, told = "/apis/example.com/v2", {"kind": "APIResourceList", "resources": []}

    async def run(documents: DocumentCache) -> None:
        await documents.remember("/apis", 200, answer(V2, "A"), dumped(AGGREGATED))
        await documents.remember(path, 200, answer("application/json"), dumped(told))
        assert body_of(documents.recall(path, "application/json")) == told
        # Asked again, it says the same: it has not become newer.
        assert not await documents.remember("/apis", 200, answer(V2, "A"), dumped(AGGREGATED))
        assert body_of(documents.recall(path, "application/json")) == told
        changed = {**AGGREGATED, "metadata": {}}
        assert await documents.remember("/apis", 200, answer(V2, "B"), dumped(changed))
        assert body_of(documents.recall(path, "application/json")) != told

    with_documents(None, run)


def test_discovery_that_cannot_be_read_is_passed_on_and_makes_no_lists() -> None:
    async def run(documents: DocumentCache) -> None:
        await documents.remember("/apis", 200, answer(V2, "A"), b'{"items":7}')
        assert body_of(documents.recall("/apis", KUBECTL)) == {"items": 7}
        assert documents.recall("/apis/apps/v1", "application/json") is None

    with_documents(None, run)


def test_all_that_is_known_can_be_told_to_a_journal_that_lost_it(tmp_path: Path) -> None:
    async def first(documents: DocumentCache) -> None:
        await documents.remember("/apis", 200, answer(V2, "A"), dumped(AGGREGATED))
        await documents.remember("/version", 200, answer("application/json"), b"{}")

        async def second(journal: Journal, saved: Saved) -> None:
            await journal.commit(*documents.records())

        await asyncio.to_thread(play, tmp_path, second)

    async def after(documents: DocumentCache) -> None:
        assert body_of(documents.recall("/apis", V2)) == AGGREGATED
        assert body_of(documents.recall("/version", "*/*")) == {}

    with_documents(None, first)
    with_documents(tmp_path, after)


def test_large_documents_are_packed() -> None:
    body = dumped({"paths": {f"/path/{number}": "text" * 10 for number in range(20_000)}})

    async def run(documents: DocumentCache) -> None:
        assert await documents.remember("/openapi/v2", 200, answer("application/json", "E"), body)
        document = documents.recall("/openapi/v2", "application/json")
        assert document is not None
        assert document.body() == body
        assert len(document.gzipped) < len(body) / 5

    with_documents(None, run)


def test_l3_documents_of_openapi_have_a_limit_and_those_of_discovery_have_none(
    tmp_path: Path,
) -> None:
    """In memory and on disk: those that upstream confirmed longest ago go first."""
    count, size = 10, 20_000

    def openapi(number: int) -> str:
        return f"/openapi/v3/apis/g{number}.example.com/v1"

    async def run(journal: Journal, saved: Saved) -> None:
        cache = DocumentCache(journal, saved.kept.get(SPACE, {}), limit=4 * size)
        for number in range(count):
            schema = dumped({"random": os.urandom(size // 2).hex()})
            await cache.remember(openapi(number), 200, answer("application/json"), schema)
            assert cache.size < 5 * size
        group = dumped({"kind": "APIResourceList", "resources": [], "x": os.urandom(size).hex()})
        await cache.remember("/apis/g/v1", 200, answer("application/json"), group)
        huge = dumped({"random": os.urandom(4 * size).hex()})
        await cache.remember("/openapi/v2", 200, answer("application/json"), huge)

    async def check(journal: Journal, saved: Saved) -> None:
        cache = DocumentCache(journal, saved.kept.get(SPACE, {}))
        assert cache.recall("/apis/g/v1", "") is not None
        assert cache.recall("/openapi/v2", "") is None

    play(tmp_path, run)
    play(tmp_path, check)
