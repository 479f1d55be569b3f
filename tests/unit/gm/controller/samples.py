"""Objects of each kind, as small as their CRDs allow, and all that they refer to."""

from collections.abc import Mapping
from typing import Any

from edge_sidecars.sedna_api.core.api_object import Json, ObjectKey

NAMESPACE = "shop"


def template(node: str, **spec: Any) -> Json:
    """A pod template on a node; "" leaves the node to the scheduler."""
    placed = {"nodeName": node} if node else {}
    return {"spec": {**placed, "containers": [{"name": "w", "image": "i"}], **spec}}


def made(kind: str, name: str, spec: Json) -> Json:
    return {
        "apiVersion": "sedna.io/v1alpha1",
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "uid": f"uid-{name[:20]}",
            "resourceVersion": "1",
            "generation": 1,
        },
        "spec": spec,
    }


def dataset(name: str = "d1", *, node: str = "edge-a", **spec: Any) -> Json:
    return made(
        "Dataset",
        name,
        {"url": f"/srv/{name}/t.txt", "format": "txt", "nodeName": node, **spec},
    )


def model(name: str = "base", **spec: Any) -> Json:
    return made("Model", name, {"url": f"/srv/m/{name}.pb", "format": "pb", **spec})


def joint(name: str = "ji1", **changes: Any) -> Json:
    edge = {
        "model": {"name": "small"},
        "hardExampleMining": {"name": "IBT", "parameters": [{"key": "t", "value": "0.9"}]},
        "template": template("edge-a"),
    }
    cloud = {"model": {"name": "big"}, "template": template("cloud-1")}
    spec = {"edgeWorker": edge, "cloudWorker": cloud, **changes}
    return made("JointInferenceService", name, spec)


def federated(name: str = "fl1", **changes: Any) -> Json:
    trainers = [
        {"dataset": {"name": "d1"}, "template": template("edge-a")},
        {"dataset": {"name": "d2"}, "template": template("edge-b")},
    ]
    spec = {
        "aggregationWorker": {"model": {"name": "base"}, "template": template("cloud-1")},
        "trainingWorkers": trainers,
        "transmitter": {"ws": {}},
        **changes,
    }
    return made("FederatedLearningJob", name, spec)


def incremental(name: str = "il1", **changes: Any) -> Json:
    trigger = {
        "checkPeriodSeconds": 60,
        "timer": {"start": "01:00", "end": "23:00"},
        "condition": {"operator": ">", "threshold": 500, "metric": "num_of_samples"},
    }
    deploy = {
        "model": {"name": "prod"},
        "trigger": {
            "condition": {"operator": ">", "threshold": 0.1, "metric": "precision_delta[0]"}
        },
        "hardExampleMining": {"name": "IBT"},
        "template": template("edge-a"),
    }
    spec = {
        "dataset": {"name": "d1", "trainProb": 0.8},
        "initialModel": {"name": "base"},
        "outputDir": "/srv/out",
        "trainSpec": {"template": template("edge-a"), "trigger": trigger},
        "evalSpec": {"template": template("edge-a")},
        "deploySpec": deploy,
        **changes,
    }
    return made("IncrementalLearningJob", name, spec)


def hot(name: str = "il1") -> Json:
    job = incremental(name)
    job["spec"]["deploySpec"]["model"] |= {"hotUpdateEnabled": True, "pollPeriodSeconds": 5}
    return job


def lifelong(name: str = "ll1", **changes: Any) -> Json:
    spec = incremental(name)["spec"]
    kept = {key: spec[key] for key in ("dataset", "trainSpec", "evalSpec")}
    deploy = {"template": template("edge-a")}
    return made(
        "LifelongLearningJob",
        name,
        {**kept, "deploySpec": deploy, "outputDir": "/srv/out", **changes},
    )


def feature(name: str = "fe1", **changes: Any) -> Json:
    spec = {"model": {"name": "base"}, "selector": {}, "template": template("edge-a"), **changes}
    return made("FeatureExtractionService", name, spec)


def video(name: str = "va1", **changes: Any) -> Json:
    spec = {"model": {"name": "base"}, "template": template("edge-a"), **changes}
    return made("VideoAnalyticsJob", name, spec)


def reid(name: str = "re1", **changes: Any) -> Json:
    return made("ReidJob", name, {"template": template("cloud-1"), **changes})


def search(name: str = "os1") -> Json:
    spec = {
        "userWorker": {"template": template("cloud-1")},
        "trackingWorkers": [{"template": template("edge-a")}, {"template": template("edge-b")}],
        "reidWorkers": {"replicas": 2, "selector": {}, "template": template("cloud-1")},
    }
    return made("ObjectSearchService", name, spec)


def tracking(name: str = "ot1") -> Json:
    spec = search(name)["spec"]
    del spec["userWorker"]
    return made("ObjectTrackingService", name, spec)


EVERY_JOB = (
    joint,
    federated,
    incremental,
    hot,
    lifelong,
    feature,
    video,
    reid,
    search,
    tracking,
)


def world() -> dict[ObjectKey, Json | None]:
    """All that the objects above refer to."""
    there: dict[ObjectKey, Json | None] = {}
    for name in ("base", "small", "big", "prod"):
        there[ObjectKey("model", NAMESPACE, name)] = model(name)
    there[ObjectKey("dataset", NAMESPACE, "d1")] = dataset("d1")
    there[ObjectKey("dataset", NAMESPACE, "d2")] = dataset("d2", node="edge-b")
    for node in ("edge-a", "edge-b", "cloud-1"):
        there[ObjectKey("node", "", node)] = {"kind": "Node", "metadata": {"name": node}}
    return there


def secret(name: str, annotations: Mapping[str, str]) -> Json:
    """As metadata only, which is all that GM is given."""
    return {
        "kind": "Secret",
        "metadata": {"name": name, "namespace": NAMESPACE, "annotations": dict(annotations)},
    }
