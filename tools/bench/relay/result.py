"""What was measured, by scenario and side. Pure.

Guarantee: samples of both sides with the same index were taken one right after the other, so
that their ratio means something on a machine whose speed changes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

RELAY = "relay-sidecar"
DIRECT = "kube-apiserver"

# What one run measured; seconds, counts, bytes, or truth.
Sample = dict[str, float]


@dataclass
class Result:
    """All runs of one scenario on one side; `facts` hold for all runs, in words."""

    scenario: str
    side: str
    samples: list[Sample] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)

    def values(self, metric: str) -> list[float]:
        return [sample[metric] for sample in self.samples if metric in sample]


class Results:
    """By scenario and side."""

    def __init__(self, results: Sequence[Result]) -> None:
        self._results: Mapping[tuple[str, str], Result] = {
            (result.scenario, result.side): result for result in results
        }

    def has(self, scenario: str) -> bool:
        return (scenario, RELAY) in self._results

    def values(self, scenario: str, side: str, metric: str) -> list[float]:
        result = self._results.get((scenario, side))
        return result.values(metric) if result is not None else []

    def ratios(self, scenario: str, metric: str) -> list[float]:
        """Relay to direct, run by run."""
        ours = self.values(scenario, RELAY, metric)
        theirs = self.values(scenario, DIRECT, metric)
        return [mine / other for mine, other in zip(ours, theirs, strict=False) if other]

    def failures(self) -> list[str]:
        return [
            f"{result.scenario}, {result.side}: {failure}"
            for result in self._results.values()
            for failure in result.failures
        ]
