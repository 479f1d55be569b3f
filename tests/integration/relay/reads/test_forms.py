"""R1 and R9, representations: Table, protobuf, YAML, gzip, and who accepts what."""

import gzip
import json
from urllib.parse import urlencode

import pytest

from edge_sidecars.apimachinery.request.accept import Form
from edge_sidecars.apimachinery.resource_version import response_version
from tests.integration.relay.oracle import assert_same_refusal
from tests.integration.relay.place import Place
from tools.harness.pods.wire.caller import Parameters
from tools.harness.relay_objects import Contents

TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
KUBECTL = (
    "application/json;as=Table;v=v1;g=meta.k8s.io,"
    "application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
)
PROTOBUF = "application/vnd.kubernetes.protobuf"
# From this size on, kube-apiserver compresses: defaultGzipThresholdBytes of
# staging/src/k8s.io/apiserver/pkg/endpoints/handlers/responsewriters/writers.go.
GZIP_THRESHOLD = 128 * 1024


@pytest.mark.parametrize("accept", [TABLE, KUBECTL], ids=["table", "kubectl"])
def test_r9_a_table_is_the_one_that_the_api_server_prints(
    shared: Place, contents: Contents, accept: str
) -> None:
    contents.configmap("a", key="value")
    path = contents.path("configmaps")
    shared.caller().get(path, {"resourceVersion": contents.version()}).expect()
    for query in ({}, {"resourceVersion": "0"}):
        table = shared.caller().get(path, query, accept=accept).expect()
        assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
        assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Data", "Age"]
        [row] = table["rows"]
        assert row["cells"][:2] == ["a", 1]


def test_r9_a_watch_of_tables_tells_rows(shared: Place, contents: Contents) -> None:
    path = contents.path("configmaps")
    version = contents.version()
    with shared.caller().watch(
        path, {"resourceVersion": version, "timeoutSeconds": 60}, headers={"Accept": KUBECTL}
    ) as watching:
        contents.configmap("a")
        watching.wait_for(lambda it: bool(it.seen), what="a row")
        [event] = watching.seen
        assert (event.type, event.object["kind"]) == ("ADDED", "Table")
        assert event.object["rows"][0]["cells"][0] == "a"


def test_the_version_in_protobuf_is_the_one_in_json(shared: Place, contents: Contents) -> None:
    contents.configmap("a")
    path = contents.path("configmaps")
    for asked, is_list in ((path, True), (f"{path}/a", False)):
        told = shared.caller().get(asked).expect()["metadata"]["resourceVersion"]
        body = shared.caller().get(asked, {"resourceVersion": told}, accept=PROTOBUF).body
        assert response_version(body, Form.OTHER, is_list=is_list) is not None
        if not is_list:
            assert response_version(body, Form.OTHER, is_list=False) == int(told)


def test_r9_who_takes_protobuf_only_gets_it(shared: Place, contents: Contents) -> None:
    contents.configmap("a")
    path = contents.path("configmaps")
    shared.caller().get(path, {"resourceVersion": contents.version()}).expect()
    for asked in (path, f"{path}/a"):
        for query in ({}, {"resourceVersion": "0"}):
            reply = shared.caller().get(asked, query, accept=PROTOBUF)
            assert reply.status == 200
            assert reply.headers["Content-Type"] == PROTOBUF
            # The magic number of apimachinery's pkg/runtime/serializer/protobuf.
            assert reply.body.startswith(b"k8s\x00")
    watch = {"resourceVersion": contents.version(), "timeoutSeconds": 60, "watch": "true"}
    contents.configmap("b")
    caller = shared.caller(accept=f"{PROTOBUF};stream=watch")
    with caller.connected() as connection:
        connection.request("GET", f"{path}?{urlencode(watch)}", headers=dict(caller.headers))
        with connection.getresponse() as response:
            assert response.headers["Content-Type"] == f"{PROTOBUF};stream=watch"
            # A frame is its length, big-endian in four bytes, and its content.
            size = int.from_bytes(response.read(4), "big")
            frame = response.read(size)
    assert len(frame) == size
    assert contents.namespace.encode() in frame


@pytest.mark.parametrize(
    "accept",
    [
        f"{PROTOBUF},application/json",
        f"{PROTOBUF}, */*",
        "application/json, */*",
        "*/*",
        "application/json;q=0.5",
        "application/cbor;q=0.1,application/json",
        "application/json;charset=utf-8",
    ],
)
@pytest.mark.parametrize("query", [{}, {"resourceVersion": "0"}], ids=["newest", "any"])
def test_r1_json_is_a_legal_answer_to_all_who_accept_it(
    shared: Place, contents: Contents, accept: str, query: Parameters
) -> None:
    contents.configmap("a")
    path = contents.path("configmaps")
    shared.caller().get(path, {"resourceVersion": contents.version()}).expect()
    reply = shared.caller().get(path, query, accept=accept)
    assert reply.status == 200
    if reply.headers["Content-Type"] != PROTOBUF:
        assert reply.headers["Content-Type"] == "application/json"
        assert reply.names == ["a"]


def test_r1_who_names_no_type_gets_json(shared: Place, contents: Contents) -> None:
    contents.configmap("a")
    assert shared.caller().get(contents.path("configmaps"), accept="").names == ["a"]


@pytest.mark.parametrize("query", [{}, {"resourceVersion": "0"}], ids=["newest", "any"])
def test_r9_yaml_is_yaml(shared: Place, contents: Contents, query: Parameters) -> None:
    contents.configmap("a")
    path = contents.path("configmaps")
    shared.caller().get(path, {"resourceVersion": contents.version()}).expect()
    reply = shared.caller().get(path, query, accept="application/yaml")
    assert reply.headers["Content-Type"] == "application/yaml"
    assert b"kind: ConfigMapList" in reply.body


@pytest.mark.parametrize(
    "accept",
    [
        "text/plain",
        "application/*",
        "application/json;as=Nonsense;g=meta.k8s.io;v=v1",
        "application/json;as=Table;g=meta.k8s.io;v=v9",
        "application/cbor",
    ],
)
def test_r9_what_cannot_be_answered_is_not_acceptable(
    shared: Place, contents: Contents, accept: str
) -> None:
    path = contents.path("configmaps")
    shared.caller().get(path, {"resourceVersion": contents.version()}).expect()
    for query in ({}, {"resourceVersion": "0"}):
        assert_same_refusal(shared, path, query, accept=accept)


def test_r1_long_answers_are_compressed_for_who_asks_for_it(
    shared: Place, contents: Contents
) -> None:
    contents.configmaps(4, size=GZIP_THRESHOLD // 4)
    path = contents.path("configmaps")
    version = contents.version()
    shared.caller().get(path, {"resourceVersion": version}).expect()
    for query in ({}, {"resourceVersion": version}):
        plain = shared.caller().get(path, query)
        assert plain.headers["Content-Encoding"] is None
        reply = shared.caller().get(path, query, accept_encoding="gzip")
        assert reply.headers["Content-Encoding"] == "gzip"
        assert len(reply.body) < len(plain.body) / 4
        zipped = json.loads(gzip.decompress(reply.body))
        assert zipped["items"] == plain.json()["items"]


def test_r1_short_answers_are_not_compressed(shared: Place, contents: Contents) -> None:
    contents.configmap("a")
    path = contents.path("configmaps")
    for query in ({}, {"resourceVersion": "0"}):
        reply = shared.caller().get(path, query, accept_encoding="gzip")
        assert reply.headers["Content-Encoding"] is None
        assert reply.names == ["a"]
