"""What came to nothing is told again, seldom and ever more seldom."""

from lc.core.resend_schedule import FIRST, LONGEST, ResendSchedule


def test_nothing_is_repeated_soon() -> None:
    begun = ResendSchedule.begun(100.0)
    assert not begun.is_due(100.0 + FIRST - 1)
    assert begun.is_due(100.0 + FIRST)


def test_pauses_double_up_to_the_longest() -> None:
    it, now, pauses = ResendSchedule.begun(0.0), 0.0, []
    for _ in range(6):
        pauses.append(it.due_at - now)
        now = it.due_at
        it = it.repeated(now)
    assert pauses == [FIRST, 2 * FIRST, 4 * FIRST, 8 * FIRST, LONGEST, LONGEST]
