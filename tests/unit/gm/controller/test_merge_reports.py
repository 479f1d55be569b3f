"""Reports: what they change, once, in their order, and what they never change."""

import copy
import json
from typing import Any

import pytest

from edge_sidecars.sedna_api.core.api_object import Json, ObjectKey
from edge_sidecars.sedna_api.core.stored_report import StoredReport
from gm.core.engine.plan import PatchModelStatus
from tests.unit.gm.controller.cluster import Cluster
from tests.unit.gm.controller.samples import (
    dataset,
    feature,
    federated,
    incremental,
    joint,
    model,
    reid,
    search,
    video,
)
from tests.unit.gm.controller.test_staged_rule import at_deploy, begun, done, in_stage, ready


def inference(**info: Any) -> Json:
    told = {"startTime": "s", "updateTime": "u", **info}
    return {"phase": "inference", "status": "", "output": {"models": None, "ownerInfo": told}}


def training(round_: int, **metrics: Any) -> Json:
    info = {"currentRound": round_, "sampleCount": 640, "updateTime": "2026-01-02 03:04:05"}
    output = {"models": [{"url": "/m/1.ckpt", "metrics": metrics}], "ownerInfo": info}
    return {"phase": "train", "status": "running", "output": output}


def metrics(cluster: Cluster) -> dict[str, str]:
    return {it["key"]: it["value"] for it in cluster.status["metrics"]}


def test_a_count_of_samples_and_that_it_was_taken_in_stand_in_one_status() -> None:
    cluster = Cluster(dataset())
    cluster.report({"numberOfSamples": 412}, is_event=False)
    decision = cluster.step()
    assert decision.folded == 1
    assert cluster.status["numberOfSamples"] == 412
    assert cluster.status["updateTime"] == cluster.stamp()
    applied = {"node": "edge-a", "storeID": "s1", "epoch": 1, "seq": 1}
    assert cluster.status["appliedReports"] == [applied]
    assert cluster.settle().folded == 0


def test_an_empty_dataset_is_counted_too() -> None:
    cluster = Cluster(dataset())
    cluster.report({"numberOfSamples": 0}, is_event=False)
    cluster.settle()
    assert cluster.status["numberOfSamples"] == 0


def test_a_dataset_that_cannot_be_read_says_so_until_it_can() -> None:
    cluster = Cluster(dataset())
    cluster.report({"problem": "/srv/d1/t.txt is a directory"}, is_event=False)
    cluster.settle()
    assert cluster.state == ("Failed",)
    assert cluster.last["reason"] == "Unreadable"
    assert "directory" in cluster.last["message"]
    assert cluster.events == ["Unreadable"]
    cluster.report({"numberOfSamples": 3}, is_event=False)
    cluster.settle()
    assert cluster.state == ("Ready",)
    assert cluster.events == ["Unreadable", "Counted"]


@pytest.mark.parametrize("made", [joint, feature])
def test_metrics_of_a_service_are_its_owner_info_as_strings(made: Any) -> None:
    cluster = Cluster(made())
    cluster.report(inference(inferenceNumber=90, uploadCloudRatio=0.1, note="x"), is_event=False)
    cluster.settle()
    assert metrics(cluster) == {"inferenceNumber": "90", "uploadCloudRatio": "0.1", "note": "x"}


def test_the_newest_metrics_count() -> None:
    cluster = Cluster(joint())
    cluster.report(inference(inferenceNumber=1), is_event=False)
    cluster.report(inference(inferenceNumber=2), is_event=False)
    cluster.settle()
    assert metrics(cluster) == {"inferenceNumber": "2"}
    assert cluster.status["appliedReports"][0]["seq"] == 2


def test_a_rounds_metrics_go_to_the_model_and_the_round_becomes_a_condition() -> None:
    cluster = Cluster(federated())
    cluster.report(training(3, acc=0.8, loss=[1, 2]), is_event=False)
    cluster.settle()
    (patch,) = cluster.patched
    assert patch.key == ObjectKey("model", "shop", "base")
    assert list(patch.metrics) == [
        {"key": "acc", "value": "0.8"},
        {"key": "loss", "value": "[1,2]"},
    ]
    assert cluster.last["reason"] == "DoTraining"
    assert cluster.last["message"] == "Round 3 reaches at 2026-01-02 03:04:05"


def test_only_the_last_of_several_metrics_is_written_to_the_model() -> None:
    cluster = Cluster(federated())
    cluster.report(training(1, acc=0.1), node="edge-a", is_event=False)
    cluster.report(training(2, acc=0.2), node="edge-b", is_event=False)
    decision = cluster.step()
    patches = [it for it in decision.actions if isinstance(it, PatchModelStatus)]
    assert [it.metrics[0]["value"] for it in patches] == ["0.2"]


def test_several_workers_of_one_round_make_one_condition() -> None:
    cluster = Cluster(federated())
    for node in ("edge-a", "edge-b"):
        cluster.report(training(3, acc=0.8), node=node, is_event=False)
    cluster.settle()
    assert [it["round"] for it in cluster.conditions] == [3]


def test_metrics_that_arrive_after_the_end_count_but_do_not_open_the_job() -> None:
    cluster = Cluster(federated())
    cluster.settle()
    cluster.run_all("Succeeded")
    cluster.settle()
    before = copy.deepcopy(cluster.conditions)
    cluster.report(training(9, acc=0.9), is_event=False)
    cluster.settle()
    assert len(cluster.patched) == 1
    assert cluster.conditions == before
    assert cluster.status["phase"] == "Succeeded"


def test_a_report_that_was_taken_in_is_not_taken_in_again() -> None:
    cluster = Cluster(federated())
    cluster.report(training(1, acc=0.1), is_event=False)
    cluster.settle()
    cluster.settle()
    assert len(cluster.patched) == 1


def test_bytes_in_flight_on_an_old_connection_do_not_overwrite_newer_metrics() -> None:
    """As a GM that looks at an older NodeReport would see it."""
    cluster = Cluster(joint())
    old = cluster.report(inference(inferenceNumber=1), is_event=False)
    cluster.report(inference(inferenceNumber=2), is_event=False)
    cluster.settle()
    cluster.pending["edge-a"] = [old]
    cluster.settle()
    assert metrics(cluster) == {"inferenceNumber": "2"}


def test_reports_of_a_store_that_was_lost_do_not_count_any_more() -> None:
    cluster = Cluster(dataset())
    old = cluster.report({"numberOfSamples": 7}, is_event=False)
    cluster.report({"numberOfSamples": 3}, is_event=False, store="s2")
    cluster.settle()
    cluster.pending["edge-a"] = [old]
    cluster.settle()
    assert cluster.status["numberOfSamples"] == 3


def test_an_event_waits_for_what_stood_before_it() -> None:
    cluster = begun()
    cluster.report(ready("Train", 1))
    cluster.settle()
    last = StoredReport(1, "s1", 5, 4, True, "w", json.dumps(done("Train", 1)).encode())
    cluster.pending["edge-a"] = [last]
    decision = cluster.step()
    assert "follows 4" in decision.waits_for
    assert cluster.state == ("Train", "Starting", "1")


@pytest.mark.parametrize("made", [dataset, joint, federated, incremental])
def test_a_foreign_nodes_report_touches_nothing(made: Any) -> None:
    cluster = Cluster(made())
    cluster.settle()
    before = copy.deepcopy(cluster.subject)
    cluster.report({"numberOfSamples": 1} | inference(x=1), node="edge-z")
    decision = cluster.step()
    assert cluster.subject == before
    assert [it.reason for it in decision.refused] == ["the object does not concern node edge-z"]


def test_a_report_waits_while_nobody_knows_whose_dataset_it_is() -> None:
    job = incremental()
    for part in ("trainSpec", "evalSpec", "deploySpec"):
        del job["spec"][part]["template"]["spec"]["nodeName"]
    cluster = Cluster(job)
    there = dict(cluster.references)
    cluster.without("dataset", "d1")
    cluster.settle()
    cluster.report(ready("Train", 1))
    decision = cluster.step()
    assert (decision.folded, decision.refused) == (0, ())
    assert decision.waits_for
    cluster.references = there
    cluster.settle()
    assert cluster.state == ("Train", "Starting", "1")


def test_a_worker_that_the_scheduler_placed_may_report() -> None:
    job = federated()
    del job["spec"]["trainingWorkers"][0]["template"]["spec"]["nodeName"]
    cluster = Cluster(job)
    cluster.settle()
    cluster.run("fl1-train-0", "Running", node="edge-z")
    cluster.report(training(1, acc=1), node="edge-z", is_event=False)
    decision = cluster.step()
    assert decision.folded == 1
    assert cluster.subject["metadata"]["annotations"]["sedna.io/worker-nodes"] == "edge-z"
    assert "sedna.io/node.edge-z" in cluster.settle().labels


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"phase": "Sleep", "status": "ready", "round": 1}, "is no stage"),
        ({"status": "ready", "round": 1}, "is no stage"),
        ({"phase": ["Train"], "status": "ready"}, "is no stage"),
        ({"phase": "Train", "status": "running", "round": 1}, "none of ready"),
        ({"phase": "Train", "status": 3, "round": 1}, "none of ready"),
        (ready("Train", 2), "Train of round 2, but the job is at Train of round 1"),
        (ready("Eval", 1), "Eval of round 1, but the job is at Train of round 1"),
        (done("Train", 1), "cannot be Completed after Waiting"),
        ({"phase": "Train", "status": "ready", "round": 1}, "without an input"),
        ({"phase": "Train", "status": "ready", "round": 0, "input": {"a": 1}}, "round 0"),
    ],
)
def test_a_report_of_another_stage_round_or_word_is_refused_with_a_reason(
    body: Json, reason: str
) -> None:
    cluster = begun()
    cluster.report(body)
    cluster.settle()
    assert cluster.state == ("Train", "Waiting", "1")
    (refused,) = cluster.refused
    assert reason in refused
    assert cluster.status["appliedReports"][0]["seq"] == 1


def test_a_repeated_ready_starts_nothing_twice() -> None:
    """Sedna's LC crashes on a repeated Waiting, and GM on what follows."""
    cluster = begun()
    cluster.report(ready("Train", 1))
    cluster.report(ready("Train", 1))
    cluster.settle()
    assert cluster.created.count("il1-train-1-0") == 1
    assert len(cluster.refused) == 1


def test_a_late_completed_does_not_open_a_stage_again() -> None:
    cluster = begun()
    at_deploy(cluster)
    before = copy.deepcopy(cluster.conditions)
    cluster.report(done("Train", 1))
    cluster.report(done("Eval", 1))
    cluster.settle()
    assert cluster.conditions == before
    assert len(cluster.refused) == 2


def test_a_result_of_the_last_round_does_not_count_for_this_one() -> None:
    cluster = begun()
    in_stage(cluster, "Train", 1)
    cluster.report(done("Train", 1, "failed"))
    cluster.settle()
    cluster.pass_time(10)
    cluster.settle()
    in_stage(cluster, "Train", 2)
    cluster.report(done("Train", 1))
    cluster.settle()
    assert cluster.state == ("Train", "Running", "2")


def test_a_report_of_sednas_lc_has_no_round_and_counts_for_the_present_one() -> None:
    cluster = begun()
    body = ready("Train", 1)
    del body["round"]
    cluster.report(body)
    cluster.settle()
    assert cluster.state == ("Train", "Starting", "1")


def test_a_result_may_overtake_what_gm_sees_of_the_pod() -> None:
    cluster = begun()
    cluster.report(ready("Train", 1))
    cluster.settle()
    cluster.report(done("Train", 1))
    cluster.settle()
    assert cluster.state == ("Eval", "Waiting", "1")


def test_what_hinders_lc_is_told_and_changes_no_state() -> None:
    cluster = begun()
    cluster.report({"phase": "Train", "round": 1, "problem": "the disk is full"}, is_event=False)
    cluster.report({"phase": "Train", "round": 1, "problem": ""}, is_event=False)
    cluster.settle()
    assert cluster.events.count("LearningHindered") == 1
    assert cluster.state == ("Train", "Waiting", "1")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"numberOfSamples": "many"},
        {"numberOfSamples": True},
        {"numberOfSamples": -1},
        {"problem": 7, "numberOfSamples": -2},
        {"phase": "inference", "output": []},
        {"phase": "train", "output": {"models": {}, "ownerInfo": [1]}},
        {"phase": "train", "output": {"models": [[], 7], "ownerInfo": {"currentRound": "x"}}},
        {"phase": "Train", "status": "ready", "round": "1", "input": "x"},
        {"phase": "Train", "status": "ready", "round": 1e9, "input": {"models": 3}},
        {"phase": "deploy", "status": "completed", "output": {"models": [{"metrics": 4}]}},
    ],
)
@pytest.mark.parametrize(
    "made", [dataset, joint, federated, incremental, video, reid, search, feature]
)
def test_no_body_stops_anything(made: Any, body: Json) -> None:
    cluster = Cluster(made())
    cluster.report(body)
    cluster.report(body, is_event=False)
    cluster.settle()
    assert cluster.settle().status is None


def test_a_model_takes_no_reports() -> None:
    cluster = Cluster(model("base"))
    cluster.report({"metrics": 1})
    decision = cluster.settle()
    assert decision.status is None
    assert decision.refused


def test_a_status_whose_applied_reports_are_broken_stops_only_its_reports() -> None:
    cluster = Cluster(joint())
    cluster.subject["status"] = {"appliedReports": [{"node": 7}]}
    cluster.report(inference(x=1), is_event=False)
    decision = cluster.step()
    assert "appliedReports" in decision.waits_for
    assert cluster.names("Deployment")
