"""When a stage begins: the words of Sedna's triggers, and what Sedna made of them wrongly."""

from datetime import UTC, datetime
from typing import Any

import pytest

from lc.core.learning.fields import MalformedJob
from lc.core.learning.trigger import Trigger, comparison

NOON = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)


def at(time: str) -> datetime:
    hour, minute = time.split(":")
    return NOON.replace(hour=int(hour), minute=int(minute))


def trigger(operator: str, threshold: object, metric: str = "n", **more: Any) -> Trigger:
    condition = {"operator": operator, "threshold": threshold, "metric": metric}
    return Trigger.parse({"condition": condition, **more})


@pytest.mark.parametrize(
    ("words", "below", "equal", "above"),
    [
        (("gt", ">"), False, False, True),
        (("ge", ">="), False, True, True),
        (("eq", "=", "=="), False, True, False),
        (("ne", "!="), True, False, True),
        (("le", "<="), True, True, False),
        (("lt", "<"), True, False, False),
    ],
)
def test_each_operator_has_its_words(
    words: tuple[str, ...], below: bool, equal: bool, above: bool
) -> None:
    for word in words:
        wanted = trigger(word, 500)
        fires = [wanted.judge({"n": value}, now=NOON).fires for value in (499.0, 500.0, 501.0)]
        assert fires == [below, equal, above], word


def test_numbers_closer_than_a_millionth_are_equal() -> None:
    assert not trigger(">", 0.3).judge({"n": 0.1 + 0.2}, now=NOON).fires
    assert trigger("==", 0.3).judge({"n": 0.1 + 0.2}, now=NOON).fires
    assert trigger(">=", 0.3).judge({"n": 0.3 - 1e-9}, now=NOON).fires


def test_an_index_takes_one_number_of_a_list() -> None:
    numbers = {"n": (0.1, 0.2)}
    assert trigger(">", 0.15, "n[1]").judge(numbers, now=NOON).fires
    assert not trigger(">", 0.15, "n[0]").judge(numbers, now=NOON).fires
    assert not trigger("!=", 0.15, "n[2]").judge(numbers, now=NOON).fires


def test_precision_delta_without_an_index_counts_by_its_first_number() -> None:
    """Sedna reads a list as 0.0, so `precision_delta > 0.1` of its own samples never fires."""
    compared = comparison({"precision": [0.9, 0.1]}, {"precision": [0.7, 0.9]})
    assert trigger(">", 0.1, "precision_delta").judge(compared, now=NOON).fires
    assert trigger(">", 0.1, "precision_delta[0]").judge(compared, now=NOON).fires
    assert not trigger(">", 0.1, "precision_delta[1]").judge(compared, now=NOON).fires


def test_a_metric_that_is_missing_fires_nothing_and_says_what_is_there() -> None:
    verdict = trigger("!=", 1, "recall").judge({"f1": 0.5, "precision": 0.6}, now=NOON)
    assert not verdict.fires
    assert verdict.reason == "recall has no value (known: f1, precision)"


def test_what_is_no_number_fires_nothing() -> None:
    compared = comparison({"a": ["x"], "b": float("nan"), "c": None, "d": True}, {})
    for metric in "abcd":
        assert not trigger("!=", 1, metric).judge(compared, now=NOON).fires


@pytest.mark.parametrize(
    ("start", "end", "inside", "outside"),
    [
        ("01:00", "23:00", ["01:00", "12:00", "23:00"], ["00:59", "23:01"]),
        ("23:00", "01:00", ["23:00", "00:00", "01:00"], ["01:01", "12:00", "22:59"]),
        ("9:05", "9:05", ["09:05"], ["09:04", "09:06"]),
        ("02:00", "24:00", ["02:00", "23:59"], ["00:00", "01:59"]),
    ],
)
def test_a_timer_includes_both_ends_and_may_pass_midnight(
    start: str, end: str, inside: list[str], outside: list[str]
) -> None:
    wanted = Trigger.parse({"timer": {"start": start, "end": end}})
    assert all(wanted.judge({}, now=at(time)).fires for time in inside)
    assert not any(wanted.judge({}, now=at(time)).fires for time in outside)


def test_timer_and_condition_must_both_agree() -> None:
    wanted = trigger(">", 1, timer={"start": "01:00", "end": "02:00"})
    assert wanted.judge({"n": 2}, now=at("01:30")).fires
    assert not wanted.judge({"n": 1}, now=at("01:30")).fires
    assert not wanted.judge({"n": 2}, now=at("12:00")).fires


def test_only_a_condition_that_holds_waits_for_its_time() -> None:
    wanted = trigger(">", 1, timer={"start": "01:00", "end": "02:00"})
    assert wanted.judge({"n": 2}, now=at("12:00")).is_early
    assert not wanted.judge({"n": 1}, now=at("12:00")).is_early


def test_without_condition_and_timer_a_trigger_fires() -> None:
    assert Trigger.parse(None).judge({}, now=NOON).fires
    assert Trigger.parse({}).judge({}, now=NOON).fires


def test_check_period_seconds_counts() -> None:
    """Sedna reads it and looks every 10 s whatever it says."""
    assert Trigger.parse({"checkPeriodSeconds": 5}).check_period == 5
    assert Trigger.parse({}).check_period == 60
    assert Trigger.parse({"checkPeriodSeconds": 0}).check_period == 60


@pytest.mark.parametrize(
    "wanted",
    [
        {"condition": {"operator": "~", "threshold": 1, "metric": "n"}},
        {"condition": {"operator": ">", "threshold": "much", "metric": "n"}},
        {"condition": {"operator": ">", "metric": "n"}},
        {"condition": {"operator": ">", "threshold": 1, "metric": "n[-1]"}},
        {"condition": {"operator": ">", "threshold": 1, "metric": "n[x]"}},
        {"condition": {"operator": ">", "threshold": 1, "metric": ""}},
        {"condition": []},
        {"timer": {"start": "25:00", "end": "01:00"}},
        {"timer": {"start": "01:00"}},
        {"timer": {"start": "24:00", "end": "24:00"}},
        {"timer": {"start": "01:00", "end": "24:01"}},
        {"checkPeriodSeconds": -1},
    ],
)
def test_what_cannot_be_understood_is_said_and_not_guessed(wanted: dict[str, object]) -> None:
    with pytest.raises(MalformedJob):
        Trigger.parse(wanted)


def test_a_comparison_has_new_numbers_and_differences_element_by_element() -> None:
    new = {"precision": [0.5, 0.75], "f1": "0.5", "only_new": 1}
    old = {"precision": [0.25], "f1": 0.25, "only_old": 1}
    assert comparison(new, old) == {
        "precision": (0.5, 0.75),
        "precision_delta": (0.25,),
        "f1": (0.5,),
        "f1_delta": (0.25,),
        "only_new": (1.0,),
    }


def test_a_comparison_with_nothing_has_no_differences() -> None:
    assert comparison({"f1": 0.5}, None) == {"f1": (0.5,)}
