"""What selectors ask of an object."""

import pytest

from edge_sidecars.apimachinery.selection.attrs import Attrs, uid
from tests.unit.relay.streams.samples import encoded, metadata, pod

FULL = encoded(
    {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": metadata("web", 5, labels={"app": "web", "a.example/tier": "front"}),
        "spec": {"nodeName": "node-1", "hostNetwork": True, "replicas": 3, "none": None},
        "status": {"podIPs": [{"ip": "10.0.0.1"}], "share": 2.0},
    }
)


def test_facets_show_labels_and_fields_as_text() -> None:
    facets = Attrs(FULL)

    assert facets.labels == {"app": "web", "a.example/tier": "front"}
    paths = ("metadata.name", "metadata.namespace", "spec.nodeName")
    assert [facets.field(path) for path in paths] == ["web", "default", "node-1"]
    paths = ("spec.hostNetwork", "spec.replicas", "status.share")
    assert [facets.field(path) for path in paths] == ["true", "3", "2"]


@pytest.mark.parametrize(
    "path", ["spec.none", "spec.missing", "missing.path", "spec.nodeName.deeper", "status.podIPs"]
)
def test_a_field_that_is_no_scalar_is_empty(path: str) -> None:
    assert Attrs(FULL).field(path) == ""


def test_facets_show_whatever_stands_at_a_path() -> None:
    assert Attrs(FULL).value("status.podIPs") == [{"ip": "10.0.0.1"}]
    assert Attrs(FULL).value("status.missing") is None


def test_an_object_without_labels_has_none() -> None:
    assert Attrs(pod("a", 1)).labels == {}
    assert Attrs(b'{"metadata":{"labels":null}}').labels == {}


def test_a_uid_may_be_missing() -> None:
    assert uid(pod("a", 1, uid="6a1f")) == "6a1f"
    assert uid(pod("a", 1)) == ""
