"""Delays before the next attempt: longer each time, thinner, and bounded."""

from hypothesis import given
from hypothesis import strategies as st

from edge_sidecars.runtime.backoff import Backoff, half_jitter

CHANCES = st.floats(0, 1, exclude_max=True)


def test_the_bound_doubles_up_to_the_longest() -> None:
    backoff = Backoff(first=0.2, longest=1.0)

    # What the greatest chance approaches.
    assert [backoff.failed(1.0) for _ in range(5)] == [0.2, 0.4, 0.8, 1.0, 1.0]


def test_a_server_that_was_of_use_is_asked_again_soon() -> None:
    backoff = Backoff()
    for _ in range(10):
        backoff.failed(0.5)
    backoff.succeeded()

    assert backoff.failed(0.999) < 0.2


@given(st.lists(CHANCES, max_size=2000), st.floats(0.01, 60))
def test_no_delay_is_longer_than_the_longest_however_often_it_fails(
    chances: list[float], longest: float
) -> None:
    backoff = Backoff(longest=longest)

    assert all(0 <= backoff.failed(chance) <= longest for chance in chances)


def test_without_jitter_each_delay_is_the_whole_bound() -> None:
    backoff = Backoff(first=1.0, longest=60.0)

    assert [backoff.failed() for _ in range(8)] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert backoff.bound == 60


@given(CHANCES, st.floats(0.01, 60))
def test_half_jitter_keeps_half_of_a_delay(chance: float, delay: float) -> None:
    assert delay / 2 <= half_jitter(delay, chance) <= delay
