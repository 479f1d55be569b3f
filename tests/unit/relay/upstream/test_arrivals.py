"""Since when events of a watch may have been there."""

import pytest

from relay_sidecar.upstream.reflector.source import AT_ONCE, Arrivals


def test_what_comes_while_the_reader_waits_came_when_it_was_read() -> None:
    arrivals = Arrivals(10.0)
    assert arrivals.came(12.0) == 12.0
    arrivals.asks(12.5)
    assert arrivals.came(14.0) == 14.0


@pytest.mark.parametrize("soon", [0.0, AT_ONCE / 2])
def test_what_was_waiting_may_have_come_just_after_the_batch_before(soon: float) -> None:
    arrivals = Arrivals(10.0)
    arrivals.came(12.0)
    arrivals.asks(12.5)
    assert arrivals.came(12.5 + soon) == 12.0
    arrivals.asks(13.0)
    assert arrivals.came(13.0 + soon) == 12.5 + soon
