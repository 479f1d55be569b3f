"""Objects that pass their CRD and make no sense: the field, the remedy, and how it goes on."""

from collections.abc import Callable
from typing import Any

import pytest

from edge_sidecars.sedna_api.core.api_object import Json
from gm.core.validation import trigger_problems
from tests.unit.gm.controller.cluster import Cluster
from tests.unit.gm.controller.samples import (
    EVERY_JOB,
    dataset,
    federated,
    incremental,
    joint,
    lifelong,
    model,
    secret,
    template,
    tracking,
    video,
)
from tests.unit.gm.controller.test_staged_rule import begun, done, in_stage

Broken = Callable[[Json], None]


def at(*path: str | int, to: Any) -> Broken:
    """Put a value where it makes no sense."""

    def break_(subject: Json) -> None:
        part: Any = subject["spec"]
        for key in path[:-1]:
            part = part[key]
        part[path[-1]] = to

    return break_


def trigger(**condition: Any) -> Json:
    return {"condition": {"operator": ">", "threshold": 1, "metric": "num_of_samples"} | condition}


CASES: list[tuple[Callable[[], Json], Broken, str, str]] = [
    (
        joint,
        at("edgeWorker", "template", to={"spec": {"nodeName": "edge-a"}}),
        "spec.edgeWorker.template.spec.containers",
        "give the worker's container",
    ),
    (
        joint,
        at("cloudWorker", "template", to="oops"),
        "spec.cloudWorker.template.spec.containers",
        "give the worker's container",
    ),
    (
        joint,
        at("edgeWorker", "template", to={"spec": {"containers": [{"name": "w"}]}}),
        "spec.edgeWorker.template.spec.containers[0]",
        "give both",
    ),
    (
        joint,
        at("edgeWorker", "template", to=template("")),
        "spec.edgeWorker.template.spec.nodeName",
        "name the edge node",
    ),
    (
        joint,
        at("cloudWorker", "hpa", to={"minReplicas": 3, "maxReplicas": 2}),
        "spec.cloudWorker.hpa.maxReplicas",
        "at least as large",
    ),
    (
        federated,
        at("trainingWorkers", 1, "template", "spec", "containers", to=[]),
        "spec.trainingWorkers[1].template.spec.containers",
        "give the worker's container",
    ),
    (federated, at("trainingWorkers", to=[]), "spec.trainingWorkers", "at least one worker"),
    (
        federated,
        at("trainingWorkers", 0, "dataset", to={}),
        "spec.trainingWorkers[0].dataset.name",
        "name a Dataset",
    ),
    (
        federated,
        at("transmitter", to={"s3": {"aggDataPath": "/data"}}),
        "spec.transmitter.s3.aggDataPath",
        "s3://bucket/path",
    ),
    (
        incremental,
        at("trainSpec", "trigger", to=trigger(operator="~")),
        "spec.trainSpec.trigger.condition.operator",
        "use one of",
    ),
    (
        incremental,
        at("trainSpec", "trigger", to=trigger(metric="samples")),
        "spec.trainSpec.trigger.condition.metric",
        "use num_of_samples",
    ),
    (
        incremental,
        at("trainSpec", "trigger", to=trigger() | {"timer": {"start": "25:00", "end": "1:00"}}),
        "spec.trainSpec.trigger.timer.start",
        "HH:MM",
    ),
    (
        incremental,
        at("trainSpec", "trigger", to=trigger() | {"timer": {"start": "24:00", "end": "24:00"}}),
        "spec.trainSpec.trigger.timer.start",
        "HH:MM",
    ),
    (
        incremental,
        at("trainSpec", "trigger", to=trigger() | {"timer": {"start": "2:00", "end": "24:01"}}),
        "spec.trainSpec.trigger.timer.end",
        "HH:MM",
    ),
    (
        incremental,
        at("deploySpec", "trigger", to=trigger(metric="precision delta[x]")),
        "spec.deploySpec.trigger.condition.metric",
        "precision_delta[0]",
    ),
    (
        incremental,
        at("deploySpec", "model", "pollPeriodSeconds", to=0),
        "spec.deploySpec.model.pollPeriodSeconds",
        "at least 1",
    ),
    (incremental, at("dataset", "trainProb", to=1.5), "spec.dataset.trainProb", "at most 1"),
    (incremental, at("outputDir", to="out"), "spec.outputDir", "absolute path"),
    (incremental, at("outputDir", to="/srv/../etc"), "spec.outputDir", "absolute path"),
    (incremental, at("outputDir", to="ftp://h/x"), "spec.outputDir", "s3, http or https"),
    (lifelong, at("outputDir", to="s3:///x"), "spec.outputDir", "names no host"),
    (tracking, at("trackingWorkers", to=[]), "spec.trackingWorkers", "at least one worker"),
    (dataset, at("url", to="srv/t.txt"), "spec.url", "absolute path"),
    (dataset, at("url", to="http://[broken/x"), "spec.url", "is no URL"),
    (dataset, at("format", to="parquet"), "spec.format", "txt or csv"),
    (dataset, at("nodeName", to=""), "spec.nodeName", "name the node"),
    (model, at("url", to=""), "spec.url", "absolute path"),
]


def has_children_at_once(cluster: Cluster) -> bool:
    """Lifelong learning has none before the first training, records never."""
    return any(not worker.stage or worker.is_initial for worker in cluster.kind.workers)


@pytest.mark.parametrize(
    ("made", "break_", "field", "remedy"),
    CASES,
    ids=lambda it: it[:60] if isinstance(it, str) else None,
)
def test_nonsense_has_a_condition_and_an_event_and_goes_on_when_it_is_mended(
    made: Callable[[], Json], break_: Broken, field: str, remedy: str
) -> None:
    subject = made()
    whole = made()["spec"]
    break_(subject)
    cluster = Cluster(subject)
    cluster.settle()
    assert cluster.children == {}
    last = cluster.last
    assert (last["type"], last["reason"]) == ("Failed", "InvalidSpec")
    assert field in last["message"]
    assert remedy in last["message"]
    assert cluster.events.count("InvalidSpec") == 1
    cluster.edit(**whole)
    cluster.settle()
    assert cluster.last["type"] != "Failed"
    assert bool(cluster.children) is has_children_at_once(cluster)


def test_a_day_may_end_at_24_00() -> None:
    wanted = {"spec": {"trigger": {"timer": {"start": "02:00", "end": "24:00"}}}}
    assert list(trigger_problems(wanted, ("spec", "trigger"))) == []


MISSING: list[tuple[Callable[[], Json], str, str, str]] = [
    (joint, "model", "big", "spec.cloudWorker.model.name: Model big does not exist"),
    (federated, "dataset", "d2", "spec.trainingWorkers[1].dataset.name: Dataset d2"),
    (incremental, "model", "base", "spec.initialModel.name: Model base does not exist"),
    (incremental, "dataset", "d1", "spec.dataset.name: Dataset d1 does not exist"),
    (video, "model", "base", "spec.model.name: Model base does not exist"),
    (joint, "node", "cloud-1", "spec.cloudWorker.template.spec.nodeName: Node cloud-1"),
    (incremental, "node", "edge-a", "Node edge-a does not exist"),
    (dataset, "node", "edge-a", "spec.nodeName: Node edge-a does not exist"),
]


@pytest.mark.parametrize(("made", "kind", "name", "message"), MISSING)
def test_what_is_missing_is_waited_for(
    made: Callable[[], Json], kind: str, name: str, message: str
) -> None:
    cluster = Cluster(made())
    there = dict(cluster.references)
    cluster.without(kind, name)
    cluster.settle()
    assert cluster.children == {}
    assert cluster.last["reason"] == "MissingReference"
    assert message in cluster.last["message"]
    assert cluster.events.count("MissingReference") == 1
    cluster.references = there
    cluster.settle()
    assert bool(cluster.children) is has_children_at_once(cluster)
    assert cluster.last["type"] != "Failed"


@pytest.mark.parametrize(("made", "kind", "name", "message"), MISSING)
def test_what_may_be_there_in_a_moment_is_no_failure(
    made: Callable[[], Json], kind: str, name: str, message: str
) -> None:
    cluster = Cluster(made())
    there = dict(cluster.references)
    cluster.without(kind, name)
    (key,) = (it for it in there if (it.kind, it.name) == (kind, name))
    cluster.awaited = {key: 4.0}
    assert cluster.settle().again_in == 4.0
    assert cluster.children == {}
    assert cluster.events == []
    assert all(it["type"] != "Failed" for it in cluster.conditions)
    # The API server was asked, and has none.
    cluster.awaited = {}
    cluster.settle()
    assert message in cluster.last["message"]
    # Another GM does not know that yet: what was said goes on, with its words.
    said, cluster.awaited = cluster.conditions, {key: 9.0}
    cluster.settle()
    assert cluster.conditions == said
    cluster.references, cluster.awaited = there, {}
    cluster.settle()
    assert cluster.last["type"] != "Failed"


def test_what_is_wrong_in_itself_is_said_at_once_beside_what_is_awaited() -> None:
    cluster = Cluster(incremental(outputDir="out"))
    cluster.without("model", "base")
    (key,) = (it for it in cluster.references if it.name == "base")
    cluster.awaited = {key: 4.0}
    cluster.settle()
    assert cluster.last["reason"] == "InvalidSpec"
    assert "base" not in cluster.last["message"]


@pytest.mark.parametrize("made", EVERY_JOB)
def test_what_is_not_known_yet_is_not_called_missing(made: Callable[[], Json]) -> None:
    cluster = Cluster(made())
    cluster.references = {key: it for key, it in cluster.references.items() if key.kind != "node"}
    cluster.settle()
    assert all(it["type"] != "Failed" for it in cluster.conditions)


def test_a_missing_secret_of_a_model_is_named_with_the_model() -> None:
    cluster = Cluster(joint())
    found = cluster.references[next(it for it in cluster.references if it.name == "big")]
    assert found is not None
    found["spec"]["credentialName"] = "keys"
    cluster.without("secret", "keys")
    cluster.settle()
    assert "Model big: spec.credentialName: Secret keys does not exist" in cluster.last["message"]
    key = next(it for it in cluster.references if it.kind == "secret")
    cluster.references[key] = secret("keys", {})
    cluster.settle()
    assert cluster.names("Deployment")


def test_a_problem_does_not_lose_the_state_behind_it() -> None:
    cluster = begun()
    name = in_stage(cluster, "Train", 1)
    train = cluster.subject["spec"]["trainSpec"]
    cluster.edit(trainSpec=train | {"template": {"spec": {}}})
    cluster.settle()
    assert cluster.last["type"] == "Failed"
    assert name in cluster.names()
    cluster.edit(trainSpec=train)
    cluster.settle()
    assert cluster.state == ("Train", "Running", "1")


def test_a_report_that_comes_while_a_problem_stands_is_not_lost() -> None:
    cluster = begun()
    in_stage(cluster, "Train", 1)
    train = cluster.subject["spec"]["trainSpec"]
    cluster.edit(trainSpec=train | {"template": {"spec": {}}})
    cluster.settle()
    cluster.report(done("Train", 1))
    cluster.settle()
    assert cluster.last["type"] == "Failed"
    cluster.edit(trainSpec=train)
    cluster.settle()
    assert cluster.state == ("Eval", "Waiting", "1")


def test_a_problem_that_changes_takes_the_place_of_the_one_before() -> None:
    cluster = begun()
    for index in range(20):
        cluster.edit(outputDir=f"out-{index}")
        cluster.settle()
    assert [it["type"] for it in cluster.conditions] == ["Waiting", "Failed"]


def test_repairs_back_and_forth_never_push_out_what_a_stage_needs() -> None:
    cluster = begun()
    name = in_stage(cluster, "Train", 1)
    for _ in range(15):
        cluster.edit(outputDir="out")
        cluster.settle()
        cluster.edit(outputDir="/srv/out")
        cluster.settle()
    cluster.vanish("Pod", name)
    cluster.settle()
    environment = cluster.environment("Pod", name)
    assert environment["BASE_MODEL_URL"] == "/home/data/srv/m/base.pb"
    assert cluster.state == ("Train", "Running", "1")


def test_what_the_api_server_refuses_is_a_condition_and_is_tried_again() -> None:
    cluster = Cluster(federated())
    cluster.reject("fl1-train-0", 'spec.containers[0].ports: Invalid value: "x"')
    decision = cluster.settle()
    assert "fl1-train-0" not in cluster.names()
    assert cluster.last["reason"] == "ChildRefused"
    assert "Invalid value" in cluster.last["message"]
    assert decision.again_in == 30
    assert cluster.events.count("ChildRefused") == 1
    cluster.refusals = ()
    cluster.settle()
    assert cluster.status["phase"] == "Running"


def test_a_rejection_of_what_is_not_wanted_any_more_has_no_effect() -> None:
    cluster = Cluster(federated())
    cluster.reject("fl1-train-0", "no")
    cluster.edit(transmitter={"ws": {}, "changed": True})
    cluster.settle()
    assert cluster.status["phase"] == "Running"


def test_whatever_stands_in_a_template_nothing_raises() -> None:
    odd: Any
    for odd in (None, 7, "x", [], {}, {"spec": []}, {"spec": {"containers": {"a": 1}}}):
        for made, worker in ((joint, "edgeWorker"), (incremental, "trainSpec")):
            subject = made()
            subject["spec"][worker]["template"] = odd
            cluster = Cluster(subject)
            cluster.settle()
            assert cluster.last["reason"] == "InvalidSpec"


def test_an_object_without_a_spec_is_invalid_and_stops_nothing() -> None:
    for made in EVERY_JOB:
        subject = made()
        subject["spec"] = {}
        cluster = Cluster(subject)
        cluster.settle()
        assert cluster.last["reason"] == "InvalidSpec"
        assert cluster.children == {}
