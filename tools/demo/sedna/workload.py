"""What people want of the system: the jobs of examples/, and samples on the nodes to learn from.

Owns names, seeds and counts, so that every run learns the same. Guarantee: what is applied is what
examples/ says, but for the interpreter and how many rounds the federated training has.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from examples.make_data import append
from tools.harness.pods.system import System

Json = dict[str, Any]

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
FEDERATED = ("FederatedLearningJob", "line")
INCREMENTAL = ("IncrementalLearningJob", "threshold")
# Seconds that a round of the federated training takes at least.
ROUND_SECONDS = 0.5
_FEDERATED_SAMPLES = "srv/edge-sidecars/federated/samples.csv"
_INCREMENTAL_SAMPLES = "srv/edge-sidecars/incremental/samples.csv"


@dataclass(frozen=True)
class Workload:
    """`rounds` of the federated training."""

    system: System
    rounds: int

    def apply(self) -> None:
        """Samples first, so that nothing waits for them."""
        self._append("edge-a", _FEDERATED_SAMPLES, 400, seed=1)
        self._append("edge-b", _FEDERATED_SAMPLES, 300, seed=2)
        # The model that these make is beaten by that of `more_to_learn`.
        self._append("edge-a", _INCREMENTAL_SAMPLES, 200, seed=1)
        for manifest in manifests(self.rounds):
            self.system.apply(manifest)

    def more_to_learn(self) -> None:
        """Enough samples for another round of the incremental job, on edge-a."""
        self._append("edge-a", _INCREMENTAL_SAMPLES, 400, seed=2)

    def more_to_count(self) -> tuple[str, int]:
        """More samples on edge-b: the dataset's name, and how many it is to have then."""
        self._append("edge-b", _FEDERATED_SAMPLES, 50, seed=3)
        # The first line of a csv file is its header.
        return "samples-b", 349

    def _append(self, edge: str, path: str, count: int, *, seed: int) -> None:
        append(self.system.edges[edge].lc.root / path, count, seed=seed)


def manifests(rounds: int) -> Iterator[Json]:
    """Datasets, models and jobs, in the order in which they are applied."""
    for example in ("federated", "incremental"):
        text = (EXAMPLES / example / "job.yaml").read_text(encoding="utf-8")
        for manifest in yaml.safe_load_all(text):
            for container in _containers(manifest["spec"]):
                _adapt(container, rounds)
            yield manifest


def _adapt(container: Json, rounds: int) -> None:
    container["command"][0] = sys.executable
    if container["name"] in ("aggregation", "training"):
        settings = {"ROUNDS": rounds, "ROUND_SECONDS": ROUND_SECONDS}
        kept = [it for it in container["env"] if it["name"] not in settings]
        added = [{"name": name, "value": str(value)} for name, value in settings.items()]
        container["env"] = kept + added


def _containers(part: Any) -> Iterator[Json]:
    """Of all templates, wherever they stand in a spec."""
    if isinstance(part, list):
        for each in part:
            yield from _containers(each)
    elif isinstance(part, dict):
        yield from part.get("containers", ())
        for value in part.values():
            yield from _containers(value)
