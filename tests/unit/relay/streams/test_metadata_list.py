"""A list of upstream as metadata: its version, and whether its objects are those of a stream."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_sidecars.apimachinery.objects import Malformed
from edge_sidecars.apimachinery.store import fingerprint_of
from relay_sidecar.core.stream.lists import read_metadata
from tests.unit.relay.kept_tokens.token_bodies import content, integer
from tests.unit.relay.streams.samples import item, metadata

NAMES = ("a", "b", "c" * 200)


def encoded(number: int, value: int | bytes) -> bytes:
    return integer(number, value) if isinstance(value, int) else content(number, value)


def text(number: int, value: str) -> bytes:
    return encoded(number, value.encode())


def one(name: str, version: int, *, namespace: str = "default") -> bytes:
    """As Go writes it: empty strings, too, and in the order of the numbers."""
    meta = [
        text(1, name),
        text(2, ""),
        text(3, namespace),
        text(4, ""),
        text(5, "uid"),
        text(6, str(version)),
        encoded(7, 3),
        encoded(11, text(1, "app") + text(2, "web")),
    ]
    return encoded(1, b"".join(meta))


def body(*items: bytes, version: int, token: str = "") -> bytes:
    meta = text(1, "") + text(2, str(version)) + text(3, token)
    raw = encoded(1, meta) + b"".join(encoded(2, each) for each in items)
    kind = text(1, "meta.k8s.io/v1") + text(2, "PartialObjectMetadataList")
    return b"k8s\x00" + encoded(1, kind) + encoded(2, raw) + text(3, "") + text(4, "")


def in_json(*objects: tuple[str, int], version: int) -> bytes:
    items = [{"metadata": metadata(name, at)} for name, at in objects]
    document = {
        "kind": "PartialObjectMetadataList",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": str(version)},
        "items": items,
    }
    return json.dumps(document).encode()


@pytest.mark.parametrize("count", [0, 1, 3])
@pytest.mark.parametrize("form", ["protobuf", "json"])
def test_a_list_has_the_fingerprint_of_a_stream_with_the_same_objects(
    form: str, count: int
) -> None:
    objects = [(name, 90 + at) for at, name in enumerate(NAMES[:count])]
    if form == "json":
        listed = read_metadata(in_json(*objects, version=120))
    else:
        listed = read_metadata(body(*(one(*each) for each in objects), version=120))
    assert listed.version == 120
    assert listed.fingerprint() == fingerprint_of(item(*each) for each in objects)


@pytest.mark.parametrize("versions", [(99, 100), (120, 9_000_000_000_000)])
def test_the_digest_is_of_the_objects_alone(versions: tuple[int, int]) -> None:
    """The same ones at another version of the list; and other ones."""
    same = [read_metadata(body(one("a", 90), version=each)) for each in versions]
    assert same[0].digest == same[1].digest
    for other in (one("a", 91), one("b", 90), one("a", 90, namespace="other")):
        assert read_metadata(body(other, version=versions[0])).digest != same[0].digest
    assert read_metadata(body(version=versions[0])).digest != same[0].digest


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"k8s\x00",
        b"k8s\x00\x12",
        b"{",
        b'{"kind":"Status","apiVersion":"v1","metadata":{}}',
        body(one("a", 90), version=120, token="more"),
        in_json(("a", 90), version=120).replace(b'"resourceVersion": "120"', b'"continue": "x"'),
        b"k8s\x00" + encoded(2, encoded(2, one("a", 90))),
        b"k8s\x00" + encoded(2, encoded(1, text(2, "abc"))),
    ],
)
def test_what_is_no_whole_list_proves_nothing(answer: bytes) -> None:
    with pytest.raises(Malformed):
        read_metadata(answer)


@given(st.integers(min_value=0, max_value=len(body(one("a", 90), one("b", 91), version=120)) - 1))
def test_a_list_that_was_cut_off_is_malformed_or_of_other_objects(end: int) -> None:
    whole = body(one("a", 90), one("b", 91), version=120)
    try:
        listed = read_metadata(whole[:end])
        fingerprint = listed.fingerprint()
    except Malformed:
        return
    # But for what comes after the content.
    assert fingerprint == read_metadata(whole).fingerprint()
    assert end > len(whole) - 5


@pytest.mark.parametrize("meta", [b"", text(1, "a"), text(6, "x"), encoded(1, 3)])
def test_an_object_without_name_or_version_is_malformed(meta: bytes) -> None:
    listed = read_metadata(body(encoded(1, meta), version=120))
    with pytest.raises(Malformed):
        listed.fingerprint()
