"""When a stage is to begin: a daily window of time and a condition on one number.

Owns the words of `trainSpec.trigger` and `deploySpec.trigger` (those of Sedna's
`pkg/localcontroller/trigger`), the verdict with its reason, and the numbers that are asked. Of a
training that is how many samples there are. Of a deployment it is what an evaluation says of the
new model and of the one that serves. Knows neither files nor stages. What is missing, or no number,
fires nothing, and the reason says so. A metric that is a list counts by its first element unless an
index is given: Sedna's own samples say `precision_delta`, which never fires there.
"""

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

import msgspec

from lc.core.learning.fields import MalformedJob, mapping_at, number_at, text_at

# One metric may have a number for each class.
Numbers = Mapping[str, float | Sequence[float]]

# Sedna's: numbers closer than this are equal.
_EQUAL_WITHIN = 1e-6
# Sedna's default; there it is read and not used.
DEFAULT_CHECK_PERIOD = 60.0

_OPERATORS = {"gt": ">", "ge": ">=", "eq": "==", "=": "==", "ne": "!=", "le": "<=", "lt": "<"}
_COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    "<": operator.lt,
}
_METRIC = re.compile(r"\s*([^\[\]\s]+)\s*(?:\[\s*(\d{1,9})\s*\])?\s*")
_TIME = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)")
# The end of a day, as an end only (ISO 8601, and Sedna's samples).
MIDNIGHT = ("24:00", 24 * 60)


class TriggerVerdict(msgspec.Struct, frozen=True):
    """`is_early`: only the timer is against it, so time alone can change it."""

    fires: bool
    reason: str
    is_early: bool = False


class Timer(msgspec.Struct, frozen=True):
    """Every day, local time, in minutes since midnight, both ends included; may pass midnight."""

    start: int
    end: int

    @classmethod
    def parse(cls, wanted: Mapping[str, object]) -> "Timer":
        start, end = text_at(wanted, "start"), text_at(wanted, "end")
        return cls(_minutes(start), MIDNIGHT[1] if end == MIDNIGHT[0] else _minutes(end))

    def includes(self, now: datetime) -> bool:
        minute = now.hour * 60 + now.minute
        if self.start > self.end:
            return minute >= self.start or minute <= self.end
        return self.start <= minute <= self.end

    def __str__(self) -> str:
        return "-".join(f"{minute // 60:02}:{minute % 60:02}" for minute in (self.start, self.end))


class MetricCondition(msgspec.Struct, frozen=True):
    """`operator` is one of > >= == != <= <; index None: the first, where the metric is a list."""

    metric: str
    operator: str
    threshold: float
    index: int | None = None

    @classmethod
    def parse(cls, wanted: Mapping[str, object]) -> "MetricCondition":
        word = text_at(wanted, "operator")
        sign = _OPERATORS.get(word, word)
        if sign not in _COMPARISONS:
            raise MalformedJob(
                f"operator {wanted.get('operator')!r:.40} is none of > >= == != <= <"
            )
        metric = _METRIC.fullmatch(text_at(wanted, "metric"))
        if metric is None:
            raise MalformedJob(f"metric {wanted.get('metric')!r:.80} is no name or name[index]")
        index = None if metric[2] is None else int(metric[2])
        return cls(metric[1], sign, number_at(wanted, "threshold"), index)

    @property
    def named(self) -> str:
        return self.metric if self.index is None else f"{self.metric}[{self.index}]"

    def judge(self, numbers: Numbers) -> TriggerVerdict:
        value = self._value(numbers)
        if value is None:
            known = ", ".join(sorted(numbers)) or "none"
            return TriggerVerdict(False, f"{self.named} has no value (known: {known})")
        fires = self._holds(value)
        limit = f"{self.operator} {self.threshold:g}"
        return TriggerVerdict(fires, f"{self.named}={value:g} is {'' if fires else 'not '}{limit}")

    def _value(self, numbers: Numbers) -> float | None:
        found = numbers.get(self.metric)
        if isinstance(found, int | float):
            found = (found,)
        place = self.index or 0
        if found is None or place >= len(found) or math.isnan(found[place]):
            return None
        return float(found[place])

    def _holds(self, value: float) -> bool:
        is_equal = abs(value - self.threshold) < _EQUAL_WITHIN
        return _COMPARISONS[self.operator](self.threshold if is_equal else value, self.threshold)


class Trigger(msgspec.Struct, frozen=True):
    """Timer and condition must both agree; what is not given agrees always."""

    timer: Timer | None = None
    condition: MetricCondition | None = None
    check_period: float = DEFAULT_CHECK_PERIOD

    @classmethod
    def parse(cls, wanted: Mapping[str, object] | None) -> "Trigger":
        """Raises MalformedJob."""
        if wanted is None:
            return cls()
        timer = mapping_at(wanted, "timer")
        condition = mapping_at(wanted, "condition")
        check_period = number_at(wanted, "checkPeriodSeconds", default=DEFAULT_CHECK_PERIOD)
        if check_period < 0:
            raise MalformedJob(f"checkPeriodSeconds {check_period:g} is negative")
        return cls(
            None if timer is None else Timer.parse(timer),
            None if condition is None else MetricCondition.parse(condition),
            # Go's zero value: not given.
            check_period=check_period or DEFAULT_CHECK_PERIOD,
        )

    def judge(self, numbers: Numbers, *, now: datetime) -> TriggerVerdict:
        """`now` is the node's local time."""
        verdict = TriggerVerdict(True, "no condition is set")
        if self.condition is not None:
            verdict = self.condition.judge(numbers)
        if verdict.fires and self.timer is not None and not self.timer.includes(now):
            why = f"{verdict.reason}, but it is not {self.timer}"
            return TriggerVerdict(False, why, is_early=True)
        return verdict


def _minutes(text: str) -> int:
    time = _TIME.fullmatch(text)
    if time is None:
        raise MalformedJob(f"{text!r:.40} is no time of day HH:MM")
    return int(time[1]) * 60 + int(time[2])


def comparison(
    new: Mapping[str, object] | None, old: Mapping[str, object] | None
) -> dict[str, float | Sequence[float]]:
    after, before = _numbers(new), _numbers(old)
    compared: dict[str, float | Sequence[float]] = dict(after)
    for name, values in after.items():
        if name in before:
            compared[f"{name}_delta"] = tuple(
                value - former for value, former in zip(values, before[name], strict=False)
            )
    return compared


def training_numbers(samples: int) -> Numbers:
    return {"num_of_samples": float(samples)}


def _numbers(metrics: Mapping[str, object] | None) -> dict[str, tuple[float, ...]]:
    read: dict[str, tuple[float, ...]] = {}
    for name, value in (metrics or {}).items():
        values = tuple(map(_number, value if isinstance(value, list | tuple) else (value,)))
        if all(each is not None for each in values):
            read[name] = tuple(each for each in values if each is not None)
    return read


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None
