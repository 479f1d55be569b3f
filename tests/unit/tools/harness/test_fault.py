"""Delays of a fault are those of the wire that it stands for."""

from __future__ import annotations

import pytest

from tools.harness.controlplane.fault_proxy.fault import Delay, Direction, Fault

DRAWS = [(draw + 0.5) / 1000 for draw in range(1000)]


def test_without_loss_a_chunk_waits_for_its_delay_only() -> None:
    fault = Fault(request_delay=Delay(1.0, 0.5))
    assert fault.delay(Direction.REQUEST, 0.5) == 1.25
    assert fault.delay(Direction.RESPONSE, 0.5) == 0.0


def test_of_lost_segments_the_same_share_is_lost_again_and_waits_twice_as_long() -> None:
    fault = Fault(loss=0.5)
    waits = [round(fault.delay(Direction.RESPONSE, draw), 6) for draw in DRAWS]
    assert [waits.count(wait) for wait in (0.0, 0.2, 0.6, 1.4)] == [500, 250, 125, 62]
    assert max(waits) == 6.2


@pytest.mark.parametrize("share", [-0.1, 1.0])
def test_a_share_outside_of_its_bounds_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match=str(share)):
        Fault(loss=share)
