"""The version that an answer tells is read in each form, and nothing is guessed at."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_sidecars.apimachinery.request.accept import Form
from edge_sidecars.apimachinery.resource_version import response_version, version_at_head

META = {"name": "a", "resourceVersion": "42"}
PARTIAL = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": META}
TABLE = {
    "kind": "Table",
    "apiVersion": "meta.k8s.io/v1",
    "metadata": {"resourceVersion": "42"},
    "columnDefinitions": [],
    "rows": [],
}


def varint(value: int) -> bytes:
    found = b""
    while value > 0x7F:
        found += bytes([value & 0x7F | 0x80])
        value >>= 7
    return found + bytes([value])


def field(number: int, value: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(value)) + value


def enveloped(metadata: bytes) -> bytes:
    """As kube-apiserver sends an object or list, with other fields around it."""
    kind = field(1, field(1, b"v1") + field(2, b"Pod"))
    rest = field(2, b"x" * 300) + varint(3 << 3 | 0) + varint(2**40) + varint(4 << 3 | 5) + b"1234"
    return b"k8s\x00" + kind + field(2, field(1, metadata) + rest) + field(3, b"") + field(4, b"")


OBJECT = enveloped(field(1, b"name") + field(3, b"space") + field(5, b"uid") + field(6, b"42"))
LIST = enveloped(field(1, b"") + field(2, b"42") + field(3, b"token"))


@pytest.mark.parametrize(
    ("body", "form", "is_list"),
    [
        (json.dumps(PARTIAL).encode(), Form.METADATA, False),
        (json.dumps(TABLE).encode(), Form.TABLE, False),
        (json.dumps(TABLE).encode(), Form.TABLE, True),
        (OBJECT, Form.OTHER, False),
        (LIST, Form.OTHER, True),
    ],
)
def test_the_version_is_read(body: bytes, form: Form, is_list: bool) -> None:
    assert response_version(body, form, is_list=is_list) == 42


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"kind: Pod\nmetadata:\n  resourceVersion: '42'\n",
        b'{"kind":"Status","apiVersion":"v1","metadata":{}}',
        enveloped(field(1, b"name")),
        enveloped(field(6, b"forty-two")),
        enveloped(field(6, b"\xff")),
    ],
)
@pytest.mark.parametrize("form", list(Form))
def test_where_there_is_none_none_is_told(body: bytes, form: Form) -> None:
    assert response_version(body, form, is_list=False) is None


@given(body=st.binary(max_size=200), cut=st.integers(0, len(OBJECT)))
def test_whatever_is_sent_the_answer_is_a_version_or_none(body: bytes, cut: int) -> None:
    version = response_version(b"k8s\x00" + body, Form.OTHER, is_list=False)
    assert version is None or version >= 0
    assert response_version(OBJECT[:cut], Form.OTHER, is_list=False) in {None, 42}


@pytest.mark.parametrize(
    ("begun", "version"),
    [
        (b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"42"},"items":[', 42),
        (b'{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"42",', 42),
        # Cut off within the version, or a client's idea of one.
        (b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"4', None),
        # A custom resource's: first come its items, which may hold anything.
        (
            b'{"apiVersion":"g/v1","items":[{"kind":"PodList","metadata":{"resourceVersion":"1"}',
            None,
        ),
        (b'{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[]}', None),
        (b"", None),
    ],
)
def test_a_list_tells_its_version_at_its_head_or_not_there(
    begun: bytes, version: int | None
) -> None:
    assert version_at_head(begun) == version
