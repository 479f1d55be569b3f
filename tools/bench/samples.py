"""What was measured, by scenario and side. Pure.

Guarantee: samples of both sides with the same index belong to one run, where a scenario measures
them so, so that their ratio means something on a machine whose speed changes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

OURS, REFERENCE = "ours", "reference"

# What one run measured; seconds, counts, bytes, or truth.
Sample = dict[str, float]


@dataclass
class Result:
    """All runs of one scenario on one side; `facts` hold for all runs, in words."""

    scenario: str
    side: str = OURS
    samples: list[Sample] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)

    def values(self, metric: str) -> list[float]:
        return [sample[metric] for sample in self.samples if metric in sample]


class Results:
    """By scenario and side."""

    def __init__(self, results: Sequence[Result]) -> None:
        self._results = {(it.scenario, it.side): it for it in results}

    def has(self, *scenarios: str) -> bool:
        return any((scenario, OURS) in self._results for scenario in scenarios)

    def values(self, scenario: str, metric: str, *, side: str = OURS) -> list[float]:
        result = self._results.get((scenario, side))
        return result.values(metric) if result is not None else []

    def pair(self, scenario: str, metric: str) -> tuple[list[float], list[float]]:
        """Ours, and those of the reference."""
        ours = self.values(scenario, metric)
        return ours, self.values(scenario, metric, side=REFERENCE)

    def failures(self) -> list[str]:
        return [
            f"{it.scenario}, {it.side}: {failure}"
            for it in self._results.values()
            for failure in it.failures
        ]

    def scenarios(self) -> list[str]:
        return list(dict.fromkeys(scenario for scenario, _ in self._results))
