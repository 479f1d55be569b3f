"""Which reports are sent on one connection, and when again."""

from dataclasses import replace

from edge_sidecars.sedna_api.core.report import Report
from lc.core.session import RESEND_AFTER, SendWindow

FIRST = Report("store-1", 1, "u1", "dataset", "shop", "d1", False, "monitor", b"{}")
SECOND = replace(FIRST, seq=2, is_event=True, previous=1)
OTHER = replace(FIRST, uid="u2", name="d2")


def send_all(upstream: SendWindow, *pending: Report, now: float = 0.0) -> list[Report]:
    due = upstream.due(pending, now)
    for report in due:
        upstream.sent(report, now)
    return list(due)


def test_each_report_is_sent_once_in_order() -> None:
    upstream = SendWindow()
    assert send_all(upstream, FIRST, OTHER) == [FIRST, OTHER]
    assert send_all(upstream, FIRST, SECOND, OTHER) == [SECOND]
    assert send_all(upstream, FIRST, SECOND, OTHER) == []


def test_what_was_not_written_is_due_again() -> None:
    upstream = SendWindow()
    assert upstream.due([FIRST], 0.0) == (FIRST,)
    assert upstream.due([FIRST], 0.0) == (FIRST,)


def test_silence_lets_everything_of_the_object_be_sent_again() -> None:
    upstream = SendWindow()
    send_all(upstream, FIRST, SECOND, OTHER)
    upstream.answered("u2", RESEND_AFTER - 1)
    assert send_all(upstream, FIRST, SECOND, OTHER, now=RESEND_AFTER) == [FIRST, SECOND]
    assert send_all(upstream, FIRST, SECOND, now=RESEND_AFTER + 1) == []


def test_what_followed_a_refused_report_is_sent_again() -> None:
    upstream = SendWindow()
    send_all(upstream, FIRST, SECOND, OTHER)
    upstream.refused("u1")
    headless = replace(SECOND, previous=0)
    assert send_all(upstream, headless, OTHER) == [headless]
