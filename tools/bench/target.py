"""What is to be reached: a bound in words, and whether the values of all runs keep it. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Target:
    """What is to be reached, in words, and whether these values (or ratios) reach it."""

    text: str
    is_reached: Callable[[Sequence[float]], bool]


def at_most(limit: float, unit: str = "") -> Target:
    """The median of all runs."""
    return Target(f"<= {limit:g} {unit}".rstrip(), lambda values: median(values) <= limit)


def never_above(limit: float, unit: str = "") -> Target:
    return Target(f"<= {limit:g} {unit}".rstrip(), lambda values: max(values) <= limit)


def at_least(limit: float, unit: str = "") -> Target:
    return Target(f">= {limit:g}{unit}", lambda values: median(values) >= limit)
