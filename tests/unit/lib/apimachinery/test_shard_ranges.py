"""The hash and the ranges are Kubernetes' own (KEP-5866)."""

import json
import os
import re
import shutil
import subprocess
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_sidecars.apimachinery.selection.shard_ranges import fnv1a, selector, shard_of, shard_range
from edge_sidecars.leader_client import Shard
from tests.unit.repository.checkout import ROOT

COUNTS = st.integers(2, 256)


KNOWN = json.loads((ROOT / "examples/sharded-operator/testdata/shards.json").read_text())


@pytest.mark.parametrize("known", KNOWN, ids=lambda known: known["uid"] or "empty")
def test_hashes_and_shards_are_the_known_ones(known: dict[str, Any]) -> None:
    """Hashes by sharding.HashField of k8s.io/apimachinery v0.36.3."""
    uid = known["uid"]
    assert f"{fnv1a(uid):016x}" == known["hash"]
    shards = {int(count): shard for count, shard in known["shards"].items()}
    assert {count: shard_of(uid, count) for count in shards} == shards
    assert {count for count in shards if Shard(shards[count], count, "1").covers(uid)} == set(
        shards
    )


def test_the_example_in_go_finds_the_same_shards() -> None:
    """`go test` of the one file without dependencies, which reads the same table."""
    if shutil.which("go") is None:
        pytest.skip("go is not installed")
    names = ["shard_of.go", "shard_of_test.go"]
    folder = ROOT / "examples/sharded-operator"
    # No fetch of another toolchain, and no telemetry.
    environment = os.environ | {"GOTOOLCHAIN": "local", "GOFLAGS": "-mod=mod"}
    done = subprocess.run(
        ["go", "test", *names], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


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
