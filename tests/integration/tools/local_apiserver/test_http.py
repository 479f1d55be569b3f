"""What the local API server does with requests over HTTP."""

import json
from collections.abc import Iterator
from http import HTTPStatus

import pytest

from edge_sidecars.apimachinery.selection.shard_ranges import fnv1a
from tests.integration.raw_client import RawClient
from tools.harness.controlplane.local_apiserver import LocalApiServerProcess
from tools.harness.pods.wire.caller import Caller

PATH = "/api/v1/namespaces/default/configmaps"
LOWER_HALF = "shardRange(object.metadata.uid,'0x0000000000000000','0x8000000000000000')"


@pytest.fixture(scope="module")
def server() -> Iterator[LocalApiServerProcess]:
    with LocalApiServerProcess() as process:
        yield process


@pytest.fixture
def caller(server: LocalApiServerProcess) -> Caller:
    return Caller(server.server)


def test_too_long_a_body_is_refused_as_by_kube_apiserver(caller: Caller) -> None:
    # Bytes: MaxRequestBodyBytes of kube-apiserver.
    limit = 3 * 1024 * 1024
    body = {"metadata": {"name": "long"}, "data": {"k": "x" * limit}}
    status = caller.post(PATH, body).expect(413)
    assert status["reason"] == "RequestEntityTooLarge"
    assert status["message"] == f"Request entity is too large: limit is {limit}"


def test_a_body_is_asked_for_and_one_object_is_watched_by_its_path(
    server: LocalApiServerProcess, caller: Caller
) -> None:
    for name in ("a", "b"):
        body = json.dumps({"metadata": {"name": name}}).encode()
        with RawClient(server.port) as client:
            head = f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            head += f"Content-Length: {len(body)}\r\nExpect: 100-continue\r\n\r\n"
            client.send(head.encode())
            assert client.head()[0] == HTTPStatus.CONTINUE
            client.send(body)
            assert client.head()[0] == HTTPStatus.CREATED
    one = "/api/v1/watch/namespaces/default/configmaps/b?timeoutSeconds=1"
    [event] = caller.get(one).body.splitlines()
    assert json.loads(event)["object"]["metadata"]["name"] == "b"
    other = caller.get(f"{one}&fieldSelector=metadata.name%3Da")
    assert other.status == HTTPStatus.BAD_REQUEST


def test_lists_and_deletions_are_of_the_shards_that_are_selected(caller: Caller) -> None:
    uids = {}
    for number in range(16):
        meta = {"name": f"c{number}", "labels": {"of": "shards"}}
        uids[meta["name"]] = caller.post(PATH, {"metadata": meta}).expect(201)["metadata"]["uid"]
    asked = {"shardSelector": LOWER_HALF, "labelSelector": "of=shards"}
    lower = {name for name, uid in uids.items() if fnv1a(uid) < 1 << 63}
    assert names(caller, asked) == lower
    caller.ask(PATH, asked, method="DELETE").expect()
    assert names(caller, {"labelSelector": "of=shards"}) == set(uids) - lower


def names(caller: Caller, query: dict[str, str]) -> set[str]:
    return {it["metadata"]["name"] for it in caller.get(PATH, query).expect()["items"]}
