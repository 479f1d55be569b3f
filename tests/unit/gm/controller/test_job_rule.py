"""Jobs whose pods end: federated learning, video analytics, ReID."""

from typing import Any

import pytest

from tests.unit.gm.controller.cluster import Cluster
from tests.unit.gm.controller.samples import federated, reid, template, video

PODS = ["fl1-aggregation-0", "fl1-train-0", "fl1-train-1"]


def running(**changes: Any) -> Cluster:
    cluster = Cluster(federated(**changes))
    cluster.settle()
    cluster.run_all("Running")
    cluster.settle()
    return cluster


def test_a_new_job_gets_all_its_children_at_once_and_is_running() -> None:
    cluster = Cluster(federated())
    decision = cluster.step()
    assert cluster.names() == PODS
    assert cluster.names("Service") == ["fl1-aggregation"]
    assert cluster.status["phase"] == "Running"
    assert cluster.status["active"] == 3
    assert [note.reason for note in decision.events] == ["SuccessfulCreate"]
    assert cluster.settle().status is None


def test_a_job_is_training_when_all_its_pods_run() -> None:
    cluster = Cluster(federated())
    cluster.settle()
    cluster.run("fl1-train-0", "Running")
    cluster.settle()
    assert cluster.conditions == []
    cluster.run_all("Running")
    cluster.settle()
    assert cluster.state == ("Training",)
    assert set(cluster.last) >= {"lastProbeTime", "lastHeartbeatTime", "status"}


def test_a_job_is_complete_when_all_its_pods_have_succeeded() -> None:
    cluster = running()
    cluster.run("fl1-train-0", "Succeeded")
    cluster.settle()
    assert cluster.status["phase"] == "Running"
    assert (cluster.status["active"], cluster.status["succeeded"]) == (2, 1)
    cluster.run_all("Succeeded")
    cluster.settle()
    assert cluster.status["phase"] == "Succeeded"
    assert cluster.status["completionTime"] == cluster.stamp()
    assert cluster.state == ("Complete",)
    assert cluster.status["active"] == 0


def test_a_failed_pod_fails_the_job_says_why_and_ends_the_others() -> None:
    cluster = running()
    cluster.run("fl1-train-1", "Failed")
    cluster.settle()
    assert cluster.status["phase"] == "Failed"
    assert cluster.state == ("Failed",)
    assert "fl1-train-1" in cluster.last["message"]
    assert "exit code 3" in cluster.last["message"]
    assert cluster.names() == ["fl1-train-1"]


def test_deleted_pods_of_a_finished_job_do_not_come_back() -> None:
    cluster = running()
    cluster.run_all("Succeeded")
    cluster.settle()
    for name in PODS:
        cluster.vanish("Pod", name)
    cluster.settle()
    assert cluster.names() == []
    assert cluster.status["phase"] == "Succeeded"


def test_a_deleted_pod_of_an_unfinished_job_comes_back_under_its_name() -> None:
    cluster = running()
    cluster.vanish("Pod", "fl1-train-1")
    cluster.settle()
    assert cluster.names() == PODS


def test_a_deleted_service_comes_back() -> None:
    cluster = running()
    cluster.vanish("Service", "fl1-aggregation")
    cluster.settle()
    assert cluster.names("Service") == ["fl1-aggregation"]


def test_a_pod_on_its_way_out_is_waited_for_and_not_made_twice() -> None:
    cluster = Cluster(federated(), lingers=True)
    cluster.settle()
    cluster.child("Pod", "fl1-train-0")["metadata"]["deletionTimestamp"] = cluster.stamp()
    assert cluster.settle().actions == ()
    cluster.reap()
    cluster.settle()
    assert cluster.names() == PODS


def test_a_pod_on_its_way_out_is_not_deleted_again() -> None:
    cluster = Cluster(federated(), lingers=True)
    cluster.settle()
    cluster.edit(transmitter={"ws": {}})
    cluster.settle()
    assert sorted(cluster.deleted) == PODS
    assert cluster.names() == PODS
    cluster.reap()
    cluster.settle()
    assert cluster.names() == PODS
    assert len(cluster.deleted) == 3


def test_an_edit_begins_all_pods_of_the_job_anew() -> None:
    cluster = running()
    before = {name: cluster.child("Pod", name)["metadata"]["uid"] for name in PODS}
    workers = [{"dataset": {"name": "d1"}, "template": template("edge-a")}]
    cluster.edit(trainingWorkers=workers)
    cluster.settle()
    assert cluster.names() == ["fl1-aggregation-0", "fl1-train-0"]
    for name in cluster.names():
        assert cluster.child("Pod", name)["metadata"]["uid"] != before[name]
    environment = cluster.environment("Pod", "fl1-aggregation-0")
    assert environment["PARTICIPANTS_COUNT"] == "1"


def test_an_edit_of_a_finished_job_begins_it_anew() -> None:
    cluster = running()
    cluster.run_all("Succeeded")
    cluster.settle()
    cluster.edit(transmitter={"ws": {}, "note": "again"})
    cluster.settle()
    assert cluster.status["phase"] == "Running"
    assert "completionTime" not in cluster.status
    assert "Restarted" in cluster.events
    assert cluster.status["succeeded"] == 0
    cluster.run_all("Succeeded")
    cluster.settle()
    assert cluster.status["phase"] == "Succeeded"


def test_pods_of_the_last_generation_do_not_complete_an_edited_job() -> None:
    """GM's copy of the pods may be older than the status that it wrote itself."""
    cluster = Cluster(federated(), lingers=True)
    cluster.settle()
    cluster.run_all("Succeeded")
    cluster.settle()
    old = {key: dict(child) for key, child in cluster.children.items()}
    cluster.edit(transmitter={"ws": {}})
    cluster.step()
    cluster.children = old
    cluster.step()
    assert cluster.status["phase"] != "Succeeded"


def test_a_change_of_what_a_finished_job_refers_to_leaves_it_finished() -> None:
    cluster = running()
    cluster.run_all("Succeeded")
    cluster.settle()
    for referred in cluster.references.values():
        if referred is not None and "spec" in referred:
            referred["spec"]["url"] = "/srv/elsewhere/x"
    assert cluster.settle().actions == ()


def test_a_finished_job_of_sednas_stays_finished() -> None:
    cluster = Cluster(federated())
    cluster.subject["status"] = {"phase": "Succeeded", "conditions": [{"type": "Complete"}]}
    cluster.subject["metadata"]["generation"] = 7
    cluster.settle()
    assert cluster.names() == []


@pytest.mark.parametrize(("made", "name"), [(video, "va1-videoanalytics-0"), (reid, "re1-reid-0")])
def test_jobs_of_one_pod_tell_starting_running_and_completed(made: Any, name: str) -> None:
    cluster = Cluster(made())
    cluster.settle()
    assert cluster.names() == [name]
    assert cluster.state == ("Starting",)
    cluster.run(name, "Running")
    cluster.settle()
    assert cluster.state == ("Running",)
    cluster.run(name, "Succeeded")
    cluster.settle()
    assert cluster.state == ("Completed",)
    assert cluster.status["phase"] == "Succeeded"


def test_an_object_that_is_being_deleted_is_left_to_the_garbage_collector() -> None:
    cluster = Cluster(federated())
    cluster.subject["metadata"]["deletionTimestamp"] = cluster.stamp()
    decision = cluster.decide()
    assert decision.actions == ()
    assert decision.status is None
