"""What an object refers to, which nodes it concerns, which Models go with it."""

from typing import Any

import pytest

from edge_sidecars.sedna_api.core.api_object import Json, ObjectKey
from gm.core.engine.engine import decide, models, nodes, references
from gm.core.engine.plan import ObjectView
from gm.core.kind import WorkerSettings
from gm.core.kinds.registry import KINDS
from tests.unit.gm.controller.cluster import START, Cluster
from tests.unit.gm.controller.samples import (
    EVERY_JOB,
    dataset,
    feature,
    federated,
    incremental,
    joint,
    lifelong,
    model,
    reid,
    search,
    tracking,
    video,
    world,
)


def row(subject: Json) -> Any:
    return KINDS[subject["kind"].lower()]


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        (dataset(), {"edge-a"}),
        (model(), set()),
        (joint(), {"edge-a"}),
        (federated(), {"edge-a", "edge-b"}),
        (incremental(), {"edge-a"}),
        (lifelong(dataset={"name": "d2", "trainProb": 1}), {"edge-a", "edge-b"}),
        (feature(), {"edge-a"}),
        (video(), set()),
        (reid(), set()),
        (search(), set()),
        (tracking(), set()),
    ],
    ids=lambda it: it["kind"] if isinstance(it, dict) else "",
)
def test_which_nodes_an_object_concerns(subject: Json, expected: set[str]) -> None:
    assert nodes(row(subject), subject, world()) == expected


def test_nodes_where_a_stage_ran_are_concerned() -> None:
    subject = incremental()
    subject["metadata"]["annotations"] = {"sedna.io/Train": "edge-x", "sedna.io/Eval": "edge-y"}
    assert nodes(row(subject), subject, world()) == {"edge-a", "edge-x", "edge-y"}


def test_what_a_job_refers_to_is_found_in_two_steps() -> None:
    subject = incremental(credentialName="job-keys")
    there = world()
    found = there[ObjectKey("model", "shop", "base")]
    assert found is not None
    found["spec"]["credentialName"] = "model-keys"
    first = references(row(subject), subject)
    assert first == {
        ObjectKey("model", "shop", "base"),
        ObjectKey("model", "shop", "prod"),
        ObjectKey("dataset", "shop", "d1"),
        ObjectKey("secret", "shop", "job-keys"),
        ObjectKey("node", "", "edge-a"),
    }
    known = {key: there.get(key) for key in first}
    second = references(row(subject), subject, known)
    assert second - first == {ObjectKey("secret", "shop", "model-keys")}
    known |= dict.fromkeys(second - first)
    assert references(row(subject), subject, known) == second


@pytest.mark.parametrize("made", EVERY_JOB)
def test_odd_names_are_no_references(made: Any) -> None:
    subject = made()
    kind = row(subject)
    odd: Any
    for odd in (None, 7, [], {}, "x"):
        for field in list(subject["spec"]):
            broken = {**subject, "spec": {**subject["spec"], field: odd}}
            assert all(isinstance(it.name, str) for it in references(kind, broken))
            assert all(isinstance(it, str) for it in nodes(kind, broken, {}))


def test_only_incremental_learning_takes_its_models_along() -> None:
    subject = incremental()
    subject["spec"]["evalSpec"]["initialEvalModel"] = {"name": "big"}
    assert [it.name for it in models(row(subject), subject)] == ["base", "prod", "big"]
    assert models(row(joint()), joint()) == ()


def test_a_models_labels_are_the_nodes_of_the_jobs_that_name_it() -> None:
    view = ObjectView(model(), concerned=frozenset({"edge-a"}))
    decision = decide(row(model()), view, now=START, settings=WorkerSettings())
    assert decision.labels == {"sedna.io/node.edge-a"}


def test_the_labels_follow_the_nodes() -> None:
    cluster = Cluster(federated())
    assert cluster.settle().labels == {"sedna.io/node.edge-a", "sedna.io/node.edge-b"}
    cluster.edit(trainingWorkers=cluster.subject["spec"]["trainingWorkers"][:1])
    assert cluster.settle().labels == {"sedna.io/node.edge-a"}
