"""The state of the elector's demo: three pods, an edge node, and who watches.

Owns what steps and screens share; nothing here knows how it is shown.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.demo.elector.cloud import Cloud
from tools.demo.elector.edge import Edge
from tools.demo.elector.pod import Pod
from tools.demo.elector.watcher import Watcher
from tools.demo.runner import Runner


@dataclass
class DemoState:
    pods: Sequence[Pod]
    watcher: Watcher
    edge: Edge
    cloud: Cloud
    ledger: Path
    runner: Runner

    def leader(self) -> Pod:
        """Waits for the one whose elector says so."""

        def find() -> Pod | None:
            leading = [
                pod for pod in self.pods if (self.watcher.elector(pod) or {}).get("isLeader")
            ]
            return leading[0] if len(leading) == 1 else None

        return self.runner.wait_for(find, "a leader")


def patience(lease_duration: float) -> float:
    """How long a takeover may take before it counts as none: on a busy machine, too."""
    return 2 * lease_duration + 60


def fallen(pods: Sequence[Pod], edge: Edge) -> str:
    """What ended though nothing was done to it; "" for nothing."""
    for pod in pods:
        if program := pod.ended_unasked():
            return f"{pod.name}: its {program}"
    return "edge: its relay-sidecar" if edge.ended_unasked() else ""
