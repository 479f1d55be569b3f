"""Which objects of each kind concern a node, as the API selects them.

A field where one names the node; else the label that GM stamps on what concerns it. Pure.
"""

from typing import Final

from edge_sidecars.sedna_api.core.kinds import (
    DATASET,
    FEATURE_EXTRACTION_SERVICE,
    FEDERATED_LEARNING_JOB,
    INCREMENTAL_LEARNING_JOB,
    JOINT_INFERENCE_SERVICE,
    LIFELONG_LEARNING_JOB,
    MODEL,
    ResourceKind,
)
from edge_sidecars.sedna_api.core.node_label import node_label

# selectableFields of manifests/crds.
_FIELDS: Final = {
    DATASET: "spec.nodeName",
    JOINT_INFERENCE_SERVICE: "spec.edgeWorker.template.spec.nodeName",
    FEATURE_EXTRACTION_SERVICE: "spec.template.spec.nodeName",
}
_LABELLED: Final = (MODEL, FEDERATED_LEARNING_JOB, INCREMENTAL_LEARNING_JOB, LIFELONG_LEARNING_JOB)


def selections(node: str) -> dict[ResourceKind, dict[str, str]]:
    """The query parameters that select from each kind's collection."""
    by_field = {kind: {"fieldSelector": f"{path}={node}"} for kind, path in _FIELDS.items()}
    return by_field | {kind: {"labelSelector": node_label(node)} for kind in _LABELLED}
