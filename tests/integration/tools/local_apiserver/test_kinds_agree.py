"""Kind by kind: CRDs, pods, workloads, services, events and what they refuse, as kube-apiserver."""

from typing import Any

import pytest

from tests.integration.tools.local_apiserver.agreement import (
    DEFINITIONS,
    JSON,
    MERGE,
    STRATEGIC,
    Both,
    blamed,
    outcome,
    without_admission,
)
from tests.integration.tools.local_apiserver.in_process import InProcess
from tools.harness.controlplane.cluster import ControlPlane

Json = dict[str, Any]
Request = tuple[str, str, Any, str]

PODS = "/api/v1/namespaces/NAMESPACE/pods"
SERVICES = "/api/v1/namespaces/NAMESPACE/services"
EVENTS = "/api/v1/namespaces/NAMESPACE/events"
NEW_EVENTS = "/apis/events.k8s.io/v1/namespaces/NAMESPACE/events"
SECRETS = "/api/v1/namespaces/NAMESPACE/secrets"
DEPLOYMENTS = "/apis/apps/v1/namespaces/NAMESPACE/deployments"
REPLICA_SETS = "/apis/apps/v1/namespaces/NAMESPACE/replicasets"
JOBS = "/apis/batch/v1/namespaces/NAMESPACE/jobs"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/NAMESPACE/endpointslices"
NODES = "/api/v1/nodes"


def post(path: str, name: str, **fields: Any) -> Request:
    return "POST", path, {"metadata": {"name": name}, **fields}, JSON


def merge(path: str, **fields: Any) -> Request:
    return "PATCH", path, fields, MERGE


def strategic(path: str, **fields: Any) -> Request:
    return "PATCH", path, fields, STRATEGIC


def lease(name: str) -> Json:
    return {"metadata": {"name": name}}


def delete(path: str) -> Request:
    return "DELETE", path, None, JSON


def container(name: str, **fields: Any) -> Json:
    return {"name": name, "image": name, **fields}


def template(*containers: Json, **spec: Any) -> Json:
    return {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": list(containers) or [container("c")], **spec},
    }


SELECTOR = {"matchLabels": {"a": "b"}}

POD = [
    post(
        PODS,
        "p",
        spec={
            "containers": [
                {
                    "name": "c",
                    "image": "nginx:1.2",
                    "ports": [{"containerPort": 80}],
                    "env": [
                        {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
                    ],
                    "livenessProbe": {"httpGet": {"port": 80}},
                }
            ],
            "volumes": [{"name": "a"}, {"name": "b", "configMap": {"name": "x"}}],
        },
    ),
    post(PODS, "none", spec={}),
    post(PODS, "bare", spec={"containers": [{}]}),
    post(PODS, "bad", spec={"containers": [container("A"), {"name": "b"}]}),
    post(PODS, "twice", spec={"containers": [container("a"), container("a")]}),
    post(PODS, "port", spec={"containers": [container("a", ports=[{"containerPort": 0}])]}),
    post(PODS, "policy", spec={"containers": [container("a")], "restartPolicy": "Sometimes"}),
    post(PODS, "number", spec={"containers": [container("a", image=5)]}),
    merge(f"{PODS}/p", spec={"hostname": "h"}),
    merge(f"{PODS}/p/status", status={"phase": "Running", "podIP": "10.1.2.3"}),
    strategic(f"{PODS}/p/status", status={"conditions": [{"type": "Ready", "status": "True"}]}),
    strategic(f"{PODS}/p", spec={"containers": [{"name": "c", "image": "nginx:2"}]}),
    delete(f"{PODS}/p"),
    delete(f"{PODS}/p"),
    post(PODS, "placed", spec={"nodeName": "n", "containers": [container("a")]}),
    delete(f"{PODS}/placed"),
    delete(f"{PODS}/placed?gracePeriodSeconds=2"),
    delete(f"{PODS}/placed?gracePeriodSeconds=20"),
    post(PODS, "placed", spec={"nodeName": "n", "containers": [container("a")]}),
    delete(f"{PODS}/placed?gracePeriodSeconds=0"),
]
WORKLOADS = [
    post(DEPLOYMENTS, "d", spec={"selector": SELECTOR, "template": template()}),
    post(DEPLOYMENTS, "empty", spec={}),
    post(
        DEPLOYMENTS, "other", spec={"selector": {"matchLabels": {"a": "c"}}, "template": template()}
    ),
    post(DEPLOYMENTS, "few", spec={"replicas": -1, "template": {"spec": {"containers": []}}}),
    merge(f"{DEPLOYMENTS}/d", spec={"selector": {"matchLabels": {"c": "d"}}}),
    merge(f"{DEPLOYMENTS}/d", spec={"replicas": 3}),
    merge(f"{DEPLOYMENTS}/d", metadata={"annotations": {"x": "y"}}),
    merge(f"{DEPLOYMENTS}/d", metadata={"labels": {"x": "y"}}),
    merge(f"{DEPLOYMENTS}/d", status={"replicas": 7}),
    merge(f"{DEPLOYMENTS}/d/status", status={"replicas": 7}, spec={"replicas": 9}),
    strategic(
        f"{DEPLOYMENTS}/d",
        spec={"template": {"spec": {"containers": [{"name": "n", "image": "n"}]}}},
    ),
    strategic(f"{DEPLOYMENTS}/d", spec={"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}),
    delete(f"{DEPLOYMENTS}/d"),
    post(REPLICA_SETS, "r", spec={"selector": SELECTOR, "template": template()}),
    post(REPLICA_SETS, "s", spec={"template": template(restartPolicy="Never")}),
    post(JOBS, "j", spec={"template": {"spec": template(restartPolicy="Never")["spec"]}}),
    post(JOBS, "k", spec={"template": {"spec": {"containers": [container("a")]}}}),
    merge(f"{JOBS}/j", spec={"completions": 3}),
    merge(f"{JOBS}/j", spec={"parallelism": 3}),
    delete(f"{JOBS}/j?propagationPolicy=Background"),
    post(JOBS, "o", spec={"template": {"spec": template(restartPolicy="Never")["spec"]}}),
    delete(f"{JOBS}/o"),
]
NETWORK = [
    post(
        SERVICES, "s", spec={"clusterIP": "None", "selector": {"a": "b"}, "ports": [{"port": 80}]}
    ),
    post(SERVICES, "none", spec={}),
    post(SERVICES, "two", spec={"ports": [{"port": 0}, {"port": 70000}], "type": "Some"}),
    post(SERVICES, "named", spec={"type": "ExternalName"}),
    post(SERVICES, "alias", spec={"type": "ExternalName", "externalName": "example.com"}),
    delete(f"{SERVICES}/s"),
    post(
        SLICES,
        "e",
        addressType="IPv4",
        endpoints=[{"addresses": ["10.0.0.1"]}],
        ports=[{"port": 80}],
    ),
    post(SLICES, "f", endpoints=[{"addresses": []}]),
    post(SLICES, "g", addressType="IPv4", endpoints=[{"addresses": ["fd00::1"]}]),
    merge(f"{SLICES}/e", addressType="IPv6", endpoints=[{"addresses": ["fd00::1"]}]),
    delete(f"{SLICES}/e"),
]
OTHERS = [
    post(SECRETS, "s", stringData={"a": "b"}, data={"c": "ZA=="}),
    post(SECRETS, "t", data={"a": "?"}),
    post(SECRETS, "u", type="kubernetes.io/tls", data={}),
    merge(f"{SECRETS}/s", type="other"),
    merge(f"{SECRETS}/s", immutable=True),
    merge(f"{SECRETS}/s", data={"a": "ZA=="}),
    post(EVENTS, "e", involvedObject={"namespace": "NAMESPACE", "kind": "Pod", "name": "p"}),
    post(EVENTS, "f", involvedObject={"namespace": "elsewhere"}),
    post(
        NEW_EVENTS,
        "n",
        eventTime="2024-01-01T00:00:00.000000Z",
        type="Normal",
        reason="R",
        action="A",
        regarding={"namespace": "NAMESPACE", "kind": "Pod", "name": "p"},
        note="n",
        reportingController="a.b/c",
        reportingInstance="i",
    ),
    post(NEW_EVENTS, "o", type="Normal"),
    ("GET", f"{EVENTS}/n", None, JSON),
    ("GET", f"{NEW_EVENTS}/e", None, JSON),
    post(NODES, "agreed-node", status={"capacity": {"cpu": "2"}}),
    merge(f"{NODES}/agreed-node/status", status={"phase": "Running"}),
    merge(f"{NODES}/agreed-node", spec={"unschedulable": True}, status={"phase": "Pending"}),
    delete(f"{NODES}/agreed-node"),
    post("/api/v1/namespaces", "Bad_Name"),
    post("/api/v1/namespaces/nowhere/configmaps", "c"),
    delete("/api/v1/namespaces/default"),
    delete("/api/v1/namespaces"),
    ("PUT", "/api/v1/namespaces/NAMESPACE/configmaps", {"metadata": {"name": "a"}}, JSON),
    post("/api/v1/namespaces/NAMESPACE/nopes", "a"),
    post("/apis/nope.example.com/v1/nopes", "a"),
    ("PATCH", "/api/v1/namespaces/NAMESPACE/configmaps/a", {}, "application/apply-patch"),
    post("/api/v1/configmaps", "a"),
    delete("/api/v1/configmaps"),
    ("PUT", "/api/v1/configmaps/a", {"metadata": {"name": "a"}}, JSON),
    post("/api/v1/namespaces/NAMESPACE/nodes", "a"),
    delete("/api/v1/namespaces/NAMESPACE/configmaps?fieldSelector=data=x"),
    delete("/api/v1/namespaces/NAMESPACE/configmaps?labelSelector=%21%21"),
    delete("/api/v1/namespaces/NAMESPACE/configmaps?labelSelector=a%3Db"),
    delete("/api/v1/nodes/a/status"),
    ("PUT", "/api/v1/namespaces/NAMESPACE/configmaps/a/status", {}, JSON),
    ("POST", "/api/v1/namespaces/NAMESPACE/pods/a/status", {}, JSON),
    delete("/api/v1/namespaces/nowhere/configmaps"),
    ("PUT", "/apis/coordination.k8s.io/v1/namespaces/nowhere/leases/a", lease("a"), JSON),
]


@pytest.mark.parametrize(
    "requests", [POD, WORKLOADS, NETWORK, OTHERS], ids=["pod", "workloads", "network", "others"]
)
def test_built_in_kinds_are_checked_and_defaulted_as_by_kube_apiserver(
    requests: list[Request], control_plane: ControlPlane
) -> None:
    with InProcess(collects=False) as server:
        both = Both(control_plane.admin, server, comparable=without_admission)
        both.ask(*post("/api/v1/namespaces/NAMESPACE/serviceaccounts", "default")[:3])
        for method, path, body, content_type in requests:
            both.ask(method, path, body, content_type=content_type)


def schema(spec: Any) -> Json:
    return {"type": "object", "properties": {"spec": spec}}


STRING = {"type": "string"}
SCHEMAS: list[Any] = [
    {"type": "object"},
    {},
    {"type": "string"},
    {"type": "object", "nullable": True},
    {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    {"x-kubernetes-preserve-unknown-fields": True},
    schema({}),
    schema({"type": "unknown"}),
    schema({"properties": {"a": {}}}),
    schema({"type": "object", "additionalProperties": True}),
    schema({"type": "object", "additionalProperties": STRING, "properties": {"a": STRING}}),
    schema({"type": "array"}),
    schema({"type": "array", "items": {}}),
    schema({"type": "array", "items": [STRING]}),
    schema({"type": "array", "uniqueItems": True, "items": STRING}),
    schema({"type": "string", "pattern": "(?=a)"}),
    schema({"type": "string", "pattern": "["}),
    schema({"type": "string", "$ref": "#/x"}),
    schema({"type": "string", "unknown": 1}),
    schema({"type": "object", "anyOf": [{"type": "object"}]}),
    schema({"type": "object", "anyOf": [{"properties": {"a": {"minimum": 1}}}]}),
    schema({"type": "object", "not": {"properties": {"a": {"default": 1, "nullable": True}}}}),
    schema({"x-kubernetes-int-or-string": True}),
    schema({"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, STRING]}),
    schema({"type": "string", "default": 5}),
    schema({"type": "string", "default": "a", "enum": ["b"]}),
    schema({"type": "object", "default": {"x": 1}, "properties": {"a": STRING}}),
    schema({"type": "object", "properties": {"a": {"type": "string", "default": "x"}}}),
    schema({"x-kubernetes-preserve-unknown-fields": False, "type": "object"}),
    schema({"type": "object", "x-kubernetes-embedded-resource": True}),
    schema({"type": "array", "x-kubernetes-list-type": "map", "items": {"type": "object"}}),
    schema({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "object"}}),
    schema({"type": "array", "x-kubernetes-list-type": "bag", "items": STRING}),
    schema({"type": "integer", "enum": ["a"]}),
    {"type": "object", "properties": {"metadata": {"type": "string"}}},
    {"type": "object", "properties": {"metadata": schema({"type": "object"})}},
    {"type": "object", "properties": {"apiVersion": {"type": "integer"}}},
]
VERSION: Json = {
    "name": "v1",
    "served": True,
    "storage": True,
    "schema": {"openAPIV3Schema": {"type": "object"}},
}
SPECS: list[Json] = [
    {"group": "example"},
    {"group": "Example.com"},
    {"scope": "Everywhere"},
    {"scope": ""},
    {"versions": []},
    {"versions": [VERSION, VERSION]},
    {"versions": [{**VERSION, "storage": False}]},
    {"versions": [{**VERSION, "name": "v_1"}]},
    {"versions": [{**VERSION, "served": False}]},
    {"versions": [{**VERSION, "schema": None}]},
    {"versions": [VERSION, {**VERSION, "name": "v2", "storage": False}]},
    {"versions": [{**VERSION, "selectableFields": [{"jsonPath": ".spec.a"}]}]},
    {"names": {"plural": "others", "kind": "Other"}},
    {"names": {"plural": "Bad", "kind": "b_d"}},
    {"preserveUnknownFields": True},
    {"conversion": {"strategy": "Sometimes"}},
    {"group": "kinds.k8s.io"},
]


def definition(number: int, **spec: Any) -> Json:
    group = spec.get("group", "kinds.example.com")
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"kinds{number}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": f"kinds{number}", "kind": f"Kind{number}"},
            "versions": [VERSION],
            **spec,
        },
    }


def test_schemas_are_taken_and_refused_as_by_kube_apiserver(control_plane: ControlPlane) -> None:
    with InProcess(collects=False) as server:
        both = Both(control_plane.admin, server, comparable=blamed)
        for number, drawn in enumerate(SCHEMAS):
            version = {**VERSION, "schema": {"openAPIV3Schema": drawn}}
            for query in ("?dryRun=All", "?dryRun=All&fieldValidation=Strict"):
                both.ask("POST", DEFINITIONS + query, definition(number, versions=[version]))


def test_definitions_are_taken_and_refused_as_by_kube_apiserver(
    control_plane: ControlPlane,
) -> None:
    with InProcess(collects=False) as server:
        both = Both(control_plane.admin, server, comparable=outcome)
        for number, spec in enumerate(SPECS):
            both.ask("POST", f"{DEFINITIONS}?dryRun=All", definition(number, **spec))
