"""Jobs of examples/ from the first object to the last status, in each mode, with real workers."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from tests.integration.system.gm_cluster import EXAMPLES, GmCluster
from tools.harness.pods.system import System

pytestmark = pytest.mark.long

Json = dict[str, Any]


FEDERATED = "/srv/edge-sidecars/federated/samples.csv"
HOT_UPDATE = "var/lib/sedna/model-hot-update"
INCREMENTAL = "/srv/edge-sidecars/incremental/samples.csv"
# Of a model that has learned something; guessing gets a half.
GOOD = 0.85


def _template(node: str) -> Json:
    return {"spec": {"nodeName": node, "containers": [{"name": "worker", "image": "none"}]}}


INFERENCE: list[Json] = [
    *(
        {
            "apiVersion": "sedna.io/v1alpha1",
            "kind": "Model",
            "metadata": {"name": name},
            "spec": {"url": f"/srv/models/{name}.json", "format": "json"},
        }
        for name in ("small", "big")
    ),
    {
        "apiVersion": "sedna.io/v1alpha1",
        "kind": "JointInferenceService",
        "metadata": {"name": "gate"},
        "spec": {
            "edgeWorker": {
                "model": {"name": "small"},
                "hardExampleMining": {"name": "IBT"},
                "template": _template("edge-a"),
            },
            "cloudWorker": {"model": {"name": "big"}, "template": _template("cloud-1")},
        },
    },
]


def manifests(example: str) -> list[Json]:
    text = (EXAMPLES / example / "job.yaml").read_text(encoding="utf-8")
    return list(yaml.safe_load_all(text))


def _name(it: Json) -> str:
    return str(it["metadata"]["name"])


def conditions(it: Json) -> list[str]:
    """`type`, of learning jobs `stage type round`."""
    return [
        f"{each['stage']} {each['type']} {each['round']}" if "stage" in each else each["type"]
        for each in it.get("status", {}).get("conditions", ())
    ]


def samples(system: System, edge: str, path: str, count: int, *, seed: int) -> None:
    file = system.edges[edge].lc.root / path.lstrip("/")
    command = [sys.executable, str(EXAMPLES / "make_data.py"), str(file), str(count), str(seed)]
    subprocess.run(command, check=True)


def is_good(model: Json) -> bool:
    metrics = model.get("status", {}).get("metrics", ())
    return any(it["key"] == "precision" and float(it["value"]) > GOOD for it in metrics)


def deployed(round_: int) -> Callable[[Json], bool]:
    """Of a learning job: whether it waits for the samples of the round after that one."""
    return lambda it: conditions(it)[-1:] == [f"Train Waiting {round_ + 1}"]


def check_federated(system: System) -> None:
    job = system.wait_for(
        "FederatedLearningJob",
        "line",
        lambda it: conditions(it)[-1:] == ["Complete"],
        what="it is complete",
    )
    assert job["status"]["phase"] == "Succeeded"
    assert job["status"]["succeeded"] == 3
    # A pod's end may be known before what its worker said last.
    system.wait_for("Model", "line", is_good, what="its metrics are those of a trained model")
    for name, count in (("samples-a", 399), ("samples-b", 299)):
        assert system.get("Dataset", name)["status"]["numberOfSamples"] == count


def check_incremental(system: System) -> None:
    """Round 1 deploys a model in place of none; round 2 begins when more samples have come."""
    kind, name = "IncrementalLearningJob", "threshold"
    system.wait_for(kind, name, deployed(1), what="round 1 is over")
    [worker] = [
        it for it in system.api_observer.objects("pod") if "threshold-inference" in _name(it)
    ]
    assert HOT_UPDATE in system.kubelet.log_of(_name(worker)), "it answers with the first model"
    samples(system, "edge-a", INCREMENTAL, 400, seed=4)
    job = system.wait_for(kind, name, deployed(2), what="round 2 is over")
    system.until(
        lambda: system.get("Dataset", "stream")["status"]["numberOfSamples"] == 600,
        what="600 samples are counted",
    )
    for number in (1, 2):
        for stage in ("Train", "Eval", "Deploy"):
            assert f"{stage} Completed {number}" in system.api_observer.types_of(job), number
    pods = [it for it in system.api_observer.objects("pod") if "threshold-inference" in _name(it)]
    assert [it["metadata"]["uid"] for it in pods] == [worker["metadata"]["uid"]]
    assert pods[0]["status"]["phase"] == "Running"


def check_inference(system: System) -> None:
    """Deployments are the real controller's."""
    service = system.wait_for(
        "JointInferenceService",
        "gate",
        lambda it: conditions(it)[-1:] == ["Running"],
        what="it runs",
    )
    assert service["status"]["active"] == 2
    # Its worker counts on.
    system.wait_for(
        "JointInferenceService",
        "gate",
        lambda it: any(
            each["key"] == "inferenceNumber" and int(each["value"]) > 1
            for each in it["status"].get("metrics", ())
        ),
        what="metrics",
    )


def test_every_kind_of_job_runs_from_end_to_end_and_leaves_nothing(cluster: GmCluster) -> None:
    system = cluster.system
    samples(system, "edge-a", FEDERATED, 400, seed=1)
    samples(system, "edge-b", FEDERATED, 300, seed=2)
    samples(system, "edge-a", INCREMENTAL, 200, seed=3)
    applied = [*manifests("federated"), *manifests("incremental"), *INFERENCE]
    for manifest in applied:
        system.apply(manifest)
    check_federated(system)
    check_inference(system)
    check_incremental(system)
    system.until(lambda: not system.unsettled_reports(), what="all reports are taken in")
    system.until(lambda: not system.wrong_stores(), what="LCs know what the API has")
    for manifest in applied:
        system.delete(manifest["kind"], manifest["metadata"]["name"])
    system.until(lambda: not system.api_observer.objects("pod"), what="pods go with their jobs")
    cluster.settled()
