"""When LC redials, and where."""

from lc.core.reception import STABLE_AFTER, Reception
from sedna_api.core.redial import AFTER_DRAIN, FIRST

ALMOST = 0.999


def test_who_is_turned_away_comes_ever_thinner_up_to_the_cap() -> None:
    reception = Reception(["a:1"], longest=2.0)
    delays = [reception.ended(served_for=None, is_drained=False, chance=ALMOST) for _ in range(10)]
    assert delays == sorted(delays)
    assert delays[0] < FIRST
    assert 1.9 < delays[-1] < 2.0


def test_long_service_lets_the_next_failure_be_the_first() -> None:
    reception = Reception(["a:1"], longest=8.0)
    for _ in range(10):
        reception.ended(served_for=None, is_drained=False, chance=ALMOST)
    assert reception.ended(served_for=STABLE_AFTER, is_drained=False, chance=ALMOST) < FIRST


def test_two_lcs_that_end_each_others_streams_come_thinner_too() -> None:
    reception = Reception(["a:1"], longest=8.0)
    for _ in range(10):
        delay = reception.ended(served_for=0.1, is_drained=False, chance=ALMOST)
    assert delay > 7.0


def test_who_was_served_and_is_sent_elsewhere_is_there_soon() -> None:
    reception = Reception(["a:1"], longest=8.0)
    for _ in range(10):
        reception.ended(served_for=None, is_drained=False, chance=ALMOST)
    assert reception.ended(served_for=0.0, is_drained=True, chance=ALMOST) < AFTER_DRAIN


def test_who_was_never_served_gains_nothing_from_being_sent_elsewhere() -> None:
    reception = Reception(["a:1"], longest=8.0)
    for _ in range(10):
        delay = reception.ended(served_for=None, is_drained=True, chance=ALMOST)
    assert delay > 7.0


def test_the_next_dial_goes_to_another_gm_where_there_is_one() -> None:
    reception = Reception(["a:1", "b:1", "c:1"], longest=8.0)
    for chance in (0.0, 0.5, ALMOST) * 5:
        last = reception.address(chance)
        assert reception.address(chance) != last
    alone = Reception(["a:1"], longest=8.0)
    assert {alone.address(ALMOST), alone.address(0.0)} == {"a:1"}
