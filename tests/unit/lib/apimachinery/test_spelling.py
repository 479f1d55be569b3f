"""However an object is spelled in JSON, it is read as a plain reader of JSON reads it."""

import json
import re
from random import Random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from edge_sidecars.apimachinery.objects import (
    Malformed,
    read_event,
    read_item,
    read_page,
    read_table_versions,
)
from edge_sidecars.apimachinery.resource_version import metadata_only, with_version
from tests.examples import play
from tests.unit.lib.apimachinery.spelling import Members, objects, spelled, texts

# Not st.randoms: each choice of a spelling would be drawn, and slowly.
randoms = st.integers(0, 2**32).map(Random)
thorough = play(150)


def without_space(raw: bytes) -> bytes:
    """Strings stay."""
    return re.sub(rb'("(?:\\.|[^"\\])*")|\s+', lambda found: found[1] or b"", raw)


@thorough
@given(objects(), randoms)
def test_an_item_is_what_a_plain_reader_of_json_sees(value: Members, random: Random) -> None:
    raw = spelled(value, random)
    item = read_item(raw)
    seen = json.loads(raw)

    assert item.key == (seen["metadata"].get("namespace", ""), seen["metadata"]["name"])
    assert item.version == int(seen["metadata"]["resourceVersion"])
    assert item.raw == (without_space(raw) if re.search(rb"[\r\n]", raw.strip()) else raw.strip())
    assert json.loads(item.raw) == seen


@thorough
@given(objects(), randoms, st.integers(0, 2**63 - 1))
def test_another_version_changes_one_stretch_of_bytes_and_nothing_that_is_read_but_the_version(
    value: Members, random: Random, version: int
) -> None:
    raw = spelled(value, random)
    changed = with_version(raw, version)
    seen = json.loads(raw)
    assume(seen["metadata"]["resourceVersion"] != str(version))
    seen["metadata"]["resourceVersion"] = str(version)

    assert json.loads(changed) == seen
    new = b'"%d"' % version
    ends = [at for at in range(len(changed)) if changed.startswith(new, at)]
    assert any(
        raw.startswith(changed[:at]) and raw.endswith(changed[at + len(new) :]) for at in ends
    )


@thorough
@given(objects(), randoms)
def test_metadata_alone_is_what_a_plain_reader_of_json_sees(value: Members, random: Random) -> None:
    raw = spelled(value, random)

    assert json.loads(metadata_only(raw, "meta.k8s.io/v1")) == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": json.loads(raw)["metadata"],
    }


@thorough
@given(st.lists(objects(), max_size=2), randoms)
def test_items_of_a_page_are_what_a_plain_reader_of_json_sees(
    things: list[Members], random: Random
) -> None:
    bare = [Members(m for m in thing if m[0] not in ("kind", "apiVersion")) for thing in things]
    body = spelled(
        Members(
            [
                ("items", bare),
                ("metadata", Members([("resourceVersion", "9")])),
                ("apiVersion", "a.example/v1"),
                ("kind", "ThingList"),
            ]
        ),
        random,
    )
    read = [json.loads(item.raw) for item in read_page(body).items]

    kind = {"kind": "Thing", "apiVersion": "a.example/v1"}
    assert read == [{**kind, **seen} for seen in json.loads(body)["items"]]


@thorough
@given(st.binary(max_size=60) | texts.map(str.encode))
def test_no_bytes_raise_anything_but_malformed(junk: bytes) -> None:
    for read in (read_item, read_event, read_page, read_table_versions):
        with pytest.raises(Malformed):
            read(junk)
