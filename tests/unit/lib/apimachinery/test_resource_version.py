"""An object's bytes with another version, or its metadata alone; all others stay."""

import json

from edge_sidecars.apimachinery.resource_version import metadata_only, with_version
from tests.unit.relay.streams.samples import NESTED, encoded


def test_another_version_is_written_where_the_version_stands_and_nowhere_else() -> None:
    assert with_version(NESTED, 43) == NESTED.replace(b'"42"', b'"43"')


def test_equal_texts_elsewhere_keep_their_version() -> None:
    raw = encoded(
        {
            "a": {"metadata": {"name": "x", "resourceVersion": "42"}, "resourceVersion": "42"},
            "42": "42",
            "metadata": {"annotations": {"42": "42"}, "resourceVersion": "42", "uid": "42"},
            "z": {"metadata": {"name": "x", "resourceVersion": "42"}},
        }
    )
    wanted = json.loads(raw)
    wanted["metadata"]["resourceVersion"] = "1000"

    assert json.loads(with_version(raw, 1000)) == wanted


def test_an_object_full_of_its_own_version_is_changed_without_delay() -> None:
    labels = {str(n): "42" for n in range(50_000)}
    raw = encoded({"metadata": {"labels": labels, "resourceVersion": "42"}})
    changed = with_version(raw, 43)

    assert changed.count(b'"43"') == raw.count(b'"43"') + 1
    assert changed.endswith(b'"resourceVersion":"43"}}')


def test_metadata_alone_keeps_its_bytes() -> None:
    assert metadata_only(
        b'{"kind":"Pod","apiVersion":"v1","metadata":{ "name":"a", "x":1.0 },"spec":{}}',
        "meta.k8s.io/v1",
    ) == (
        b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1",'
        b'"metadata":{ "name":"a", "x":1.0 }}'
    )
