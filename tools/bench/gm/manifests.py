"""The smallest object of each kind that is measured. Pure."""

from typing import Any

from edge_sidecars.sedna_api.core.kinds import (
    API_VERSION,
    DATASET,
    FEDERATED_LEARNING_JOB,
    INCREMENTAL_LEARNING_JOB,
    MODEL,
    ResourceKind,
)

Json = dict[str, Any]

# What all jobs refer to.
SHARED_DATASET = "samples"
SHARED_MODELS = ("base", "prod")


def dataset(name: str, node: str) -> Json:
    """Its file is `path_of(name)`."""
    return _manifest(DATASET, name, {"url": path_of(name), "format": "txt", "nodeName": node})


def path_of(name: str) -> str:
    """On the node."""
    return f"/srv/data/{name}.txt"


def model(name: str) -> Json:
    return _manifest(MODEL, name, {"url": f"/srv/models/{name}/m.pb", "format": "pb"})


def federated(name: str, *nodes: str) -> Json:
    """One worker trains on each node."""
    workers = [{"dataset": {"name": SHARED_DATASET}, "template": _template(it)} for it in nodes]
    spec = {
        "aggregationWorker": {
            "model": {"name": SHARED_MODELS[0]},
            "template": _template(nodes[0]),
        },
        "trainingWorkers": workers,
        "transmitter": {"ws": {}},
    }
    return _manifest(FEDERATED_LEARNING_JOB, name, spec)


def incremental(name: str, node: str) -> Json:
    spec = {
        "dataset": {"name": SHARED_DATASET, "trainProb": 0.8},
        "initialModel": {"name": SHARED_MODELS[0]},
        "outputDir": "/srv/out",
        "trainSpec": {"template": _template(node), "trigger": _trigger("num_of_samples", 500)},
        "evalSpec": {"template": _template(node)},
        "deploySpec": {
            "model": {"name": SHARED_MODELS[1]},
            "trigger": _trigger("precision_delta", 0.1),
            "hardExampleMining": {"name": "IBT"},
            "template": _template(node),
        },
    }
    return _manifest(INCREMENTAL_LEARNING_JOB, name, spec)


def _manifest(kind: ResourceKind, name: str, spec: Json) -> Json:
    metadata = {"name": name}
    return {"apiVersion": API_VERSION, "kind": kind.kind, "metadata": metadata, "spec": spec}


def _template(node: str) -> Json:
    return {"spec": {"nodeName": node, "containers": [{"name": "w", "image": "worker:1"}]}}


def _trigger(metric: str, threshold: float) -> Json:
    return {"condition": {"operator": ">", "threshold": threshold, "metric": metric}}
