"""Lines about the same cause: one in a while."""

import pytest

from edge_sidecars.runtime.log import Sparing


def test_each_cause_has_a_line_of_its_own_and_again_when_it_was_over() -> None:
    sparing = Sparing(every=3600.0)
    assert sparing.allows("stream", "a")
    assert not sparing.allows("stream", "a")
    assert sparing.allows("stream", "b")
    sparing.forget("stream", "a")
    assert sparing.allows("stream", "a")


@pytest.mark.parametrize("limit", [1, 10])
def test_causes_without_number_take_no_memory_without_end(limit: int) -> None:
    sparing = Sparing(every=3600.0, limit=limit)
    assert all(sparing.allows(number) for number in range(limit + 1))
    assert not sparing.allows(limit)
    assert sparing.allows(0)


def test_after_its_time_a_cause_is_told_again() -> None:
    sparing = Sparing(every=0.0)
    assert sparing.allows("a")
    assert sparing.allows("a")
