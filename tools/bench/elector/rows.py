"""The table: what was measured beside what the project has promised to reach.

Pure. Guarantee: a row with a target is judged from the samples alone; where a side has no
samples, its cell says so and the row counts as not reached.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from tools.bench.elector.scenarios.scenario import Result
from tools.bench.elector.side import OURS, THEIRS
from tools.bench.figures import NOT_MEASURED, columns, number, spread

Judge = Callable[[Sequence[float], Sequence[float]], bool]


@dataclass(frozen=True)
class Row:
    """`is_met` is None where nothing was promised."""

    what: str
    ours: str
    theirs: str
    ratio: str
    target: str
    is_met: bool | None


class Results:
    """By scenario and side."""

    def __init__(self, results: Sequence[Result]) -> None:
        self._results = {(result.scenario, result.side): result for result in results}

    def has(self, *scenarios: str) -> bool:
        return any((scenario, OURS) in self._results for scenario in scenarios)

    def values(self, scenario: str, side: str, metric: str) -> list[float]:
        result = self._results.get((scenario, side))
        return result.values(metric) if result is not None else []

    def failures(self) -> list[str]:
        return [
            f"{result.scenario}, {result.side}: {failure}"
            for result in self._results.values()
            for failure in result.failures
        ]

    def scenarios(self) -> list[str]:
        return list(dict.fromkeys(scenario for scenario, _ in self._results))


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> str:
    if not ours or not theirs or median(theirs) == 0:
        return NOT_MEASURED
    return f"{number(median(ours) / median(theirs))}x"


def row(
    what: str,
    unit: str,
    ours: Sequence[float],
    theirs: Sequence[float],
    *,
    target: str = "",
    judge: Judge | None = None,
) -> Row:
    is_met = None if judge is None else bool(ours) and judge(ours, theirs)
    cells = spread(ours, unit), spread(theirs, unit), ratio(ours, theirs)
    return Row(what, *cells, target, is_met)


def count_row(
    what: str, ours: Sequence[float], theirs: Sequence[float], *, target: str, judge: Judge
) -> Row:
    """In how many runs something was so (values are truths)."""
    is_met = bool(ours) and judge(ours, theirs)
    return Row(what, _runs(ours), _runs(theirs), NOT_MEASURED, target, is_met)


def _runs(values: Sequence[float]) -> str:
    return f"{sum(map(bool, values))} of {len(values)} runs" if values else NOT_MEASURED


def median_at_most(limit: float) -> Judge:
    return lambda ours, theirs: median(ours) <= limit


def all_at_most(limit: float) -> Judge:
    return lambda ours, theirs: max(ours) <= limit


def table(rows: Sequence[Row]) -> str:
    verdict = {None: "", True: "yes", False: "NO"}
    lines = [
        (each.what, each.ours, each.theirs, each.ratio, each.target, verdict[each.is_met])
        for each in rows
    ]
    return columns(("", OURS, THEIRS, "ratio", "to reach", "reached"), lines)
