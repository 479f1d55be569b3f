"""What came to nothing is told again, seldom and ever more seldom."""

from lc.core.outbox import FIRST_RESEND, LONGEST_RESEND, ResendSchedule


def test_nothing_is_repeated_soon() -> None:
    begun = ResendSchedule.begun(100.0)
    assert not begun.is_due(100.0 + FIRST_RESEND - 1)
    assert begun.is_due(100.0 + FIRST_RESEND)


def test_pauses_double_up_to_the_longest() -> None:
    it, now, pauses = ResendSchedule.begun(0.0), 0.0, []
    for _ in range(6):
        pauses.append(it.due_at - now)
        now = it.due_at
        it = it.repeated(now)
    assert pauses == [
        FIRST_RESEND,
        2 * FIRST_RESEND,
        4 * FIRST_RESEND,
        8 * FIRST_RESEND,
        LONGEST_RESEND,
        LONGEST_RESEND,
    ]
