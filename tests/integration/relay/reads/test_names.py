"""Rule 9.9: how a client writes a path, names a kind or is answered in lines of its own does not
decide what is kept, nor how large that is."""

import secrets
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from tests.integration.relay.oracle import assert_same_refusal
from tests.integration.relay.place import Place
from tools.harness.pods.relay import RelayProcess
from tools.harness.pods.wire.caller import Caller, Parameters
from tools.harness.pods.wire.raw_server import Connection, RawServer
from tools.harness.relay_objects import Contents

ROLE = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
METADATA = "application/json;as=PartialObjectMetadata{};v=v1;g=meta.k8s.io"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
# Seconds.
SERVED = 10.0


def test_r4_a_name_that_is_written_with_escapes_is_the_same_name(
    one_relay: Place, contents: Contents
) -> None:
    contents.configmap("a-b")
    caller = one_relay.caller()
    caller.get(contents.path("configmaps")).expect()
    # As Kubernetes' client for Python writes it.
    caller.get(f"{ROLE}/system%3Anode").expect()
    one_relay.cut()
    for path in (contents.path("configmaps", "a%2Db"), contents.path("configmaps", "%61-b")):
        assert caller.get(path).expect()["metadata"]["name"] == "a-b"
    for name in ("system%3Anode", "system:node", "system%3anode"):
        assert caller.get(f"{ROLE}/{name}").expect()["metadata"]["name"] == "system:node"


def test_r9_a_path_is_passed_on_byte_for_byte() -> None:
    paths = [
        "/api/v1/namespaces/x/pods/a%2Db",
        f"{ROLE}/system%3Anode",
        f"{ROLE}/system%3anode",
        "/api/v1/namespaces/x/pods%2Fa",
        "/api/v1/namespaces/x/configmaps?labelSelector=a%3Db&limit=5",
        "/healthz/%7Ex",
    ]
    seen = []

    def serve(connection: Connection) -> None:
        with suppress(ConnectionError):
            while request := connection.request():
                seen.append(request.split(b" ", 2)[1].decode())
                connection.answer(b"{}")

    with RawServer(serve) as server, RelayProcess([f"--server={server.url}"]) as relay:
        relay.wait_link(up=True)
        for path in paths:
            Caller(relay.url).get(path)
        assert [path for path in seen if path in paths] == paths


def test_r1_a_limit_beside_a_version_is_a_list_as_of_then(
    shared: Place, contents: Contents
) -> None:
    contents.configmap("a")
    path, version = contents.path("configmaps"), contents.version()
    caller = shared.caller()
    caller.get(path, {"resourceVersion": version}).expect()
    contents.configmap("b")
    now = contents.version()
    assert caller.get(path, {"resourceVersion": now}).names == ["a", "b"]
    for limit in (2, 500):
        said = caller.get(path, {"resourceVersion": version, "limit": limit})
        assert (said.names, said.version) == (["a"], str(version))
    newer: Parameters = {
        "resourceVersion": version,
        "limit": 500,
        "resourceVersionMatch": "NotOlderThan",
    }
    assert caller.get(path, newer).names == ["a", "b"]


@pytest.mark.parametrize("and_json", ["", ",application/json"])
def test_r1_an_object_is_shown_as_no_list_and_a_list_as_no_object(
    shared: Place, contents: Contents, and_json: str
) -> None:
    contents.configmap("a")
    path = contents.path("configmaps")
    shared.caller().get(path, {"resourceVersion": contents.version()}).expect()
    for asked, kind in ((f"{path}/a", "List"), (path, "")):
        for query in ({}, {"resourceVersion": "0"}):
            assert_same_refusal(shared, asked, query, accept=METADATA.format(kind) + and_json)


def test_r6_what_is_never_shown_so_is_refused_so_while_cut(
    one_relay: Place, contents: Contents
) -> None:
    contents.configmap("a")
    path = contents.path("configmaps")
    one_relay.caller().get(path, {"resourceVersion": contents.version()}).expect()
    one_relay.cut()
    one_relay.caller().get(f"{path}/a", accept=METADATA.format("List")).expect(406)
    one_relay.caller().get(path, accept=METADATA.format("")).expect(406)


@pytest.mark.parametrize("agent", ["curl/8.5.0", "Mozilla/5.0", "Wget/1.21"])
def test_who_is_answered_in_many_lines_makes_nothing_larger_that_is_kept(
    one_relay: Place, contents: Contents, agent: str
) -> None:
    contents.configmap("a", key=" in  one\nline")
    contents.configmap("b")
    caller, plain = one_relay.caller(user_agent=agent), one_relay.caller()
    direct = Caller(
        one_relay.plane.server, context=one_relay.plane.tls(), headers={"User-Agent": agent}
    )
    paths = [contents.path("configmaps"), f"{ROLE}/system:node", "/apis/apps/v1"]
    for path in paths:
        said = caller.get(path)
        if path != paths[0]:
            assert said.body == direct.get(path).body
        assert said.body.count(b"\n") > 5
    compact = [one_relay.cloud.get(path).body for path in paths[1:]]
    written = contents.path("configmaps", "b")
    caller.patch(written, {"data": {"x": "1"}}).expect()
    one_relay.cut()
    assert [plain.get(path).body for path in paths[1:]] == compact
    for path in (paths[0], written):
        assert plain.get(path).body.count(b"\n") == 1
    listed = plain.get(paths[0]).expect()["items"]
    assert [item["data"] for item in listed] == [{"key": " in  one\nline"}, {"x": "1"}]


# ── kinds ──


@pytest.fixture
def odd(one_relay: Place) -> Iterator[str]:
    """The path of a resource whose list is of a kind that says nothing of its objects'."""
    group = f"g{secrets.token_hex(4)}.example.com"
    names = {"plural": "gadgets", "kind": "Gadget", "listKind": "Assortment"}
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    spec: dict[str, Any] = {
        "group": group,
        "scope": "Namespaced",
        "names": names,
        "versions": [version],
    }
    name = f"gadgets.{group}"
    crd = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    one_relay.cloud.post(CRDS, {**crd, "metadata": {"name": name}, "spec": spec}).expect(201)
    path = f"/apis/{group}/v1/namespaces/default/gadgets"
    deadline = time.monotonic() + SERVED
    while one_relay.cloud.get(path).status != 200:
        assert time.monotonic() < deadline, "the CRD is not served"
        time.sleep(0.1)
    yield path
    one_relay.cloud.delete(f"{CRDS}/{name}")


@pytest.mark.parametrize("is_empty", [False, True], ids=["objects", "empty"])
def test_r2_a_list_of_any_kind_is_kept_and_watched(
    one_relay: Place, odd: str, is_empty: bool
) -> None:
    cloud, caller = one_relay.cloud, one_relay.caller()
    group = odd.split("/")[2]
    gadget = {"apiVersion": f"{group}/v1", "kind": "Gadget"}

    def make(name: str) -> None:
        cloud.post(odd, {**gadget, "metadata": {"name": name}}).expect(201)

    # What an object is called, where there is none, only discovery can say.
    if not is_empty:
        make("a")
    listed = caller.get(odd, {"resourceVersion": "0"}).expect()
    assert listed["kind"] == "Assortment"
    streaming = {
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
    }
    with caller.watch(odd, streaming) as watching:
        watching.wait_initial_end()
        assert {event.object["kind"] for event in watching.seen} == {"Gadget"}
        make("b")
        watching.wait_for(lambda it: it.seen[-1].name == "b", what="the new one")
        for name in ("a", "b") if not is_empty else ("b",):
            cloud.delete(f"{odd}/{name}").expect()
        watching.wait_for(lambda it: it.seen[-1].type == "DELETED", what="the end of all")
    one_relay.cut()
    for _ in range(2):
        assert caller.get(odd).expect()["kind"] == "Assortment"
        with caller.watch(odd, {**streaming, "timeoutSeconds": 60}) as watching:
            watching.wait_initial_end()
            assert [event.object["kind"] for event in watching.seen] == ["Gadget"]
        one_relay.relay.kill()
        one_relay.relay.start()
