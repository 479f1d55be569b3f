"""S6: what is given up becomes free once the main has confirmed it, in few writes."""

import pytest

from elector_sidecar.shards.balance import GATHER, LONGEST_GATHER
from elector_sidecar.shards.ownership import Ownership

GIVEN_UP = 100.0
VALIDITY = 14.0


def handing_over(count: int) -> Ownership:
    ownership = Ownership()
    ownership.take(0.0, range(count), fencing_token=1)
    for shard in range(count):
        ownership.promise(shard, GIVEN_UP + VALIDITY)
    ownership.give_up(GIVEN_UP, count)
    return ownership


def test_what_is_given_up_waits_for_the_word_of_the_main_or_for_what_it_was_told() -> None:
    ownership = handing_over(1)
    assert ownership.ready(GIVEN_UP) == []
    assert ownership.ready_at(GIVEN_UP) == GIVEN_UP + VALIDITY
    assert ownership.ready(GIVEN_UP + VALIDITY) == [0]


def test_the_last_confirmation_makes_all_ready_at_once() -> None:
    ownership = handing_over(2)
    ownership.confirm(GIVEN_UP, 0, 1)
    assert ownership.ready(GIVEN_UP) == []
    ownership.confirm(GIVEN_UP + 0.001, 1, 1)
    assert ownership.ready(GIVEN_UP + 0.001) == [0, 1]


def test_one_confirmation_after_the_other_is_waited_for() -> None:
    ownership = handing_over(5)
    for shard in range(4):
        now = GIVEN_UP + shard * 0.9 * GATHER
        ownership.confirm(now, shard, 1)
        assert ownership.ready(now) == []
    assert ownership.ready_at(now) == pytest.approx(now + GATHER)
    assert ownership.ready(ownership.ready_at(now)) == [0, 1, 2, 3]


def test_nothing_waits_longer_than_a_tenth_of_a_second_for_other_confirmations() -> None:
    ownership = handing_over(20)
    ready: list[int] = []
    for shard in range(19):
        now = GIVEN_UP + shard * 0.9 * GATHER
        ownership.confirm(now, shard, 1)
        ready = ready or ownership.ready(now)
        assert bool(ready) == (now >= GIVEN_UP + LONGEST_GATHER)
