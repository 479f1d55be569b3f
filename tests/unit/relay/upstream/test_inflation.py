"""Gzip bodies, inflated as they arrive."""

import gzip
import zlib
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_sidecars.kubeapi import Unreachable
from relay_sidecar.upstream.streaming import Inflation

SIZE = 100


def inflated(packed: bytes, cuts: list[int]) -> bytes:
    """Of a body that arrives in pieces, cut at these places."""
    inflation, content = Inflation(SIZE), b""
    for start, end in pairwise([0, *sorted(cuts), len(packed)]):
        for piece in inflation.pieces(packed[start:end]):
            assert 0 < len(piece) <= SIZE
            content += piece
    inflation.end()
    return content


contents = st.lists(st.binary(max_size=50).map(lambda some: some * 20), min_size=1, max_size=3)
cuts = st.lists(st.integers(0, 200), max_size=6)


@given(contents, cuts)
def test_the_content_is_the_same_however_its_members_arrive(
    members: list[bytes], cuts: list[int]
) -> None:
    packed = b"".join(map(gzip.compress, members))
    assert inflated(packed, [cut for cut in cuts if cut <= len(packed)]) == b"".join(members)


@given(contents, st.data())
def test_what_is_not_whole_is_broken(members: list[bytes], data: st.DataObject) -> None:
    last = gzip.compress(members[-1])
    packed = b"".join(map(gzip.compress, members[:-1])) + last
    missing = data.draw(st.integers(1, len(last) - 1))
    with pytest.raises(Unreachable):
        inflated(packed[:-missing], [])


@pytest.mark.parametrize("after", [b"garbage", b"\x1f\x8b\x08"])
def test_what_follows_the_last_member_is_broken(after: bytes) -> None:
    with pytest.raises(Unreachable):
        inflated(gzip.compress(b"content") + after, [])


@pytest.mark.parametrize("content", [bytes(SIZE), bytes(2 * SIZE), bytes(1_000_000)])
def test_a_body_that_inflates_a_thousandfold_comes_in_pieces(content: bytes) -> None:
    assert inflated(gzip.compress(content), []) == content
    with pytest.raises(Unreachable):
        inflated(zlib.compress(content), [])
