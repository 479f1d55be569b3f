"""What upstream is asked beside a watch: when, and how much of it."""

import math

import pytest

from relay_sidecar.core.stream.pace import (
    ALL,
    DELAY,
    FEW,
    LONGEST_RETRY,
    PACE,
    QUICK_PACE,
    Confirming,
)


def test_nothing_is_asked_until_a_watch_is_opened_or_somebody_waits() -> None:
    assert Confirming().at == math.inf


@pytest.mark.parametrize(
    ("objects", "is_wanted", "selects", "limit"),
    [
        (0, False, False, FEW),
        (FEW, False, False, FEW),
        (FEW, False, True, 0),
        (FEW + 1, False, True, 1),
        (FEW + 1, False, False, 1),
        (FEW + 1, True, False, ALL),
        (ALL, True, False, ALL),
        (ALL + 1, True, False, 1),
    ],
)
def test_names_are_asked_for_where_they_are_few_or_somebody_waits(
    objects: int, is_wanted: bool, selects: bool, limit: int
) -> None:
    confirming = Confirming()
    confirming.compared()
    confirming.opened(10.0, 0.0)
    if is_wanted:
        confirming.wanted(10.0)
    assert confirming.at == (10.0 if is_wanted else 10.0 + DELAY)
    assert confirming.asking(confirming.at, objects=objects, selects=selects) == limit
    assert confirming.at == math.inf, "one at a time"
    confirming.answered(10.2)
    assert confirming.at == math.inf, "once for each opening"


@pytest.mark.parametrize("selects", [False, True])
@pytest.mark.parametrize("objects", [FEW + 1, 5000, ALL + 1])
def test_after_upstream_was_out_of_sight_all_names_are_compared_once(
    objects: int, selects: bool
) -> None:
    """By its version, a cluster that was restored and written on looks like one that went on."""
    confirming = Confirming()
    for _ in range(2):
        confirming.opened(10.0, 0.0)
        assert confirming.asking(confirming.at, objects=objects, selects=selects) == 0
        confirming.compared()
        confirming.answered(10.2)
        confirming.opened(20.0, 0.0)
        assert confirming.asking(confirming.at, objects=objects, selects=selects) == 1
        confirming.answered(20.2)
        confirming.lost_sight()


def test_of_a_watch_that_ends_at_once_nothing_is_asked() -> None:
    confirming = Confirming()
    confirming.opened(10.0, 0.0)
    confirming.ended()
    assert confirming.at == math.inf


def test_whoever_waits_is_answered_though_the_watch_has_ended() -> None:
    confirming = Confirming()
    confirming.wanted(10.0)
    confirming.ended()
    assert confirming.at == 10.0


@pytest.mark.parametrize(("objects", "pace"), [(FEW, QUICK_PACE), (FEW + 1, PACE)])
def test_however_many_wait_questions_keep_their_pace(objects: int, pace: float) -> None:
    """Of a few objects it is a quick one: each reader would be passed on instead."""
    confirming, now, asked = Confirming(), 0.0, 0
    while now < 10.0:
        confirming.wanted(now)
        if now >= confirming.at:
            confirming.asking(now, objects=objects, selects=False)
            confirming.answered(now)
            asked += 1
        now += 0.01
    assert asked <= 10.0 / pace + 1


def test_a_question_that_takes_long_on_a_slow_link_is_not_asked_again_at_once() -> None:
    confirming = Confirming()
    confirming.wanted(10.0)
    confirming.asking(10.0, objects=5000, selects=False)
    confirming.wanted(11.0)
    confirming.answered(40.0)
    assert confirming.at == 70.0
    confirming.asking(70.0, objects=5000, selects=False)
    confirming.wanted(71.0)
    confirming.answered(1070.0)
    assert confirming.at == 1070.0 + LONGEST_RETRY, "the process stood still"


def test_what_fails_is_asked_again_later_each_time() -> None:
    confirming, now = Confirming(), 0.0
    confirming.opened(now, 0.0)
    delays = []
    for _ in range(9):
        now = confirming.at
        confirming.asking(now, objects=5, selects=False)
        confirming.failed(now, 0.0, is_needed=True)
        delays.append(confirming.at - now)
    assert delays == pytest.approx([1, 2, 4, 8, 16, *[LONGEST_RETRY] * 4])
    confirming.asking(confirming.at, objects=5, selects=False)
    confirming.failed(now, 0.0, is_needed=False)
    assert confirming.at == math.inf, "the watch is over, or was proved otherwise"


def test_a_question_that_fails_is_asked_again_for_who_waits_when_upstream_wants_it() -> None:
    confirming = Confirming()
    confirming.compared()
    confirming.wanted(0.0)
    limits = []
    for _ in range(4):
        now = confirming.at
        limits.append(confirming.asking(now, objects=5000, selects=False))
        confirming.failed(now, 0.0, is_needed=True, retry_after=20.0)
        assert confirming.at == now + 20.0
    assert limits == [ALL, ALL, ALL, 1], "it is too much for the link, most likely"


def test_questions_of_many_relays_are_spread() -> None:
    confirming = Confirming()
    confirming.opened(10.0, 0.5)
    assert confirming.at == pytest.approx(10.0 + 1.5 * DELAY)
