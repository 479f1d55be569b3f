"""What a lender gives each borrower."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pool_sidecar.core.budget import Budget, LendingLimits

LIMITS = LendingLimits(rate=1000, burst=5000, connections=2, all_connections=3)


def test_a_borrower_has_so_many_connections_and_all_together_so_many() -> None:
    it = Budget(LIMITS)
    assert it.admit("a", 0.0)
    assert it.admit("a", 0.0)
    assert not it.admit("a", 0.0)
    assert it.admit("b", 0.0)
    assert not it.admit("b", 0.0), "three are open"
    it.released("a", 0.0)
    assert it.admit("b", 0.0)
    assert it.borrowers == {"a": 1, "b": 2}


def test_who_was_refused_is_no_borrower() -> None:
    it = Budget(LendingLimits(connections=1, all_connections=1))
    assert it.admit("a", 0.0)
    assert not it.admit("b", 0.0)
    assert it.borrowers == {"a": 1}


def test_the_burst_passes_at_once_and_then_the_rate() -> None:
    it = Budget(LIMITS)
    it.admit("a", 0.0)
    assert it.spend("a", 5000, 0.0) == 0.0
    assert it.spend("a", 1000, 0.0) == pytest.approx(1.0)
    assert it.spend("a", 0, 1.0) == 0.0


def test_one_borrower_does_not_slow_another_one() -> None:
    it = Budget(LIMITS)
    it.admit("a", 0.0)
    it.admit("b", 0.0)
    assert it.spend("a", 50_000, 0.0) > 0
    assert it.spend("b", 5000, 0.0) == 0.0


def test_who_comes_again_at_once_has_no_new_burst() -> None:
    it = Budget(LIMITS)
    it.admit("a", 0.0)
    it.spend("a", 5000, 0.0)
    it.released("a", 0.0)
    it.admit("a", 1.0)
    assert it.spend("a", 2000, 1.0) > 0


@given(st.lists(st.tuples(st.integers(0, 4000), st.floats(0, 5)), max_size=50))
def test_no_more_than_burst_and_rate_ever_pass(pieces: list[tuple[int, float]]) -> None:
    it = Budget(LIMITS)
    it.admit("a", 0.0)
    now, passed = 0.0, 0
    for size, pause in pieces:
        now += pause + it.spend("a", size, now + pause)
        passed += size
        assert passed <= LIMITS.burst + LIMITS.rate * now + 1


@given(st.integers(4096, 10**7), st.integers(1, 64), st.lists(st.integers(0, 127), max_size=200))
def test_n2_no_piece_waits_long_whatever_the_borrower_sends_besides(
    rate: int, connections: int, order: list[int]
) -> None:
    """Each direction of each connection has one piece at a time in the lender's hands."""
    limits = LendingLimits(rate, rate, connections, connections)
    it = Budget(limits)
    it.admit("a", 0.0)
    it.spend("a", rate, 0.0)  # The burst is gone.
    passes_at = dict.fromkeys(range(2 * connections), 0.0)
    now = 0.0
    for number in [*passes_at, *order]:
        which = number % len(passes_at)
        now = max(now, passes_at[which])
        delay = it.spend("a", limits.piece, now)
        assert delay <= 2.0 + 1e-6
        passes_at[which] = now + delay
