"""Delays before the next attempt: longer each time, thinner, and bounded."""

from hypothesis import given
from hypothesis import strategies as st

from edge_sidecars.sedna_api.core.redial import Redial

CHANCES = st.floats(0, 1, exclude_max=True)


def test_the_bound_doubles_up_to_the_longest() -> None:
    redial = Redial(first=0.2, longest=1.0)

    # What the greatest chance approaches.
    assert [redial.failed(1.0) for _ in range(5)] == [0.2, 0.4, 0.8, 1.0, 1.0]


def test_a_server_that_was_of_use_is_asked_again_soon() -> None:
    redial = Redial()
    for _ in range(10):
        redial.failed(0.5)
    redial.succeeded()

    assert redial.failed(0.999) < 0.2


@given(st.lists(CHANCES, max_size=2000), st.floats(0.01, 60))
def test_no_delay_is_longer_than_the_longest_however_often_it_fails(
    chances: list[float], longest: float
) -> None:
    redial = Redial(longest=longest)

    assert all(0 <= redial.failed(chance) <= longest for chance in chances)


@given(CHANCES)
def test_after_a_drain_half_a_second_at_most_passes(chance: float) -> None:
    redial = Redial()
    for _ in range(10):
        redial.failed(chance)

    assert redial.drained(chance) <= 0.5
    assert redial.failed(0.999) < 0.2
