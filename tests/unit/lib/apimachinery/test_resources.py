"""The fields that select objects.

That the table is kube-apiserver's, the integration tests hold against a real one.
"""

import json
from typing import Any

import pytest

from edge_sidecars.apimachinery.resources import (
    check_fields,
    fields_of,
    known_fields,
)
from edge_sidecars.apimachinery.scope import ResourceName
from edge_sidecars.apimachinery.selection.attrs import Attrs
from edge_sidecars.apimachinery.status import Refused

META: dict[str, Any] = {"name": "x", "namespace": "a"}
WIDGETS = ResourceName("example.com", "v1", "widgets")
SLICES = ResourceName("resource.k8s.io", "v1", "resourceslices")


def core(plural: str) -> ResourceName:
    return ResourceName("", "v1", plural)


def value(resource: ResourceName, path: str, **content: Any) -> str:
    raw = json.dumps({"metadata": META, **content}).encode()
    return fields_of(resource, Attrs(raw))(path)


@pytest.mark.parametrize(
    ("resource", "path", "content", "expected"),
    [
        (core("pods"), "metadata.name", {}, "x"),
        (core("pods"), "metadata.namespace", {}, "a"),
        (core("pods"), "spec.nodeName", {"spec": {"nodeName": "n"}}, "n"),
        (core("pods"), "spec.nodeName", {}, ""),
        (core("pods"), "spec.host", {"spec": {"nodeName": "n"}}, "n"),
        (core("pods"), "spec.hostNetwork", {"spec": {}}, "false"),
        (core("pods"), "spec.hostNetwork", {"spec": {"hostNetwork": True}}, "true"),
        (core("pods"), "status.podIPs", {"status": {"podIPs": [{"ip": "10.0.0.1"}]}}, ""),
        (core("nodes"), "spec.unschedulable", {}, "false"),
        (core("nodes"), "spec.unschedulable", {"spec": {"unschedulable": True}}, "true"),
        (core("replicationcontrollers"), "status.replicas", {}, "0"),
        (core("replicationcontrollers"), "status.replicas", {"status": {"replicas": 3}}, "3"),
        (core("events"), "source", {"reportingComponent": "c"}, "c"),
        (core("events"), "source", {"source": {"component": "s"}, "reportingComponent": "c"}, "s"),
        (core("events"), "involvedObject.kind", {"involvedObject": {"kind": "Pod"}}, "Pod"),
        (
            ResourceName("events.k8s.io", "v1", "events"),
            "regarding.kind",
            {"regarding": {"kind": "Pod"}},
            "Pod",
        ),
        (ResourceName("batch", "v1", "jobs"), "status.successful", {}, "0"),
        (
            ResourceName("batch", "v1", "jobs"),
            "status.successful",
            {"status": {"succeeded": 2}},
            "2",
        ),
        (WIDGETS, "spec.size", {"spec": {"size": 5}}, "5"),
        (WIDGETS, "spec.on", {"spec": {"on": False}}, "false"),
        (WIDGETS, "spec.on", {"spec": {}}, ""),
    ],
)
def test_values_are_those_that_kube_apiserver_compares(
    resource: ResourceName, path: str, content: dict[str, Any], expected: str
) -> None:
    assert value(resource, path, **content) == expected


def test_a_field_that_a_resource_lacks_is_empty() -> None:
    assert value(core("nodes"), "spec.podCIDR", spec={"podCIDR": "10.0.0.0/24"}) == ""


def test_of_custom_resources_nothing_is_known_without_openapi() -> None:
    assert known_fields(WIDGETS) is None
    assert known_fields(core("configmaps")) == frozenset({"metadata.name", "metadata.namespace"})
    assert known_fields(core("nodes")) == frozenset({"metadata.name", "spec.unschedulable"})


@pytest.mark.parametrize(
    ("resource", "message"),
    [
        (core("pods"), "field label not supported: foo"),
        (WIDGETS, "field label not supported: foo"),
        (ResourceName("batch", "v1", "jobs"), 'field label "foo" not supported for Job'),
        (
            SLICES,
            "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: foo",
        ),
        (
            ResourceName("batch", "v1", "cronjobs"),
            '"foo" is not a known field selector: only "metadata.name", "metadata.namespace"',
        ),
    ],
)
def test_an_unknown_field_is_refused_in_kube_apiservers_words(
    resource: ResourceName, message: str
) -> None:
    with pytest.raises(Refused) as refused:
        check_fields(resource, ("metadata.name", "foo", "bar"))
    status = refused.value.status
    assert (status.code, status.reason, status.message) == (400, "BadRequest", message)


def test_fields_that_a_custom_resource_publishes_are_known() -> None:
    paths = ("metadata.name", "metadata.namespace", "spec.color")
    check_fields(WIDGETS, paths, published={"spec.color"})
    with pytest.raises(Refused, match=r"field label not supported: spec\.color"):
        check_fields(WIDGETS, paths)


def test_a_custom_resource_without_namespace_is_not_selected_by_one() -> None:
    with pytest.raises(Refused, match=r"field label not supported: metadata\.namespace"):
        check_fields(WIDGETS, ("metadata.namespace",), is_namespaced=False)
