"""Decisions, whatever has happened: same view, same answer; nothing twice; nothing of another's."""

import copy
from typing import Any

import pytest

from edge_sidecars.sedna_api.core.api_object import Json
from gm.core.engine.engine import stands_for
from gm.core.engine.plan import CreateChild, DeleteChild, ReplaceChild
from tests.unit.gm.controller.cluster import Cluster
from tests.unit.gm.controller.samples import EVERY_JOB, federated, incremental, joint


@pytest.mark.parametrize("made", EVERY_JOB)
def test_the_same_view_gives_the_same_decision_and_is_not_changed(made: Any) -> None:
    cluster = Cluster(made())
    view = cluster.view()
    before = copy.deepcopy(view)
    assert cluster.decide() == cluster.decide()
    cluster.settle()
    assert view == before


@pytest.mark.parametrize("made", EVERY_JOB)
def test_a_settled_object_asks_for_nothing(made: Any) -> None:
    cluster = Cluster(made())
    cluster.settle()
    decision = cluster.step()
    assert (decision.status, decision.actions, decision.events) == (None, (), ())
    assert not decision.annotations


@pytest.mark.parametrize("made", EVERY_JOB)
def test_two_gms_that_decide_at_once_ask_for_the_same_children(made: Any) -> None:
    """Sedna's make two of each: their names are drawn by chance."""
    cluster = Cluster(made())
    one, other = cluster.decide(), cluster.decide()
    assert one.actions == other.actions
    cluster.apply(one)
    for action in other.actions:
        assert isinstance(action, CreateChild)
        meta = action.manifest["metadata"]
        existing = cluster.child(action.manifest["kind"], meta["name"])
        uid = cluster.subject["metadata"]["uid"]
        assert stands_for(existing, action.manifest, uid)
        assert not stands_for(existing, action.manifest, "another")
        leaving = {**existing, "metadata": {**existing["metadata"], "deletionTimestamp": "now"}}
        assert not stands_for(leaving, action.manifest, uid)


@pytest.mark.parametrize("made", [federated, incremental, joint])
def test_an_edit_touches_no_child_of_another_object(made: Any) -> None:
    """Sedna deletes pods by the selector of the job that it looked at last."""
    cluster = Cluster(made())
    cluster.settle()
    uids = {it["metadata"]["uid"] for it in cluster.children.values()}
    for worker in ("aggregationWorker", "deploySpec", "edgeWorker"):
        if worker in cluster.subject["spec"]:
            part = copy.deepcopy(cluster.subject["spec"][worker])
            part["template"]["spec"]["containers"][0]["image"] = "other"
            cluster.edit(**{worker: part})
    decision = cluster.decide()
    touched = [
        it.uid if isinstance(it, DeleteChild) else it.manifest["metadata"]["uid"]
        for it in decision.actions
        if isinstance(it, DeleteChild | ReplaceChild)
    ]
    assert touched
    assert set(touched) <= uids


@pytest.mark.parametrize("made", EVERY_JOB)
def test_an_object_whose_name_is_as_long_as_names_may_be_gets_its_children(made: Any) -> None:
    subject: Json = made("n" * 253)
    cluster = Cluster(subject)
    cluster.settle()
    for (_, name), child in cluster.children.items():
        assert len(name) <= 67
        for value in child["metadata"]["labels"].values():
            assert len(value) <= 63


def test_a_decision_says_what_it_makes_in_one_event() -> None:
    cluster = Cluster(federated())
    (note,) = cluster.step().events
    assert note.reason == "SuccessfulCreate"
    assert "Pod fl1-train-1" in note.message
    assert not note.is_warning
