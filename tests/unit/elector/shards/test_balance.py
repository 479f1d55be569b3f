"""S3 and S4 as arithmetic: shares differ by at most one, and no move is too many."""

import math

from hypothesis import given
from hypothesis import strategies as st

from elector_sidecar.shards.balance import (
    GATHER,
    LONGEST_GATHER,
    Share,
    excess,
    gathered_at,
    quotas,
    taking,
)

COUNTS = st.integers(2, 256)
MEMBERS = st.dictionaries(
    st.sampled_from([f"pod-{n}" for n in range(50)]),
    st.builds(Share, st.integers(0, 40), st.booleans(), st.booleans()),
    min_size=1,
    max_size=50,
)


@given(members=MEMBERS, shards=COUNTS)
def test_quotas_are_all_shards_and_differ_by_at_most_one(
    members: dict[str, Share], shards: int
) -> None:
    found = quotas(members, shards)
    if found:
        assert sum(found.values()) == shards
        assert max(found.values()) - min(found.values()) <= 1


def test_a_fourth_member_of_64_shards_gets_16_and_none_moves_between_the_others() -> None:
    members = {"a": Share(22, True), "b": Share(21, True), "c": Share(21, True)}
    assert [excess(it, members | {"d": Share(0, True)}, 64) for it in "abc"] == [6, 5, 5]
    assert [excess(it, members, 64) for it in "abc"] == [0, 0, 0]


def test_quotas_stay_while_one_after_the_other_gives_up_its_own() -> None:
    members = {"a": Share(8, True), "b": Share(8, True), "c": Share(0, True)}
    assert (excess("a", members, 16), excess("b", members, 16)) == (2, 3)
    for after in ({"a": Share(6, True)}, {"b": Share(5, True)}):
        now = members | after
        given = (
            excess("a", now, 16) + excess("b", now, 16) + sum(8 - it.owned for it in after.values())
        )
        assert given == 5


def test_nothing_is_given_up_for_who_does_not_take() -> None:
    members = {"a": Share(8, True), "b": Share(8, True), "c": Share(0, True, can_take=False)}
    assert [excess(it, members, 16) for it in "abc"] == [0, 0, 0]
    some = members | {"d": Share(0, True)}
    assert [excess(it, some, 16) for it in "ab"] == [4, 0]


def test_who_has_not_settled_gets_nothing_unless_nobody_has() -> None:
    members = {"a": Share(32, True), "b": Share(32, True), "new": Share(0, False)}
    assert excess("a", members, 64) == 0
    assert quotas({"x": Share(0, False), "y": Share(0, False)}, 64) == {"x": 32, "y": 32}


def test_who_leaves_is_given_nothing() -> None:
    members = {"a": Share(16, True), "gone": Share(0, True, is_leaving=True)}
    assert quotas(members, 32) == {"a": 32}
    assert taking("gone", members, [1, 2], [], 32).shards == ()


@given(members=MEMBERS, shards=COUNTS)
def test_takers_take_different_shards_one_after_the_other(
    members: dict[str, Share], shards: int
) -> None:
    free = list(range(0, shards, 2))
    takings = [it for name in members if (it := taking(name, members, free, [], shards)).shards]
    taken = [shard for it in takings for shard in it.shards]
    assert len(taken) == len(set(taken))
    delays = [it.delay for it in takings]
    assert len(delays) == len(set(delays))


def test_what_nobody_took_in_time_is_taken_above_the_quota_too() -> None:
    members = {"a": Share(8, True), "b": Share(8, True)}
    assert taking("b", members, [], [3, 4], 16).shards == (3, 4)


def test_a_taker_knows_whether_more_is_to_become_free() -> None:
    members = {"a": Share(18, True), "b": Share(21, True), "c": Share(0, True)}
    assert not taking("c", members, list(range(15)), [], 54).are_all
    members["b"] = Share(18, True)
    assert taking("c", members, list(range(18)), [], 54).are_all


def test_what_becomes_free_one_after_the_other_is_written_together_but_not_late() -> None:
    assert gathered_at([]) == math.inf
    assert gathered_at([5.0]) == 5.0 + GATHER
    assert gathered_at([5.0, 5.01]) == 5.01 + GATHER
    assert gathered_at([5.0, 5.0 + LONGEST_GATHER]) == 5.0 + LONGEST_GATHER
