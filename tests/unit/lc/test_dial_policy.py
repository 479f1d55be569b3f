"""When LC redials, and where."""

from edge_sidecars.runtime.backoff import FIRST
from lc.core.dial_policy import (
    AFTER_DRAIN,
    GONE,
    LONGEST_IN_TAKEOVER,
    ROUND,
    STABLE_AFTER,
    TAKEOVER,
    DialPolicy,
)

ALMOST = 0.999
# Beyond what the takeover of a leader takes.
MANY = 20


def test_who_is_turned_away_comes_ever_thinner_up_to_the_cap() -> None:
    policy = DialPolicy(["a:1"], longest=2.0)
    delays = [policy.ended(served_for=None, is_drained=False, chance=ALMOST) for _ in range(10)]
    assert delays == sorted(delays)
    assert delays[0] < FIRST
    assert 1.9 < delays[-1] < 2.0


def test_long_service_lets_the_next_failure_be_the_first() -> None:
    policy = DialPolicy(["a:1"], longest=8.0)
    for _ in range(10):
        policy.ended(served_for=None, is_drained=False, chance=ALMOST)
    assert policy.ended(served_for=STABLE_AFTER, is_drained=False, chance=ALMOST) < FIRST


def test_two_lcs_that_end_each_others_streams_come_thinner_too() -> None:
    policy = DialPolicy(["a:1"], longest=8.0)
    for _ in range(MANY):
        delay = policy.ended(served_for=0.1, is_drained=False, chance=ALMOST)
    assert delay > 7.0


def test_who_was_served_and_is_sent_elsewhere_is_there_soon() -> None:
    policy = DialPolicy(["a:1"], longest=8.0)
    for _ in range(10):
        policy.ended(served_for=None, is_drained=False, chance=ALMOST)
    assert policy.ended(served_for=0.0, is_drained=True, chance=ALMOST) < AFTER_DRAIN

    assert policy.ended(served_for=None, is_drained=False, chance=ALMOST) < FIRST


def test_who_was_never_served_gains_nothing_from_being_sent_elsewhere() -> None:
    policy = DialPolicy(["a:1"], longest=8.0)
    for _ in range(MANY):
        delay = policy.ended(served_for=None, is_drained=True, chance=ALMOST)
    assert delay > 7.0


def test_the_next_dial_goes_to_another_gm_where_there_is_one() -> None:
    policy = DialPolicy(["a:1", "b:1", "c:1"], longest=8.0)
    for chance in (0.0, 0.5, ALMOST) * 5:
        last = policy.address(chance)
        assert policy.address(chance) != last
    alone = DialPolicy(["a:1"], longest=8.0)
    assert {alone.address(ALMOST), alone.address(0.0)} == {"a:1"}


def test_nobody_waits_long_while_a_new_leader_may_be_on_its_way() -> None:
    policy = DialPolicy(["a:1"], longest=8.0)
    waited = 0.0
    while waited < TAKEOVER:
        delay = policy.ended(served_for=None, is_drained=False, chance=ALMOST)
        assert delay < LONGEST_IN_TAKEOVER
        waited += delay
    assert policy.ended(served_for=None, is_drained=False, chance=ALMOST) > 7.0
    soon = policy.ended(served_for=STABLE_AFTER, is_drained=False, chance=ALMOST)
    for _ in range(5):
        soon = max(soon, policy.ended(served_for=None, is_drained=False, chance=ALMOST))
    assert soon < LONGEST_IN_TAKEOVER


def test_all_addresses_are_tried_before_a_wait_grows() -> None:
    addresses = ["a:1", "b:1", "c:1"]
    policy = DialPolicy(addresses, longest=8.0)
    ends = []
    for _ in range(MANY):
        round_ = []
        for _ in addresses:
            round_.append(policy.address(0.5))
            delay = policy.ended(served_for=None, is_drained=False, chance=ALMOST)
            ends.append(delay)
        assert sorted(round_) == addresses
    within = [delay for number, delay in enumerate(ends) if number % 3 != 2]
    assert max(within) < FIRST
    between = ends[2::3]
    assert between == sorted(between)
    assert between[-1] > 7.0


def test_two_lcs_that_end_each_others_streams_come_thinner_at_many_gms_too() -> None:
    policy = DialPolicy(["a:1", "b:1"], longest=8.0)
    delays = []
    for _ in range(2 * MANY):
        policy.address(0.5)
        delays.append(policy.ended(served_for=0.1, is_drained=False, chance=ALMOST))
    assert delays[-1] > 7.0


def test_whose_gm_is_gone_tries_the_others_at_once() -> None:
    policy = DialPolicy(["a:1", "b:1", "c:1"], longest=8.0)
    first = policy.address(0.0)
    assert policy.ended(served_for=STABLE_AFTER, is_drained=False, chance=ALMOST) < FIRST
    second = policy.address(0.0)
    assert policy.ended(served_for=None, is_drained=False, chance=ALMOST) < FIRST
    assert {first, second, policy.address(0.0)} == {"a:1", "b:1", "c:1"}


def test_a_crowd_spreads_its_dials_over_the_pace_that_gm_asks_for() -> None:
    policy = DialPolicy(["a:1", "b:1", "c:1"], longest=8.0)
    policy.address(0.0)
    policy.paced(2.0)
    assert policy.ended(served_for=60.0, is_drained=False, chance=0.0) == 0.0
    policy.address(0.0)
    # The other GM is asked soon: who came at one moment does not come at the next together.
    assert policy.ended(served_for=None, is_drained=False, chance=ALMOST) < FIRST
    policy.address(0.0)
    between_rounds = policy.ended(served_for=None, is_drained=False, chance=0.5)
    assert between_rounds == ROUND * 2.0 / 2
    assert policy.ended(served_for=60.0, is_drained=True, chance=0.5) == 1.0
    assert policy.ended(served_for=60.0, is_drained=False, chance=0.5) == GONE
    # What waited at a GM that sends it elsewhere is told how many come along.
    policy.paced(0.6)
    assert policy.ended(served_for=None, is_drained=True, chance=0.5) >= 0.3


def test_no_pace_keeps_an_lc_away_for_longer_than_its_cap() -> None:
    policy = DialPolicy(["a:1"], longest=2.0)
    for seconds in (1e9, -1.0):
        policy.paced(seconds)
        assert 0 <= policy.ended(served_for=60.0, is_drained=False, chance=ALMOST) < 2.0
