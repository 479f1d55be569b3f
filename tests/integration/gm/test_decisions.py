"""What GM's controller decide is what the API server takes, to the letter, and keeps."""

from collections.abc import Callable
from typing import Any

import pytest

from edge_sidecars.sedna_api.core.kinds import API_VERSION
from gm.core.engine.plan import CreateChild, ReconcilePlan, ReplaceChild
from gm.core.tree import text
from tests.unit.gm.controller import samples
from tests.unit.gm.controller.cluster import Cluster
from tests.unit.gm.controller.test_merge_reports import inference, training
from tests.unit.gm.controller.test_staged_rule import at_deploy, done, in_stage, ready
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.schemas.sedna_kinds import install

Json = dict[str, Any]

_PATHS = {
    "Pod": "/api/v1/namespaces/{}/pods",
    "Service": "/api/v1/namespaces/{}/services",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "HorizontalPodAutoscaler": "/apis/autoscaling/v2/namespaces/{}/horizontalpodautoscalers",
}
STRICT = "?fieldValidation=Strict"


class MirroredCluster(Cluster):
    """Everything that is written is written to a real API server too, strictly."""

    def __init__(self, plane: ControlPlane, namespace: str, made: Json) -> None:
        self._admin = plane.admin
        self._namespace = namespace
        super().__init__(made)
        path = self.kind.resource.collection(namespace)
        metadata = {"name": made["metadata"]["name"]}
        body = {"apiVersion": API_VERSION, "kind": made["kind"], "metadata": metadata}
        status, there = self._admin.post(path + STRICT, body | {"spec": made["spec"]})
        assert status == 201, there
        self._mirror = self.kind.resource.path(namespace, metadata["name"])

    def apply(self, decision: ReconcilePlan) -> None:
        for action in decision.actions:
            if isinstance(action, CreateChild):
                kind = text(action.manifest, "kind")
                body = self._moved(action.manifest)
                name = body["metadata"]["name"]
                path = _PATHS[kind].format(self._namespace)
                status, answer = self._admin.post(path + STRICT, body)
                # A pod that was deleted here is on its way out there for as long as it likes.
                assert status == 201 or answer["reason"] == "AlreadyExists", answer
                assert answer.get("metadata", {}).get("name", name) == name or status == 409
            elif isinstance(action, ReplaceChild):
                self._replace_there(action.manifest)
        if decision.status is not None:
            self._write_status(decision.status)
        super().apply(decision)

    def _moved(self, manifest: Json) -> Json:
        metadata = {
            key: manifest["metadata"][key]
            for key in ("name", "labels", "annotations", "ownerReferences")
        }
        return {**manifest, "metadata": metadata}

    def _replace_there(self, manifest: Json) -> None:
        base = _PATHS[manifest["kind"]].format(self._namespace)
        path = f"{base}/{manifest['metadata']['name']}"
        there = self._admin.get(path)[1]
        body = self._moved(manifest)
        body["metadata"] |= {key: there["metadata"][key] for key in ("uid", "resourceVersion")}
        status, answer = self._admin.put(path + STRICT, body)
        assert status == 200, answer

    def _write_status(self, wanted: Json) -> None:
        there = self._admin.get(self._mirror)[1]
        there["metadata"].pop("managedFields", None)
        status, answer = self._admin.put(
            f"{self._mirror}/status{STRICT}", {**there, "status": wanted}
        )
        assert status == 200, answer
        assert answer["status"] == wanted


@pytest.mark.parametrize("made", [samples.dataset, samples.model, *samples.EVERY_JOB])
def test_the_api_server_takes_children_and_statuses_of_each_kind(
    control_plane: ControlPlane, namespace: str, made: Callable[[], Json]
) -> None:
    install(control_plane)
    cluster = MirroredCluster(control_plane, namespace, made())
    cluster.settle()
    live(cluster)
    cluster.without("node", "edge-a")
    spec = cluster.subject["spec"]
    for broken in ({"outputDir": "out", "url": "x"}, spec):
        cluster.subject["spec"] = {**spec, **broken}
        cluster.subject["metadata"]["generation"] += 1
        cluster.settle()


def live(cluster: Cluster) -> None:
    """Whatever its LC and its pods may say."""
    match cluster.subject["kind"]:
        case "Dataset":
            cluster.report({"problem": "is a directory"}, is_event=False)
            cluster.settle()
            cluster.report({"numberOfSamples": 3}, is_event=False)
        case "JointInferenceService" | "FeatureExtractionService":
            cluster.report(inference(inferenceNumber=3), is_event=False)
            for name in cluster.names("Deployment"):
                cluster.available(name, 1)
        case "FederatedLearningJob":
            cluster.report(training(2, acc=0.5), is_event=False)
            cluster.run_all("Running")
            cluster.settle()
            cluster.run_all("Succeeded")
        case "IncrementalLearningJob" | "LifelongLearningJob":
            at_deploy(cluster)
            cluster.report(ready("Deploy", 1))
            cluster.settle()
            cluster.run_all("Running")
            cluster.report({"phase": "Deploy", "status": "completed", "round": 1})
            cluster.settle()
            in_stage(cluster, "Train", 2)
            cluster.report(done("Train", 2, "failed"))
        case _:
            cluster.run_all("Running")
            cluster.settle()
            cluster.run_all("Failed")
    cluster.settle()
