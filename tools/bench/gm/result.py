"""What was measured, by scenario and side. Pure.

Guarantee: samples of both sides with the same index belong to one run, so that their ratio means
something on a machine whose speed changes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

OURS = "gm and lc"
REFERENCE = "reference"

# What one run measured; seconds, counts or bytes.
Sample = dict[str, float]


@dataclass
class Result:
    """All runs of one scenario on one side."""

    scenario: str
    side: str = OURS
    samples: list[Sample] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def values(self, metric: str) -> list[float]:
        return [sample[metric] for sample in self.samples if metric in sample]


class Results:
    """By scenario and side."""

    def __init__(self, results: Sequence[Result]) -> None:
        self._results: Mapping[tuple[str, str], Result] = {
            (result.scenario, result.side): result for result in results
        }

    def has(self, scenario: str) -> bool:
        return (scenario, OURS) in self._results

    def values(self, scenario: str, metric: str, *, side: str = OURS) -> list[float]:
        result = self._results.get((scenario, side))
        return result.values(metric) if result is not None else []

    def failures(self) -> list[str]:
        return [
            f"{result.scenario}, {result.side}: {failure}"
            for result in self._results.values()
            for failure in result.failures
        ]
