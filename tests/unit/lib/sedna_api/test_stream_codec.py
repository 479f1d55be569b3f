"""The stream's messages and their bytes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_sidecars.sedna_api import stream_pb2 as wire
from edge_sidecars.sedna_api.core.api_object import Document
from edge_sidecars.sedna_api.core.messages import (
    Ack,
    Delete,
    Drain,
    FromNode,
    Hello,
    Pace,
    Put,
    ReportRefused,
    Rewound,
    SnapshotEnd,
    ToNode,
)
from edge_sidecars.sedna_api.core.report import Report
from edge_sidecars.sedna_api.stream_codec import (
    METHOD,
    NotAMessage,
    decode_from_node,
    decode_to_node,
    encode_from_node,
    encode_to_node,
)

text = st.text(max_size=20)
numbers = st.integers(0, 2**63 - 1)


def document(name: str, version: int) -> Document:
    metadata = {"name": name, "resourceVersion": str(version), "uid": "u"}
    return Document.parse(json.dumps({"metadata": metadata}).encode(), "dataset")


reports = st.builds(
    Report,
    store_id=text,
    seq=numbers,
    uid=text,
    kind=text,
    namespace=text,
    name=text,
    is_event=st.booleans(),
    worker=text,
    body=st.binary(max_size=50),
    previous=numbers,
)
from_node = st.one_of(
    st.builds(Hello, text, text, st.dictionaries(text, numbers, max_size=3), text), reports
)
to_node = st.one_of(
    st.builds(Put, st.builds(document, text, numbers)),
    st.builds(Delete, text, text, text, text, numbers),
    st.just(SnapshotEnd()),
    st.builds(Ack, text, text, numbers),
    st.builds(ReportRefused, text, text, numbers, text),
    st.builds(Drain, text),
    st.just(Rewound()),
    st.builds(Pace, st.floats(0, 1e6)),
)


@given(from_node)
def test_what_a_node_says_is_what_gm_hears(message: FromNode) -> None:
    assert decode_from_node(encode_from_node(message)) == message


@given(to_node)
def test_what_gm_says_is_what_a_node_hears(message: ToNode) -> None:
    assert decode_to_node(encode_to_node(message)) == message


@given(st.binary(max_size=60))
def test_bytes_are_a_message_or_none_and_nothing_else_is_raised(data: bytes) -> None:
    for decode in (decode_from_node, decode_to_node):
        try:
            decode(data)
        except NotAMessage:
            continue


def test_a_put_that_holds_no_object_is_no_message() -> None:
    broken = wire.ToNode(put=wire.Put(kind="dataset", object=b"{}")).SerializeToString()
    with pytest.raises(NotAMessage):
        decode_to_node(broken)


def test_a_message_of_a_later_version_says_nothing() -> None:
    # Field 99, a string.
    later = b"\x9a\x06\x03new"
    assert decode_from_node(later) is None
    assert decode_to_node(later) is None


def test_the_method_is_the_one_of_the_proto() -> None:
    service = wire.DESCRIPTOR.services_by_name["Hub"]
    assert f"/{service.full_name}/{service.methods[0].name}" == METHOD
