"""Services whose workers are to be available."""

from typing import Any

import pytest

from tests.unit.gm.controller.cluster import Cluster
from tests.unit.gm.controller.samples import feature, joint, search, template, tracking

CLOUD, EDGE = "ji1-deployment-cloud", "ji1-deployment-edge"


def running(**changes: Any) -> Cluster:
    cluster = Cluster(joint(**changes))
    cluster.settle()
    for name in cluster.names("Deployment"):
        cluster.available(name, 1)
    cluster.settle()
    return cluster


def test_a_new_service_gets_its_deployments_under_sednas_names() -> None:
    cluster = Cluster(joint())
    cluster.step()
    assert cluster.names("Deployment") == [CLOUD, EDGE]
    assert cluster.names("Service") == ["ji1-cloud"]
    assert cluster.state == ("Pending",)
    assert cluster.settle().status is None


def test_a_service_is_running_when_desired_replicas_are_available() -> None:
    cluster = Cluster(joint())
    cluster.settle()
    cluster.available(CLOUD, 1)
    cluster.settle()
    assert cluster.state == ("Pending",)
    assert cluster.status["active"] == 1
    cluster.available(EDGE, 1)
    cluster.settle()
    assert cluster.state == ("Running",)
    assert (cluster.status["active"], cluster.status["failed"]) == (2, 0)


def test_a_deployments_conditions_in_another_order_do_not_fail_a_service() -> None:
    """Sedna looks at the last one: Running and Failed in one second (issue 234)."""
    cluster = running()
    conditions = [
        {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"},
        {"type": "Available", "status": "True"},
    ]
    cluster.available(CLOUD, 1, conditions=conditions)
    cluster.available(EDGE, 1, conditions=conditions[::-1])
    cluster.settle()
    assert [it["type"] for it in cluster.conditions] == ["Pending", "Running"]


def test_a_status_of_another_generation_of_a_deployment_is_not_believed() -> None:
    cluster = running()
    cluster.child("Deployment", EDGE)["metadata"]["generation"] = 9
    cluster.settle()
    assert cluster.state == ("Pending",)


@pytest.mark.parametrize(
    "condition",
    [
        {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"},
        {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate"},
    ],
    ids=lambda it: str(it["reason"]),
)
def test_a_deployment_that_gave_up_fails_the_service_until_it_comes_back(
    condition: dict[str, str],
) -> None:
    cluster = running()
    cluster.available(EDGE, 0, conditions=[condition])
    cluster.settle()
    assert cluster.state == ("Failed",)
    assert condition["reason"] in cluster.last["message"]
    assert cluster.status["failed"] == 1
    cluster.available(EDGE, 1)
    cluster.settle()
    assert cluster.state == ("Running",)


def test_a_deleted_deployment_is_made_again() -> None:
    cluster = running()
    cluster.vanish("Deployment", EDGE)
    cluster.settle()
    assert cluster.names("Deployment") == [CLOUD, EDGE]
    assert cluster.state == ("Pending",)


def test_an_edit_replaces_the_deployment_it_concerns_and_no_other() -> None:
    cluster = running()
    versions = {name: cluster.child("Deployment", name)["metadata"] for name in (CLOUD, EDGE)}
    edge = joint()["spec"]["edgeWorker"] | {"template": template("edge-b")}
    cluster.edit(edgeWorker=edge)
    cluster.settle()
    after = {name: cluster.child("Deployment", name)["metadata"] for name in (CLOUD, EDGE)}
    assert after[CLOUD] == versions[CLOUD]
    assert after[EDGE]["uid"] == versions[EDGE]["uid"]
    assert after[EDGE]["resourceVersion"] != versions[EDGE]["resourceVersion"]
    spec = cluster.child("Deployment", EDGE)["spec"]["template"]["spec"]
    assert spec["nodeName"] == "edge-b"


def test_an_autoscaler_is_made_changed_and_removed_with_the_field() -> None:
    cluster = running()
    cloud = joint()["spec"]["cloudWorker"]
    cluster.edit(cloudWorker=cloud | {"hpa": {"maxReplicas": 3}})
    cluster.settle()
    (name,) = cluster.names("HorizontalPodAutoscaler")
    assert name == f"hpa-{CLOUD}"
    target = cluster.child("HorizontalPodAutoscaler", name)["spec"]["scaleTargetRef"]
    assert target == {"apiVersion": "apps/v1", "kind": "Deployment", "name": CLOUD}
    cluster.edit(cloudWorker=cloud | {"hpa": {"maxReplicas": 5}})
    cluster.settle()
    assert cluster.child("HorizontalPodAutoscaler", name)["spec"]["maxReplicas"] == 5
    cluster.edit(cloudWorker=cloud)
    cluster.settle()
    assert cluster.names("HorizontalPodAutoscaler") == []


def test_replicas_that_an_autoscaler_chose_are_kept() -> None:
    cloud = joint()["spec"]["cloudWorker"] | {"hpa": {"maxReplicas": 5}}
    cluster = running(cloudWorker=cloud)
    assert "replicas" not in cluster.child("Deployment", CLOUD)["spec"]
    cluster.child("Deployment", CLOUD)["spec"]["replicas"] = 4
    cluster.available(CLOUD, 2)
    cluster.settle()
    assert cluster.state == ("Pending",)
    cluster.edit(cloudWorker=cloud | {"template": template("edge-b")})
    cluster.settle()
    assert cluster.child("Deployment", CLOUD)["spec"]["replicas"] == 4


def test_a_services_address_survives_an_edit_of_what_it_stands_before() -> None:
    cluster = running()
    service = cluster.child("Service", "ji1-cloud")
    service["spec"]["clusterIP"] = "10.1.2.3"
    service["metadata"]["annotations"] = {}
    cluster.settle()
    assert cluster.child("Service", "ji1-cloud")["spec"]["clusterIP"] == "10.1.2.3"


def test_a_feature_extraction_without_replicas_does_not_stop_anything() -> None:
    """Sedna's GM dies of it; and it counts three Deployments where there is one."""
    cluster = Cluster(feature())
    cluster.settle()
    (name,) = cluster.names("Deployment")
    assert cluster.child("Deployment", name)["spec"]["replicas"] == 1
    cluster.available(name, 1)
    cluster.settle()
    assert cluster.state == ("Running",)
    assert cluster.names("Service") == ["fe1-fe"]


@pytest.mark.parametrize(
    ("made", "deployments"),
    [
        (search, ["os1-deployment-reidworker", "os1-deployment-userworker"]),
        (tracking, ["ot1-deployment-reidworker"]),
    ],
)
def test_searching_and_tracking_run_deployments_and_pods(made: Any, deployments: list[str]) -> None:
    cluster = Cluster(made())
    cluster.settle()
    name = cluster.subject["metadata"]["name"]
    assert cluster.names("Deployment") == deployments
    assert cluster.names() == [f"{name}-trackingworker-0", f"{name}-trackingworker-1"]
    assert cluster.names("Service") == [it.replace("-deployment", "") for it in deployments]
    for deployment in deployments:
        replicas = cluster.child("Deployment", deployment)["spec"]["replicas"]
        cluster.available(deployment, replicas)
    cluster.settle()
    assert cluster.state == ("Pending",)
    cluster.run_all("Running")
    cluster.settle()
    assert cluster.state == ("Running",)
    assert cluster.status["active"] == len(deployments) + 2


def test_a_pod_of_a_service_that_ended_begins_anew_after_a_pause() -> None:
    cluster = Cluster(tracking())
    cluster.settle()
    cluster.available("ot1-deployment-reidworker", 2)
    cluster.run_all("Running")
    cluster.settle()
    cluster.run("ot1-trackingworker-0", "Failed")
    decision = cluster.settle()
    assert cluster.state == ("Failed",)
    assert decision.again_in == 10
    cluster.pass_time(10)
    cluster.settle()
    assert cluster.state == ("Pending",)
    cluster.run("ot1-trackingworker-0", "Running")
    cluster.settle()
    assert cluster.state == ("Running",)


def test_a_service_without_one_of_its_models_waits_for_it_and_then_runs() -> None:
    cluster = Cluster(joint())
    there = dict(cluster.references)
    cluster.without("model", "big")
    cluster.settle()
    assert cluster.names("Deployment") == []
    assert cluster.last["reason"] == "MissingReference"
    cluster.references = there
    cluster.settle()
    assert cluster.names("Deployment") == [CLOUD, EDGE]
    assert cluster.state == ("Pending",)


def test_a_model_that_goes_while_its_service_runs_does_it_no_harm() -> None:
    cluster = running()
    cluster.without("model", "big")
    assert cluster.settle().actions == ()
    assert cluster.state == ("Running",)
