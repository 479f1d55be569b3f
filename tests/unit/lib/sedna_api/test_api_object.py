"""Documents: small, whole, and without what nobody reads."""

import json
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_sidecars.sedna_api.core.api_object import LAST_APPLIED, Document, NotADocument, ObjectKey

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=10,
)


def walked(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: walked(value) for key, value in tree.items()}
    return list(map(walked, tree)) if isinstance(tree, list) else tree


def raw(**metadata: Any) -> bytes:
    base = {"name": "d1", "namespace": "shop", "uid": "u", "resourceVersion": "71"}
    return json.dumps({"kind": "Dataset", "metadata": base | metadata}).encode()


def test_what_everybody_asks_is_at_hand() -> None:
    document = Document.parse(raw(generation=3), "dataset")

    assert document.key == ObjectKey("dataset", "shop", "d1")
    assert str(document.key) == "dataset shop/d1"
    assert (document.uid, document.resource_version, document.generation) == ("u", 71, 3)


def test_managed_fields_and_kubectls_copy_are_left_out_and_the_rest_stays() -> None:
    annotations = {LAST_APPLIED: "x" * 1000, "mine": "y"}
    document = Document.parse(raw(managedFields=[{"a": 1}], annotations=annotations), "dataset")

    metadata = document.json()["metadata"]
    assert "managedFields" not in metadata
    assert metadata["annotations"] == {"mine": "y"}
    assert len(document.raw) < 200


def test_annotations_go_when_none_is_left() -> None:
    document = Document.parse(raw(annotations={LAST_APPLIED: "x"}), "dataset")

    assert "annotations" not in document.json()["metadata"]


def test_whoever_gets_the_json_may_change_it() -> None:
    document = Document.parse(raw(), "dataset")
    document.json()["metadata"]["name"] = "other"

    assert document.json()["metadata"]["name"] == "d1"


@given(JSON_VALUES)
def test_an_object_is_one_line_and_says_what_it_said(spec: object) -> None:
    metadata = {"name": "d1", "resourceVersion": "1"}
    given_object = {"metadata": metadata, "spec": spec}
    document = Document.parse(json.dumps(given_object, indent=2).encode(), "dataset")

    assert document.json() == given_object
    assert b"\n" not in document.raw


@given(JSON_VALUES, JSON_VALUES, st.randoms(), st.booleans(), st.booleans())
def test_only_the_objects_own_managed_fields_go_wherever_they_are_and_whatever_they_are(
    managed: object, value: object, random: Random, is_compact: bool, is_copied: bool
) -> None:
    """As API servers write them, and as nobody does: a copy of the metadata in the object."""
    members = list({"name": "d1", "resourceVersion": "1", "managedFields": managed}.items())
    random.shuffle(members)
    metadata = dict(members)
    spec = {"template": {"metadata": metadata}, "x": value} if is_copied else value
    whole = list({"metadata": metadata, "spec": spec}.items())
    random.shuffle(whole)
    separators = (",", ":") if is_compact else None
    document = Document.parse(json.dumps(dict(whole), separators=separators).encode(), "dataset")

    del metadata["managedFields"]
    if is_copied:
        spec = {"template": {"metadata": metadata | {"managedFields": managed}}, "x": value}
    assert document.json() == {"metadata": metadata, "spec": spec}


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"{}",
        b'{"metadata":null}',
        b'{"metadata":{"resourceVersion":"1"}}',
        b'{"metadata":{"name":"a","resourceVersion":"abc"}}',
        b'{"metadata":{"name":"a","resourceVersion":"9223372036854775808"}}',
        b'{"metadata":{"name":"a","annotations":"' + LAST_APPLIED.encode() + b'"}}',
        b'{"metadata":' + b"[" * 100_000,
    ],
)
def test_what_is_no_object_of_the_api_is_refused(text: bytes) -> None:
    with pytest.raises(NotADocument):
        Document.parse(text, "dataset")


@pytest.mark.parametrize(
    ("spec", "kept"),
    [
        (b'{"a":' * 399 + b"1" + b"}" * 399, b'{"a":' * 399 + b"1" + b"}" * 399),
        (b'{"a":' * 400 + b"1" + b"}" * 400, b'{"a":' * 399 + b"null" + b"}" * 399),
        (b"[" * 9000 + b"]" * 9000, b"[" * 399 + b"null" + b"]" * 399),
        (b"[%b3]" % (b"%b," % (b"[" * 400 + b"]" * 400) * 2), None),
        (b"[%b[]]" % (b"{}," * 1000), b"[%b[]]" % (b"{}," * 1000)),
        (b'"%b"' % (rb"\"[{" * 1000), b'"%b"' % (rb"\"[{" * 1000)),
    ],
    ids=["as deep as may be", "deeper", "far deeper", "twice", "many brackets", "in a text"],
)
def test_who_has_a_document_can_walk_through_it(spec: bytes, kept: bytes | None) -> None:
    text = b'{"metadata":{"name":"a","resourceVersion":"7"},"spec":%b,"status":{}}'
    document = Document.parse(text % spec, "dataset")
    found = document.json()
    assert walked(found) == found
    assert (document.resource_version, found["status"]) == (7, {})
    if kept is not None:
        assert document.raw == text % kept
