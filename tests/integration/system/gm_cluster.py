"""A system with people and workers, who rest until a test lets them do something.

Owns what must hold after each test: nothing doubled, nothing lost, every status right, LCs' stores
as the API.
"""

from pathlib import Path
from typing import Any

from tools.harness.pods.gm import GmPod
from tools.harness.pods.kubelet.pod_plan import PodPlan
from tools.harness.pods.system import System
from tools.harness.system.workers import Workers
from tools.harness.system.workload import Workload

Json = dict[str, Any]

# Also the folder in which the image of its workers would let them begin.
EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
# Seconds in which everything must be final and right after a fault, on a busy machine; a quiet one
# is to need 30 (issue 5), to which the nemesis holds it.
HEALING = 60.0


class GmCluster:
    """`plan_of` is for the kubelets: containers with a command are processes, all others what
    `workers` does for them."""

    def __init__(self, system: System, workers: Workers) -> None:
        self.system = system
        self.workers = workers
        self.workload = Workload(system, workers, seed=7)

    @property
    def leader(self) -> GmPod:
        pod: GmPod = self.system.until(lambda: self.leader_among(self.system.gms), what="a leader")
        return pod

    @staticmethod
    def leader_among(pods: list[GmPod]) -> GmPod | None:
        found = (pod for pod in pods if pod.gm.is_running and pod.elector.readyz() == 200)
        return next((pod for pod in found if pod.gm.status()["leader"]["mayAct"]), None)

    def settled(self) -> None:
        """Fails where it is not so in time."""
        system = self.system
        self.workers.quiet.set()
        try:
            system.until(lambda: not self._wrongs(), what="all is right", timeout=HEALING)
        except AssertionError as error:
            raise AssertionError(f"{self._wrongs()[:5]}: {error}") from None
        finally:
            self.workers.quiet.clear()
        assert not system.api_observer.doubled
        assert not system.api_observer.reopened
        assert not self.workers.complaints

    def _wrongs(self) -> list[str]:
        system = self.system
        return self.workload.wrongs() or system.unsettled_reports() or system.wrong_stores()


def plan_of(workers: Workers, pod: Json) -> PodPlan:
    if "command" in pod["spec"]["containers"][0]:
        return PodPlan(is_process=True)
    return workers.plan_of(pod)
