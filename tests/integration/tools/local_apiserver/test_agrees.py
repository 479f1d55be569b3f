"""The server and kube-apiserver, asked the same: status, reason and objects are the same.

Sequences of requests are drawn at random for ConfigMaps, Leases and a custom resource; what only
the server can know (uids, times, versions, who manages fields) is left out of the comparison.
"""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.integration.tools.local_apiserver.agreement import (
    DEFINITIONS,
    JSON_PATCH,
    MERGE,
    STRATEGIC,
    Both,
)
from tests.integration.tools.local_apiserver.in_process import InProcess
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.relay_objects import ESTABLISHED_TIMEOUT

Json = dict[str, Any]

GROUP = "agreement.example.com"

SCHEMA: Json = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size"],
            "properties": {
                "size": {"type": "integer", "minimum": 1, "maximum": 10},
                "mode": {"type": "string", "enum": ["a", "b"], "default": "a"},
                "name": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 4, "nullable": True},
                "port": {"x-kubernetes-int-or-string": True},
                "any": {"x-kubernetes-preserve-unknown-fields": True},
                "list": {
                    "type": "array",
                    "maxItems": 2,
                    "items": {"type": "object", "properties": {"x": {"type": "number"}}},
                },
                "map": {"type": "object", "additionalProperties": {"type": "boolean"}},
                "one": {
                    "type": "object",
                    "properties": {"p": {"type": "string"}, "q": {"type": "string"}},
                    "oneOf": [{"required": ["p"]}, {"required": ["q"]}],
                },
            },
        },
        "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
    },
}


@pytest.fixture(scope="module")
def agreed_definition(control_plane: ControlPlane) -> Iterator[Json]:
    """A custom resource that kube-apiserver serves."""
    definition: Json = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"agreements.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": "agreements", "kind": "Agreement"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": SCHEMA},
                }
            ],
        },
    }
    status, body = control_plane.admin.post(DEFINITIONS, definition)
    assert status == 201, body
    deadline = time.monotonic() + ESTABLISHED_TIMEOUT
    while control_plane.admin.get(f"/apis/{GROUP}/v1/agreements")[0] != 200:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    yield definition
    control_plane.admin.delete(f"{DEFINITIONS}/{definition['metadata']['name']}")


# What is drawn

_names = st.sampled_from(["a", "b"])
_labels = st.dictionaries(
    st.sampled_from(["x", "y/z", "bad key"]), st.sampled_from(["1", "", "b d"]), max_size=2
)
_meta: st.SearchStrategy[Json] = st.fixed_dictionaries(
    {},
    optional={
        "labels": _labels,
        "annotations": st.dictionaries(st.sampled_from(["k", "l/m"]), st.just("v"), max_size=2),
        "finalizers": st.lists(st.sampled_from(["a.b/c", "d.e/f", "bad"]), max_size=2, unique=True),
        "resourceVersion": st.sampled_from(["VERSION", "VERSION", "1", "", "0", "x"]),
        "uid": st.sampled_from(["UID", "UID", "other"]),
        "unknown": st.just(1),
    },
)
_data: st.SearchStrategy[Json] = st.fixed_dictionaries(
    {},
    optional={
        "data": st.dictionaries(
            st.sampled_from(["k", "l", "bad key"]),
            st.sampled_from(["1", "2", None, 5]),
            max_size=2,
        )
        | st.none(),
        "immutable": st.booleans(),
        "binaryData": st.just({"bin": "AAAA"}) | st.just({"bin": "!"}),
        "other": st.just({}),
    },
)
_lease: st.SearchStrategy[Json] = st.fixed_dictionaries(
    {},
    optional={
        "spec": st.fixed_dictionaries(
            {},
            optional={
                "holderIdentity": st.sampled_from(["h", "", None, 3]),
                "leaseDurationSeconds": st.sampled_from([1, 15, 0, -1, "1", 1.5, None]),
                "leaseTransitions": st.sampled_from([0, 3, -1]),
                "renewTime": st.sampled_from(
                    [
                        "2024-01-01T00:00:00.123456Z",
                        "2024-01-01T00:00:00Z",
                        "2024-01-01T01:00:00.000001+01:00",
                        "soon",
                        None,
                    ]
                ),
            },
        )
    },
)
_spec: st.SearchStrategy[Json] = st.fixed_dictionaries(
    {},
    optional={
        "size": st.sampled_from([1, 10, 11, 0, 2.0, 2.5, "1", None]),
        "mode": st.sampled_from(["a", "b", "c", None]),
        "name": st.sampled_from(["abc", "ABC", "abcde", "", None, 1]),
        "port": st.sampled_from([80, "http", True, None]),
        "any": st.sampled_from([{"x": [None, {}]}, 5, None]),
        "list": st.lists(st.sampled_from([{"x": 1.5}, {"x": "a"}, {"y": 1}, None]), max_size=3),
        "map": st.dictionaries(
            st.sampled_from(["m", "n"]), st.sampled_from([True, "t", None]), max_size=2
        ),
        "one": st.sampled_from([{}, {"p": "1"}, {"p": "1", "q": "2"}, {"r": 1, "q": "2"}]),
        "unknown": st.just({"a": 1}),
    },
)
_custom: st.SearchStrategy[Json] = st.fixed_dictionaries(
    {},
    optional={
        "spec": _spec | st.just({"size": 3}) | st.sampled_from([None, 5]),
        "status": st.sampled_from([{"phase": "p"}, {"phase": 1}, {"unknown": 1}, None]),
        "extra": st.just("e"),
    },
)
_pointers = st.sampled_from(
    [
        "/metadata/labels",
        "/metadata/labels/x",
        "/metadata/annotations",
        "/metadata/finalizers/0",
        "/metadata/finalizers/-",
        "/metadata/resourceVersion",
        "/metadata/name",
        "/data",
        "/data/k",
        "/spec",
        "/spec/size",
        "/spec/list",
        "/spec/list/0",
        "/spec/list/-",
        "/spec/list/-1",
        "/spec/holderIdentity",
        "/spec/nope/deeper",
        "/status",
        "",
        "nope",
    ]
)
_values = st.sampled_from(
    [None, 1, 3, "x", {}, {"x": "1"}, {"size": 2}, [], [{"x": 1}], True, "VERSION"]
)
_operations = st.lists(
    st.fixed_dictionaries(
        {
            "op": st.sampled_from(
                ["add", "add", "replace", "remove", "test", "move", "copy", "no"]
            ),
            "path": _pointers,
        },
        optional={"value": _values, "from": _pointers},
    ),
    max_size=3,
)
_verbs = st.sampled_from(
    ["create", "create", "update", "update", "merge", "merge", "json", "strategic", "delete"]
)
_query = st.sampled_from(
    ["", "", "", "?dryRun=All", "?fieldValidation=Strict", "?fieldValidation=Ignore", "?dryRun=no"]
)
_delete_options = st.sampled_from(
    [
        None,
        None,
        {"preconditions": {"uid": "UID"}},
        {"preconditions": {"uid": "other"}},
        {"preconditions": {"resourceVersion": "VERSION"}},
        {"preconditions": {"resourceVersion": "1"}},
        {"propagationPolicy": "Background"},
        {"propagationPolicy": "Foreground"},
        {"propagationPolicy": "Orphan"},
        {"propagationPolicy": "No"},
        {"dryRun": ["All"]},
        {"gracePeriodSeconds": 0},
        {"kind": "Lease", "apiVersion": "v1"},
    ]
)


class Kind:
    """A resource, and what bodies are drawn for it."""

    def __init__(self, kind: str, api_version: str, path: str, bodies: st.SearchStrategy[Json]):
        self.kind = kind
        self.api_version = api_version
        self.path = path
        self.bodies = bodies

    def __repr__(self) -> str:
        return self.kind


CONFIG_MAP = Kind("ConfigMap", "v1", "/api/v1/namespaces/NAMESPACE/configmaps", _data)
LEASE = Kind(
    "Lease",
    "coordination.k8s.io/v1",
    "/apis/coordination.k8s.io/v1/namespaces/NAMESPACE/leases",
    _lease,
)
CUSTOM = Kind(
    "Agreement", f"{GROUP}/v1", f"/apis/{GROUP}/v1/namespaces/NAMESPACE/agreements", _custom
)


def _play(both: Both, kind: Kind, data: st.DataObject) -> None:
    name = data.draw(_names, "name")
    verb = data.draw(_verbs, "verb")
    query = data.draw(_query, "query")
    path = f"{kind.path}/{name}"
    if verb == "json":
        operations = data.draw(_operations, "operations")
        both.ask("PATCH", path + query, operations, content_type=JSON_PATCH)
        return
    if verb == "delete":
        both.ask("DELETE", path, data.draw(_delete_options, "options"))
        return
    body = {**data.draw(kind.bodies, "body")}
    meta = data.draw(_meta, "metadata")
    if verb in ("merge", "strategic"):
        if meta:
            body["metadata"] = meta
        content_type = MERGE if verb == "merge" else STRATEGIC
        both.ask("PATCH", path + query, body, content_type=content_type)
        return
    head = {"kind": kind.kind, "apiVersion": kind.api_version}
    if verb == "create":
        meta.pop("resourceVersion", None)
        both.ask("POST", kind.path + query, {**head, **body, "metadata": {"name": name, **meta}})
        return
    meta.setdefault("resourceVersion", "VERSION")
    has_status = kind is CUSTOM and data.draw(st.booleans(), "status only")
    subresource = "/status" if has_status else ""
    full = {**head, **body, "metadata": {"name": name, **meta}}
    both.ask("PUT", path + subresource + query, full)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("kind", [CONFIG_MAP, LEASE, CUSTOM], ids=repr)
def test_the_origin_answers_as_kube_apiserver_does(
    kind: Kind, control_plane: ControlPlane, agreed_definition: Json
) -> None:
    # Nobody collects at the API server of the tests, so nobody does here.
    with InProcess(collects=False) as server:
        assert server.ask("POST", DEFINITIONS, agreed_definition).status == 201

        @settings(
            max_examples=60,
            deadline=None,
            derandomize=True,
            database=None,
            # A failure tells its requests; to shorten them takes minutes of real requests.
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(data=st.data())
        def agree(data: st.DataObject) -> None:
            both = Both(control_plane.admin, server)
            for _ in range(data.draw(st.integers(4, 14), "steps")):
                _play(both, kind, data)
            for name in ("a", "b"):
                both.ask("GET", f"{kind.path}/{name}")

        agree()
