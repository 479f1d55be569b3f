"""Draws objects with duplicate keys, and every way to spell them as JSON."""

import json
from random import Random

from hypothesis import strategies as st

Pairs = list[tuple[str, object]]


class Members(list[tuple[str, object]]):
    """Of a JSON object, in their order and with duplicates."""


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.sampled_from(
    ["metadata", "resourceVersion", "name", "42", '"42"', "\n", "\\"]
)
scalars = st.none() | st.booleans() | st.integers(-(2**40), 2**40) | texts
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=2) | st.lists(st.tuples(texts, inner), max_size=2).map(Members)
    ),
    max_leaves=5,
)
versions = st.sampled_from(["42", "0", "7"])


@st.composite
def metadatas(draw: st.DrawFn) -> Members:
    own: Pairs = [("name", draw(texts)), ("resourceVersion", draw(versions))]
    known = {"name", "resourceVersion", "namespace", "uid", "labels"}
    others = st.tuples(texts.filter(lambda key: key not in known), values)
    drawn = draw(st.lists(others, max_size=2))
    repeated: Pairs = draw(st.lists(st.tuples(st.just("resourceVersion"), versions), max_size=1))
    return Members(draw(st.permutations([*own, *repeated, *drawn])))


@st.composite
def objects(draw: st.DrawFn) -> Members:
    metas: Pairs = [
        ("metadata", meta) for meta in draw(st.lists(metadatas(), min_size=1, max_size=2))
    ]
    own: Pairs = [("kind", "Thing"), ("apiVersion", "a.example/v1")]
    known = {"metadata", "kind", "apiVersion"}
    others = st.tuples(texts.filter(lambda key: key not in known), values)
    return Members(draw(st.permutations([*metas, *own, *draw(st.lists(others, max_size=2))])))


def spelled(value: object, random: Random) -> bytes:
    """JSON with arbitrary whitespace and escapes."""
    match value:
        case Members():
            members = [
                b"%s:%s" % (padded(key, random), padded(member, random)) for key, member in value
            ]
            return b"{%s}" % b",".join(members)
        case list():
            return b"[%s]" % b",".join(padded(member, random) for member in value)
        case str():
            return b'"%s"' % b"".join(character(c, random) for c in value)
        case _:
            return json.dumps(value).encode()


def padded(value: object, random: Random) -> bytes:
    before, after = random.choices([b"", b" ", b"\t", b"\n  ", b"\r\n"], k=2)
    return before + spelled(value, random) + after


def character(c: str, random: Random) -> bytes:
    if random.random() < 0.2:
        return json.dumps(c)[1:-1].encode() if ord(c) > 0xFFFF else b"\\u%04x" % ord(c)
    return json.dumps(c, ensure_ascii=False)[1:-1].encode()
