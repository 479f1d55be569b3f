"""When a stage is to begin: a daily window of time and a condition on one number.

Owns the words of `trainSpec.trigger` and `deploySpec.trigger` (those of Sedna's
`pkg/localcontroller/trigger`) and the verdict with its reason. Knows neither files nor stages. What
is missing, or no number, fires nothing, and the reason says so. A metric that is a list counts by
its first element unless an index is given: Sedna's own samples say `precision_delta`, which never
fires there.
"""

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from lc.core.learning.objects.fields import MalformedJob, mapping_at, number_at, text_at

# One metric may have a number for each class.
Numbers = Mapping[str, float | Sequence[float]]

# Sedna's: numbers closer than this are equal.
_EQUAL_WITHIN = 1e-6
# Sedna's default; there it is read and not used.
DEFAULT_CHECK_PERIOD = 60.0

_OPERATORS = {
    "gt": ">",
    ">": ">",
    "ge": ">=",
    ">=": ">=",
    "eq": "==",
    "=": "==",
    "==": "==",
    "ne": "!=",
    "!=": "!=",
    "le": "<=",
    "<=": "<=",
    "lt": "<",
    "<": "<",
}
_COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    "<": operator.lt,
}
_METRIC = re.compile(r"\s*([^\[\]\s]+)\s*(?:\[\s*(\d+)\s*\])?\s*")
_TIME = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)")
# The end of a day, as an end only (ISO 8601, and Sedna's samples).
MIDNIGHT = ("24:00", 24 * 60)


@dataclass(frozen=True, slots=True)
class TriggerVerdict:
    """`is_early`: only the timer is against it, so time alone can change it."""

    fires: bool
    reason: str
    is_early: bool = False


@dataclass(frozen=True, slots=True)
class Timer:
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


@dataclass(frozen=True, slots=True)
class MetricCondition:
    """`operator` is one of > >= == != <= <; index None: the first, where the metric is a list."""

    metric: str
    operator: str
    threshold: float
    index: int | None = None

    @classmethod
    def parse(cls, wanted: Mapping[str, object]) -> "MetricCondition":
        sign = _OPERATORS.get(text_at(wanted, "operator"))
        if sign is None:
            raise MalformedJob(f"operator {wanted.get('operator')!r} is none of > >= == != <= <")
        metric = _METRIC.fullmatch(text_at(wanted, "metric"))
        if metric is None:
            raise MalformedJob(f"metric {wanted.get('metric')!r} is no name or name[index]")
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
        if self._holds(value):
            return TriggerVerdict(
                True, f"{self.named}={value:g} is {self.operator} {self.threshold:g}"
            )
        return TriggerVerdict(
            False, f"{self.named}={value:g} is not {self.operator} {self.threshold:g}"
        )

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


@dataclass(frozen=True, slots=True)
class Trigger:
    """Timer and condition must both agree; what is not given agrees always."""

    timer: Timer | None = None
    condition: MetricCondition | None = None
    check_period: float = field(default=DEFAULT_CHECK_PERIOD, kw_only=True)

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
            told = f"{verdict.reason}, but it is not {self.timer}"
            return TriggerVerdict(False, told, is_early=True)
        return verdict


def _minutes(text: str) -> int:
    time = _TIME.fullmatch(text)
    if time is None:
        raise MalformedJob(f"{text!r} is no time of day HH:MM")
    return int(time[1]) * 60 + int(time[2])
