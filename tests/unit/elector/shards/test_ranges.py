"""The hash and the ranges are Kubernetes' own (KEP-5866)."""

import re
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from elector_sidecar.shards.table.ranges import fnv1a, selector, shard_of, shard_range

COUNTS = st.integers(2, 256)


def test_the_hash_is_64_bit_fnv_1a() -> None:
    """The vectors of draft-eastlake-fnv."""
    assert fnv1a("") == 0xCBF29CE484222325
    assert fnv1a("a") == 0xAF63DC4C8601EC8C
    assert fnv1a("foobar") == 0x85944171F73967E8


@given(uid=st.uuids().map(str), shards=COUNTS)
def test_an_object_is_in_the_range_of_its_shard_and_in_no_other(uid: str, shards: int) -> None:
    inside = [
        shard
        for shard in range(shards)
        if int(shard_range(shard, shards)[0], 16)
        <= fnv1a(uid)
        < int(shard_range(shard, shards)[1], 16)
    ]
    assert inside == [shard_of(uid, shards)]


@given(shards=COUNTS)
def test_the_ranges_are_the_whole_ring_without_a_gap(shards: int) -> None:
    ranges = [shard_range(shard, shards) for shard in range(shards)]
    assert ranges[0][0] == "0x0000000000000000"
    assert ranges[-1][1] == "0x10000000000000000"
    assert all(ranges[n][1] == ranges[n + 1][0] for n in range(shards - 1))


@given(owned=st.sets(st.integers(0, 63)), uid=st.uuids().map(str))
def test_a_selector_selects_what_is_owned_with_neighbours_merged(owned: set[int], uid: str) -> None:
    text = selector(owned, 64)
    if not owned:
        assert text is None
        return
    assert text is not None
    spans = re.findall(r"shardRange\(object\.metadata\.uid,'(0x\w{16,17})','(0x\w{16,17})'\)", text)
    assert text.count("||") == len(spans) - 1
    assert all(end != start for (_, end), (start, _) in pairwise(spans))
    is_selected = any(int(start, 16) <= fnv1a(uid) < int(end, 16) for start, end in spans)
    assert is_selected == (shard_of(uid, 64) in owned)
