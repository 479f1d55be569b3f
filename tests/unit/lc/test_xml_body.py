"""A worker's XML says what its JSON would."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lc.core.worker_info import UnusableReport
from lc.core.xml_body import MAX_DEPTH, MAX_ELEMENTS, parse

BOMB = b"""<!DOCTYPE a [<!ENTITY b "xxxxxxxxxx"><!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;">]>
<a><Name>&c;</Name></a>"""


def test_names_are_gos_or_jsons() -> None:
    gos = b"<WorkerMessage><Name>w</Name><OwnerKind>x</OwnerKind></WorkerMessage>"
    jsons = b"<w><name>w</name><ownerKind>x</ownerKind></w>"
    assert parse(gos) == parse(jsons) == {"name": "w", "ownerKind": "x"}


def test_results_are_a_list_of_objects_with_numbers() -> None:
    body = b"""<w><Results><Format>pb</Format><URL>/m/1.pb</URL>
      <Metrics><precision>0.5</precision><precision>0.75</precision></Metrics></Results></w>"""
    result = {"format": "pb", "url": "/m/1.pb", "metrics": {"precision": [0.5, 0.75]}}
    assert parse(body) == {"results": [result]}


def test_owner_info_has_numbers_and_texts() -> None:
    body = b"<w><name>7</name><ownerInfo><currentRound>3</currentRound><t>nan</t></ownerInfo></w>"
    assert parse(body) == {"name": "7", "ownerInfo": {"currentRound": 3, "t": "nan"}}


@pytest.mark.parametrize(
    "body",
    [
        BOMB,
        b'<!DOCTYPE a SYSTEM "http://127.0.0.1/x"><a><b>c</b></a>',
        b"<a>" * (MAX_DEPTH + 1) + b"</a>" * (MAX_DEPTH + 1),
        b"<a>" + b"<b/>" * MAX_ELEMENTS + b"</a>",
        b"<a><b></a>",
        b"<a>&unknown;</a>",
        b"plain",
        b"",
        b"<a>text alone</a>",
    ],
)
def test_what_could_hurt_or_says_nothing_is_refused(body: bytes) -> None:
    with pytest.raises(UnusableReport):
        parse(body)


@given(st.binary(max_size=60))
def test_any_bytes_are_an_object_or_refused(body: bytes) -> None:
    try:
        found = parse(b"<a>" + body + b"</a>")
    except UnusableReport:
        return
    assert all(isinstance(key, str) for key in found)
