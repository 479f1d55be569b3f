"""Learning jobs: Train, Eval, Deploy, in rounds."""

import copy
import json

import pytest

from edge_sidecars.sedna_api.core.api_object import Json
from tests.unit.gm.controller.cluster import Cluster
from tests.unit.gm.controller.samples import hot, incremental, lifelong, template

BASE = {"format": "pb", "url": "/srv/m/base.pb"}


def ready(stage: str, round_: int) -> Json:
    output = f"/srv/out/{stage.lower()}/{round_}"
    models = [BASE] if stage == "Train" else [{"format": "pb", "url": trained(round_)}, BASE]
    given = {
        "models": models,
        "dataURL": f"/srv/out/data/{stage.lower()}/{round_}/data.txt",
        "outputDir": output,
    }
    return {"phase": stage, "status": "ready", "round": round_, "input": given, "output": None}


def trained(round_: int) -> str:
    return f"/srv/out/train/{round_}/model.pb"


def done(stage: str, round_: int, status: str = "completed") -> Json:
    models = [{"format": "pb", "url": trained(round_), "metrics": {"precision": [0.91]}}]
    return {"phase": stage, "status": status, "round": round_, "output": {"models": models}}


def begun(subject: Json | None = None) -> Cluster:
    cluster = Cluster(subject or incremental())
    cluster.settle()
    return cluster


def in_stage(cluster: Cluster, stage: str, round_: int) -> str:
    """Until the stage's pod runs; its name."""
    report = ready(stage, round_)
    if cluster.subject["kind"] == "LifelongLearningJob":
        # It begins without a Model.
        report["input"]["models"].remove(BASE)
    cluster.report(report)
    cluster.settle()
    job = cluster.subject["metadata"]["name"]
    name = f"{job}-{stage.lower()}-{round_}-0"
    cluster.run(name, "Running", node="edge-a")
    cluster.settle()
    return name


def through(cluster: Cluster, stage: str, round_: int) -> None:
    name = in_stage(cluster, stage, round_)
    cluster.report(done(stage, round_))
    cluster.run(name, "Succeeded")
    cluster.settle()


def at_deploy(cluster: Cluster, round_: int = 1) -> None:
    through(cluster, "Train", round_)
    through(cluster, "Eval", round_)


def test_a_new_job_waits_for_the_first_training_and_infers_at_once() -> None:
    cluster = Cluster(incremental())
    cluster.step()
    assert cluster.state == ("Train", "Waiting", "1")
    assert cluster.names() == ["il1-inference-0-0"]
    assert cluster.settle().status is None


def test_ready_makes_the_stages_pod_in_the_same_decision() -> None:
    cluster = begun()
    cluster.report(ready("Train", 1))
    cluster.step()
    assert cluster.names() == ["il1-inference-0-0", "il1-train-1-0"]
    assert cluster.state == ("Train", "Starting", "1")
    environment = cluster.environment("Pod", "il1-train-1-0")
    assert environment["BASE_MODEL_URL"] == "/home/data/srv/m/base.pb"
    assert environment["MODEL_URL"] == "/home/data/srv/out/train/1"
    assert environment["TRAIN_DATASET_URL"] == "/home/data/srv/out/data/train/1/data.txt"
    assert environment["ORIGINAL_DATASET_URL"] == "/home/data/srv/d1/t.txt"
    assert environment["WORKER_NAME"] == "il1-train-1-0"


@pytest.mark.parametrize(
    "named",
    [
        {"dataURL": "/etc/kubernetes/pki/ca.key"},
        {"dataURL": "/srv/out/../../etc/shadow"},
        {"dataURL": "/srv/output/1"},
        {"dataURL": "etc/passwd"},
        {"dataIndexURL": "/opt/index.txt"},
        {"outputDir": "/srv/out"},
        {"models": [{"url": "/var/lib/kubelet/x"}]},
    ],
)
def test_no_worker_is_given_a_directory_of_its_node_that_only_lc_names(named: Json) -> None:
    cluster = begun()
    report = ready("Train", 1)
    report["input"] |= named
    cluster.report(report)
    cluster.step()
    assert cluster.names() == ["il1-inference-0-0"]
    assert cluster.state == ("Train", "Failed", "1")
    failed = cluster.subject["status"]["conditions"][-1]
    assert failed["reason"] == "ForeignPath"
    assert "spec.outputDir" in failed["message"]
    assert cluster.events[-1] == "TrainFailed"
    cluster.pass_time(11)
    cluster.settle()
    in_stage(cluster, "Train", 2)
    assert cluster.state == ("Train", "Running", "2")


@pytest.mark.parametrize(
    "url",
    [
        "/etc/shadow",
        "/srv/out",
        "/srv/out/../m/base.pb",
        "/srv/outside/model.pb",
        "srv/out/model.pb",
        "file:///srv/out/model.pb",
        "s3://bucket/srv/out/model.pb",
        "http://169.254.169.254/latest",
        "/downloads/bucket/model.pb",
        7,
    ],
)
@pytest.mark.parametrize("stage", ["Train", "Eval"])
def test_a_result_outside_of_the_jobs_directory_fails_the_stage(stage: str, url: object) -> None:
    cluster = begun()
    if stage == "Eval":
        through(cluster, "Train", 1)
    in_stage(cluster, stage, 1)
    report = done(stage, 1)
    report["output"]["models"].append({"format": "pb", "url": url})
    cluster.report(report)
    cluster.step()
    failed = cluster.subject["status"]["conditions"][-1]
    assert cluster.state == (stage, "Failed", "1")
    assert failed["reason"] == "ForeignPath"
    assert "/srv/out" in failed["message"]
    assert "data" not in failed


@pytest.mark.parametrize("url", ["//[", "http://[x/model.pb"])
def test_what_lc_names_and_is_no_url_fails_the_stage(url: str) -> None:
    cluster = begun()
    report = ready("Train", 1)
    report["input"]["models"] = [{"format": "pb", "url": url}]
    cluster.report(report)
    cluster.step()
    assert cluster.state == ("Train", "Failed", "1")
    assert cluster.subject["status"]["conditions"][-1]["reason"] == "ForeignPath"


def test_an_evaluation_may_name_the_models_that_it_was_given() -> None:
    cluster = begun()
    through(cluster, "Train", 1)
    in_stage(cluster, "Eval", 1)
    report = done("Eval", 1)
    report["output"]["models"].append({"format": "pb", "url": BASE["url"]})
    cluster.report(report)
    cluster.settle()
    assert cluster.state == ("Deploy", "Waiting", "1")


def test_a_training_may_not() -> None:
    cluster = begun()
    in_stage(cluster, "Train", 1)
    report = done("Train", 1)
    report["output"]["models"].append({"format": "pb", "url": BASE["url"]})
    cluster.report(report)
    cluster.step()
    assert cluster.state == ("Train", "Failed", "1")


def test_lc_says_that_a_path_is_foreign_and_no_other_reason() -> None:
    for said, reason in (("ForeignPath", "ForeignPath"), ("Anything", None)):
        cluster = begun()
        failed = {"phase": "Train", "status": "Failed", "round": 1, "reason": said, "message": "m"}
        cluster.report(failed)
        cluster.step()
        assert cluster.state == ("Train", "Failed", "1")
        assert cluster.subject["status"]["conditions"][-1].get("reason") == reason


def test_a_running_pod_makes_the_stage_running_and_its_node_known() -> None:
    cluster = begun()
    in_stage(cluster, "Train", 1)
    assert cluster.state == ("Train", "Running", "1")
    assert cluster.subject["metadata"]["annotations"]["sedna.io/Train"] == "edge-a"


def test_the_workers_report_completes_a_stage_and_the_next_one_waits() -> None:
    cluster = begun()
    in_stage(cluster, "Train", 1)
    cluster.report(done("Train", 1))
    cluster.settle()
    assert cluster.state == ("Eval", "Waiting", "1")
    completed = cluster.conditions[-2]
    assert (completed["type"], completed["round"]) == ("Completed", 1)
    data = json.loads(completed["data"])
    assert data["output"]["models"][0]["url"] == trained(1)
    assert data["input"]["outputDir"] == "/srv/out/train/1"


def test_a_pods_success_waits_for_the_report() -> None:
    """Sedna completes the stage, and LC dies on a model that is not there."""
    cluster = begun()
    name = in_stage(cluster, "Train", 1)
    cluster.run(name, "Succeeded")
    decision = cluster.settle()
    assert cluster.state == ("Train", "Running", "1")
    assert decision.again_in == 300
    cluster.pass_time(200)
    cluster.report(done("Train", 1))
    cluster.settle()
    assert cluster.state == ("Eval", "Waiting", "1")


def test_a_pods_success_that_nobody_reports_fails_the_stage_in_the_end() -> None:
    cluster = begun()
    name = in_stage(cluster, "Train", 1)
    cluster.run(name, "Succeeded")
    cluster.settle()
    cluster.pass_time(300)
    cluster.settle()
    assert cluster.last["reason"] == "NoResult"
    assert "300 s" in cluster.last["message"]


@pytest.mark.parametrize("how", ["pod", "report"])
def test_a_failed_stage_begins_another_round_after_a_pause(how: str) -> None:
    cluster = begun()
    name = in_stage(cluster, "Train", 1)
    if how == "pod":
        cluster.run(name, "Failed")
    else:
        cluster.report(done("Train", 1, "failed"))
    decision = cluster.settle()
    assert cluster.state == ("Train", "Failed", "1")
    assert decision.again_in == 10
    cluster.pass_time(10)
    cluster.settle()
    assert cluster.state == ("Train", "Waiting", "2")


def test_a_stage_that_failed_by_report_has_its_running_pod_ended() -> None:
    cluster = begun()
    name = in_stage(cluster, "Train", 1)
    cluster.report(done("Train", 1, "failed"))
    cluster.settle()
    cluster.pass_time(10)
    cluster.settle()
    assert name in cluster.deleted


def test_a_late_success_of_a_pod_does_not_open_a_finished_stage() -> None:
    cluster = begun()
    name = in_stage(cluster, "Train", 1)
    cluster.report(done("Train", 1))
    cluster.settle()
    before = list(cluster.conditions)
    cluster.run(name, "Succeeded")
    cluster.settle()
    cluster.pass_time(1000)
    cluster.settle()
    assert cluster.conditions == before


def test_the_evaluation_gets_all_models_of_its_input() -> None:
    cluster = begun()
    through(cluster, "Train", 1)
    in_stage(cluster, "Eval", 1)
    urls = cluster.environment("Pod", "il1-eval-1-0")["MODEL_URLS"]
    assert urls == "/home/data/srv/out/train/1/model.pb;/home/data/srv/m/base.pb"


def test_a_deployment_makes_the_inference_worker_anew_and_completes_when_it_runs() -> None:
    cluster = begun()
    at_deploy(cluster)
    assert cluster.state == ("Deploy", "Waiting", "1")
    cluster.report(ready("Deploy", 1))
    cluster.settle()
    assert [it for it in cluster.names() if "inference" in it] == ["il1-inference-1-0"]
    assert cluster.state == ("Deploy", "Starting", "1")
    cluster.run("il1-inference-1-0", "Running")
    cluster.settle()
    assert cluster.state == ("Train", "Waiting", "2")
    assert "DeployCompleted" in cluster.events


def test_the_new_inference_worker_waits_until_the_old_one_is_gone() -> None:
    cluster = Cluster(incremental(), lingers=True)
    cluster.settle()
    at_deploy(cluster)
    cluster.report(ready("Deploy", 1))
    cluster.settle()
    assert "il1-inference-1-0" not in cluster.names()
    assert cluster.state == ("Deploy", "Ready", "1")
    cluster.reap()
    cluster.settle()
    assert "il1-inference-1-0" in cluster.names()


def test_nothing_to_deploy_leaves_the_inference_worker_and_begins_the_next_round() -> None:
    cluster = begun()
    at_deploy(cluster)
    uid = cluster.child("Pod", "il1-inference-0-0")["metadata"]["uid"]
    message = "precision_delta[0]=0.02 is not > 0.1: not deployed"
    report = {"phase": "Deploy", "status": "completed", "round": 1, "message": message}
    cluster.report(report)
    cluster.settle()
    assert cluster.state == ("Train", "Waiting", "2")
    assert cluster.conditions[-2]["message"] == message
    assert cluster.child("Pod", "il1-inference-0-0")["metadata"]["uid"] == uid


def test_the_inference_worker_of_the_last_deployment_stays_in_later_rounds() -> None:
    cluster = begun()
    at_deploy(cluster)
    cluster.report(ready("Deploy", 1))
    cluster.settle()
    cluster.run("il1-inference-1-0", "Running")
    cluster.settle()
    for round_ in range(2, 8):
        at_deploy(cluster, round_)
        cluster.report({"phase": "Deploy", "status": "completed", "round": round_})
        cluster.settle()
        assert [it for it in cluster.names() if "inference" in it] == ["il1-inference-1-0"]
    assert cluster.created.count("il1-inference-1-0") == 1


def test_a_hot_update_keeps_the_worker_and_completes_by_its_report() -> None:
    cluster = begun(hot())
    annotations = cluster.subject["metadata"]["annotations"]
    path = "/var/lib/sedna/model-hot-update/shop/incrementallearningjob/il1/model_config.json"
    assert annotations["sedna.io/model-hot-update-config"] == path
    cluster.run("il1-inference-0-0", "Running", node="edge-a")
    at_deploy(cluster)
    cluster.report(ready("Deploy", 1))
    cluster.settle()
    assert cluster.state == ("Deploy", "Running", "1")
    assert cluster.created.count("il1-inference-0-0") == 1
    cluster.report({"phase": "deploy", "status": "completed", "round": 1})
    cluster.settle()
    assert cluster.state == ("Train", "Waiting", "2")


def test_lifelong_learning_infers_only_once_something_was_deployed() -> None:
    cluster = begun(lifelong())
    assert cluster.names() == []
    at_deploy(cluster)
    cluster.report(ready("Deploy", 1))
    cluster.settle()
    assert "ll1-inference-1-0" in cluster.names()
    environment = cluster.environment("Pod", "ll1-inference-1-0")
    assert environment["MODEL_URLS"] == "/home/data/srv/out/deploy/index.pkl"
    assert environment["OUTPUT_URL"] == "/home/data/srv/out"
    volumes = cluster.child("Pod", "ll1-inference-1-0")["spec"]["volumes"]
    # Nothing beyond outputDir.
    assert {it["hostPath"]["path"] for it in volumes} == {"/srv/out", "/srv/out/deploy"}


def test_lifelong_learning_knows_what_it_has_learned() -> None:
    cluster = begun(lifelong())
    in_stage(cluster, "Train", 1)
    environment = cluster.environment("Pod", "ll1-train-1-0")
    assert environment["HAS_COMPLETED_INITIAL_TRAINING"] == "false"
    assert environment["KB_SERVER"] == "http://localhost:9020"
    assert "CLOUD_KB_INDEX" not in environment
    models = [
        {
            "url": "/srv/out/index.pkl",
            "classes": ["a", "b"],
            "current_metric": {"m1": {"precision": 0.5}},
            "number_of_labeled_unseen_sample": 7,
        }
    ]
    output = {"models": models}
    cluster.report({"phase": "train", "status": "completed", "round": 1, "output": output})
    cluster.settle()
    base = cluster.status["knowledgeBase"]
    assert base["AIClasses"] == {"numberOfAIClasses": 2, "listOfAIClasses": ["a", "b"]}
    found = {"modelID": "m1", "averagePrecision": 0.5, "numberOfTrainSamples": 7}
    assert base["AIModels"] == {"numberOfAIModels": 1, "listOfAIModels": [found]}
    assert base["samples"]["numberOfLabeledUnseenSample"] == 7
    through(cluster, "Eval", 1)
    cluster.report({"phase": "Deploy", "status": "completed", "round": 1})
    cluster.settle()
    in_stage(cluster, "Train", 2)
    environment = cluster.environment("Pod", "ll1-train-2-0")
    assert environment["HAS_COMPLETED_INITIAL_TRAINING"] == "true"
    assert environment["CLOUD_KB_INDEX"] == "/srv/out/index.pkl"


def test_a_deleted_pod_of_a_running_stage_comes_back_under_its_name() -> None:
    cluster = begun()
    name = in_stage(cluster, "Train", 1)
    cluster.vanish("Pod", name)
    cluster.settle()
    assert cluster.created.count(name) == 2
    assert cluster.state == ("Train", "Running", "1")


def test_a_stage_has_not_started_while_a_pod_of_its_name_is_on_its_way_out() -> None:
    cluster = Cluster(incremental(), lingers=True)
    cluster.settle()
    cluster.report(ready("Train", 1))
    before = copy.deepcopy(cluster.subject)
    cluster.settle()
    # A GM that died before it wrote the status; somebody deletes the pod meanwhile.
    cluster.subject = before
    pod = cluster.child("Pod", "il1-train-1-0")
    pod["metadata"]["deletionTimestamp"] = cluster.stamp()
    cluster.settle()
    assert cluster.state == ("Train", "Ready", "1")
    cluster.reap()
    cluster.settle()
    assert cluster.state == ("Train", "Starting", "1")
    assert cluster.created.count("il1-train-1-0") == 2


def test_an_edit_replaces_the_pod_of_the_stage_that_runs() -> None:
    cluster = begun()
    name = in_stage(cluster, "Train", 1)
    spec = cluster.subject["spec"]["trainSpec"] | {"template": template("edge-b")}
    cluster.edit(trainSpec=spec)
    cluster.settle()
    assert cluster.child("Pod", name)["spec"]["nodeName"] == "edge-b"
    assert cluster.created.count("il1-inference-0-0") == 1


def test_pods_of_the_last_round_stay_for_their_logs_and_older_ones_go() -> None:
    cluster = begun()
    for round_ in (1, 2, 3):
        at_deploy(cluster, round_)
        cluster.report({"phase": "Deploy", "status": "completed", "round": round_})
        cluster.settle()
    left = [it for it in cluster.names() if "inference" not in it]
    assert left == ["il1-eval-3-0", "il1-train-3-0"]


def test_an_inference_pod_that_ended_is_made_again_after_a_pause() -> None:
    cluster = begun()
    cluster.run("il1-inference-0-0", "Failed")
    assert cluster.settle().again_in == 10
    cluster.pass_time(10)
    cluster.settle()
    assert cluster.created.count("il1-inference-0-0") == 2


def test_conditions_stay_few_however_many_rounds_there_are() -> None:
    """Sedna's grow for ever, toward what etcd takes."""
    cluster = begun()
    sizes = set()
    for round_ in range(1, 12):
        at_deploy(cluster, round_)
        cluster.report({"phase": "Deploy", "status": "completed", "round": round_})
        cluster.settle()
        sizes.add(len(cluster.conditions))
    assert max(sizes) <= 17
    stages = {it["stage"] for it in cluster.conditions if it["type"] == "Completed"}
    assert stages == {"Train", "Eval", "Deploy"}


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ([("Train", "Waiting", 7)], ("Train", "Waiting", "8")),
        ([("Train", "Completed", 7), ("Eval", "Waiting", 0)], ("Eval", "Waiting", "7")),
        ([("Train", "Ready", 7), ("Train", "Running", 0)], ("Train", "Waiting", "8")),
        ([("Train", "Waiting", 0)], ("Train", "Waiting", "1")),
    ],
)
def test_a_job_of_sednas_goes_on_with_its_rounds(
    conditions: list[tuple[str, str, int]], expected: tuple[str, ...]
) -> None:
    """They have no number there but in the output directory."""
    cluster = Cluster(incremental())
    cluster.subject["status"] = {"conditions": [_of_sednas(*it) for it in conditions]}
    cluster.settle()
    assert cluster.state == expected


def _of_sednas(stage: str, type_: str, round_: int) -> Json:
    data = json.dumps({"input": {"outputDir": f"/srv/out/train/{round_}"}}) if round_ else ""
    return {"stage": stage, "type": type_, "status": "True", "data": data}


def test_the_name_of_a_stages_pod_never_repeats_for_another_round() -> None:
    cluster = begun()
    for round_ in (1, 2, 3):
        in_stage(cluster, "Train", round_)
        cluster.report(done("Train", round_, "failed"))
        cluster.settle()
        cluster.pass_time(10)
        cluster.settle()
    trains = [it for it in cluster.created if "train" in it]
    assert trains == ["il1-train-1-0", "il1-train-2-0", "il1-train-3-0"]
