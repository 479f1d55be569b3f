"""When an object is tried again that could not be written."""

import random

from gm.operators import FIRST_RETRY, LONGEST_OUTAGE_RETRY, LONGEST_RETRY, retry_delay


def test_the_first_retry_comes_soon_and_later_ones_ever_later_up_to_a_limit() -> None:
    longest = [retry_delay(n, longest=LONGEST_RETRY, chance=0.999) for n in range(40)]
    assert longest == sorted(longest)
    assert longest[0] <= FIRST_RETRY
    assert 0.9 * LONGEST_RETRY < longest[-1] <= LONGEST_RETRY


def test_nobody_waits_for_long_once_the_api_servers_own_trouble_is_over() -> None:
    for failures in range(100):
        assert retry_delay(failures, longest=LONGEST_OUTAGE_RETRY, chance=0.999) <= 5.0


def test_objects_that_failed_together_do_not_come_together_again() -> None:
    """At 50 ms each, 30 writes at once would all be late at a time-out of 1.5 s."""
    chance = random.Random(1)
    for failures in (6, 9, 20):
        due = [
            retry_delay(failures, longest=LONGEST_OUTAGE_RETRY, chance=chance.random())
            for _ in range(30)
        ]
        assert min(due) >= LONGEST_OUTAGE_RETRY / 2
        most = max(sum(it <= other < it + 0.5 for other in due) for it in due)
        assert most <= 15
