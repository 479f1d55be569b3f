"""What concerns a node is selected by a field where one names it, else by GM's label."""

from edge_sidecars.sedna_api.core.kinds import node_label
from lc.relay.relay_link import selections


def test_every_kind_that_lc_works_for_is_selected_once() -> None:
    found = {kind.kind: params for kind, params in selections("edge-a").items()}
    label = {"labelSelector": node_label("edge-a")}
    assert found == {
        "Dataset": {"fieldSelector": "spec.nodeName=edge-a"},
        "JointInferenceService": {"fieldSelector": "spec.edgeWorker.template.spec.nodeName=edge-a"},
        "FeatureExtractionService": {"fieldSelector": "spec.template.spec.nodeName=edge-a"},
        "Model": label,
        "FederatedLearningJob": label,
        "IncrementalLearningJob": label,
        "LifelongLearningJob": label,
    }
