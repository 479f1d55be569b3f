"""N3, (8) and the limits in drawn histories."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.unit.pool.controller.history import KINDS, Step, play

_SMALL = st.integers(0, 17)
STEPS = st.lists(
    st.builds(Step, st.integers(0, len(KINDS) - 1), _SMALL, st.integers(0, 255), _SMALL),
    max_size=60,
)


@settings(max_examples=examples(1500), deadline=None)
@given(STEPS, st.integers(0, 2))
def test_unknown_is_kept_and_dead_is_rare_and_leaves_nothing_behind(
    steps: list[Step], limit: int
) -> None:
    assert play(steps, limit=limit) == []
