"""Many small jobs, so that each GM has some: their workers are played, and end after a moment.

Owns their names. Guarantee: GM cannot tell them from others.
"""

from collections.abc import Collection
from typing import Any

from edge_sidecars.sedna_api.core.kinds import API_VERSION, FEDERATED_LEARNING_JOB
from tools.harness.pods.kubelet.pod_plan import PodPlan
from tools.harness.pods.system import System

Json = dict[str, Any]

PREFIX = "small"
# Seconds for which a worker runs.
RUNS_FOR = 0.3


def plan_of(pod: Json) -> PodPlan:
    """Workers of all other jobs are processes."""
    is_small = pod["metadata"]["name"].startswith(f"{PREFIX}-")
    return PodPlan(runs_for=RUNS_FOR) if is_small else PodPlan(is_process=True)


class SmallJobs:
    """They refer to what the federated example has."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._uids: dict[str, str] = {}

    def apply(self, count: int) -> list[str]:
        """Creates so many; returns their uids."""
        applied = []
        for _ in range(count):
            name = f"{PREFIX}-{len(self._uids):02}"
            uid = str(self._system.apply(_manifest(name))["metadata"]["uid"])
            self._uids[uid] = name
            applied.append(uid)
        return applied

    def are_complete(self, uids: Collection[str]) -> bool:
        found = self._system.api_observer.objects(FEDERATED_LEARNING_JOB.singular)
        complete = {it["metadata"]["uid"] for it in found if _last(it) == "Complete"}
        return complete.issuperset(uids)


def _last(job: Json) -> str:
    """The type of its last condition."""
    conditions = job.get("status", {}).get("conditions", ())
    return str(conditions[-1]["type"]) if conditions else ""


def _manifest(name: str) -> Json:
    return {
        "apiVersion": API_VERSION,
        "kind": FEDERATED_LEARNING_JOB.kind,
        "metadata": {"name": name},
        "spec": {
            "aggregationWorker": {"model": {"name": "line"}, "template": _template("cloud-1")},
            "trainingWorkers": [
                {"dataset": {"name": "samples-a"}, "template": _template("edge-a")}
            ],
            "transmitter": {"ws": {}},
        },
    }


def _template(node: str) -> Json:
    containers = [{"name": "worker", "image": "edge-sidecars/examples"}]
    return {"spec": {"nodeName": node, "containers": containers}}
