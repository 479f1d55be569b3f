"""Objects become children and statuses, by real processes on a real API server."""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from edge_sidecars.sedna_api.core.messages import Ack, Put
from gm.controller.controller import LONGEST_OUTAGE_RETRY
from tests.integration.gm.node_stream import NodeStream
from tests.integration.gm.shop import PATIENCE, Shop, last_condition
from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.gm import GmPod


def test_a_federated_job_becomes_children_and_its_status_follows_them(
    control_plane: ControlPlane, shop: Shop
) -> None:
    shop.stock()
    shop.federated("f1")
    with GmPod(control_plane, shop.namespace):
        shop.wait_pods("f1", "f1-aggregation-0", "f1-train-0")
        shop.wait_status("fl", "f1", lambda it: it.get("phase") == "Running")
        for pod in shop.pod_names("f1"):
            shop.set_phase(pod, "Succeeded")
        status = shop.wait_status("fl", "f1", lambda it: it.get("phase") == "Succeeded")
        assert last_condition(status)[1] == "Complete"
        assert status["succeeded"] == 2
        shop.wait(
            lambda: {it["reason"] for it in shop.events("f1")},
            lambda it: "SuccessfulCreate" in it,
            what="an Event about the children",
        )


def test_a_stage_goes_on_by_what_the_node_reports(control_plane: ControlPlane, shop: Shop) -> None:
    shop.stock()
    job = shop.incremental("i1")
    with GmPod(control_plane, shop.namespace) as pod:
        pod.wait_leading()
        shop.wait_status("il", "i1", lambda it: last_condition(it) == ("Train", "Waiting"))
        with NodeStream(pod.gm.stream_port, "edge-a") as node:
            concerned = {"d1", "base", "prod", "i1"}
            node.wait(
                lambda it: concerned <= {put.document.name for put in it.of(Put)},
                what="what concerns it",
            )
            ready = (
                b'{"phase":"Train","status":"Ready","round":1,"input":{"models":'
                b'[{"format":"pb","url":"/srv/base/m.pb"}],"dataURL":"/srv/out/data/train/1/data.txt",'
                b'"outputDir":"/srv/out/train/1"}}'
            )
            report = node.report(job, ready, seq=1, is_event=True)
            assert isinstance(node.answer(report), Ack)
            shop.wait(
                lambda: shop.pod_names("i1"), lambda it: "i1-train-1-0" in it, what="a train pod"
            )
            status = shop.wait_status(
                "il", "i1", lambda it: last_condition(it) == ("Train", "Starting")
            )
            (applied,) = status["appliedReports"]
            assert (applied["node"], applied["seq"]) == ("edge-a", 1)
            again = node.report(job, ready, seq=1, is_event=True)
            assert isinstance(node.answer(again), Ack)
        assert shop.pod_names("i1") == ["i1-inference-0-0", "i1-train-1-0"]


def test_g5_a_bad_object_stops_nothing(control_plane: ControlPlane, shop: Shop) -> None:
    shop.stock()
    shop.dataset("nowhere", node="no-such-node")
    shop.federated("missing", dataset="no-such-dataset")
    invalid = shop.federated("invalid")["spec"]
    invalid["trainingWorkers"][0]["template"]["spec"]["restartPolicy"] = "Sometimes"
    shop.patch("fl", "invalid", {"spec": invalid})
    shop.federated("f1")
    with GmPod(control_plane, shop.namespace) as pod:
        shop.wait_status("fl", "f1", lambda it: it.get("phase") == "Running")
        for name in ("missing", "invalid"):
            status = shop.wait_status("fl", name, lambda it: last_condition(it)[1] == "Failed")
            assert status["conditions"][-1]["message"]
            shop.wait(
                partial(shop.events, name),
                lambda it: "Warning" in {event["type"] for event in it},
                what=f"a warning about {name}",
            )
        assert shop.pod_names("missing") == []
        shop.dataset("no-such-dataset")
        shop.wait_status("fl", "missing", lambda it: it.get("phase") == "Running")
        assert pod.gm.is_running


def test_what_the_api_server_refuses_is_told_by_the_object(
    control_plane: ControlPlane, shop: Shop
) -> None:
    """A limit of the namespace that no pod keeps: no field of the object is wrong."""
    shop.stock()
    limits = {"limits": [{"type": "Pod", "min": {"cpu": "1"}}]}
    path = f"/api/v1/namespaces/{shop.namespace}/limitranges"
    assert control_plane.admin.post(path, {"metadata": {"name": "l"}, "spec": limits})[0] == 201
    shop.federated("f1")
    with GmPod(control_plane, shop.namespace) as pod:
        status = shop.wait_status("fl", "f1", lambda it: last_condition(it)[1] == "Failed")
        assert "minimum cpu" in status["conditions"][-1]["message"]
        assert pod.gm.is_running


def template_of_a_stranger() -> dict[str, object]:
    return {"spec": {"containers": [{"name": "w", "image": "other:1"}]}}


def test_a_child_of_an_earlier_object_of_that_name_gives_way(
    control_plane: ControlPlane, shop: Shop
) -> None:
    """Nobody collects garbage here: the first job's pods outlive it."""
    shop.stock()
    shop.federated("f1")
    with GmPod(control_plane, shop.namespace):
        shop.wait_status("fl", "f1", lambda it: it.get("phase") == "Running")
        shop.delete("fl", "f1")
        second = shop.federated("f1")["metadata"]["uid"]

        def owners() -> set[str]:
            for it in shop.pods("f1"):
                if it["metadata"].get("deletionTimestamp"):
                    shop.remove_pod(it["metadata"]["name"])
            return {it["metadata"]["ownerReferences"][0]["uid"] for it in shop.pods("f1")}

        shop.wait(owners, lambda it: it == {second}, what="pods of the second job")
        shop.wait_status("fl", "f1", lambda it: it.get("phase") == "Running")


def test_in_mode_relay_the_nodes_stand_on_objects_as_labels(
    control_plane: ControlPlane, shop: Shop
) -> None:
    shop.stock()
    shop.federated("f1", node="edge-b")
    shop.incremental("i1")

    def labels(kind: str, name: str) -> set[str]:
        return set(shop.get(kind, name)["metadata"].get("labels", {}))

    with GmPod(control_plane, shop.namespace, mode="relay"):
        shop.wait(
            lambda: labels("fl", "f1"), lambda it: it == {"sedna.io/node.edge-b"}, what="its node"
        )
        shop.wait(
            lambda: labels("model", "prod"),
            lambda it: "sedna.io/node.edge-a" in it,
            what="the node of the job that hands the Model out",
        )
        shop.delete("il", "i1")
        shop.wait(
            lambda: labels("model", "prod"),
            lambda it: "sedna.io/node.edge-a" not in it,
            what="no node, for no job hands it out",
        )


def test_a_child_that_was_made_for_the_object_by_another_manager_gives_way(
    control_plane: ControlPlane, shop: Shop
) -> None:
    """As Sedna's own GM leaves them behind: the object's, without our label and spec hash."""
    shop.stock()
    job = shop.federated("f1")
    owner = {
        "apiVersion": job["apiVersion"],
        "kind": job["kind"],
        "name": "f1",
        "uid": job["metadata"]["uid"],
        "controller": True,
    }
    metadata = {"name": "f1-train-0", "ownerReferences": [owner]}
    path = f"/api/v1/namespaces/{shop.namespace}/pods"
    status, made = control_plane.admin.post(path, {"metadata": metadata} | template_of_a_stranger())
    assert status == 201, made
    with GmPod(control_plane, shop.namespace):
        shop.wait_status("fl", "f1", lambda it: it.get("phase") == "Running")
        (pod,) = [it for it in shop.pods("f1") if it["metadata"]["name"] == "f1-train-0"]
        assert pod["metadata"]["uid"] != made["metadata"]["uid"]


@pytest.mark.long
@pytest.mark.slow
def test_objects_that_failed_together_come_back_apart_and_soon_after_the_api_servers_trouble(
    control_plane: ControlPlane, shop: Shop
) -> None:
    shop.stock()
    jobs = [f"f{number}" for number in range(8)]
    # Of the ninth failure in a row; what is no trouble of the API server's would wait for a minute.
    failures = 9
    with GmPod(control_plane, shop.namespace) as pod:
        pod.wait_leading()
        with _services_that_fail(control_plane, shop):
            for job in jobs:
                shop.federated(job)
            shop.wait(
                lambda: Counter(job for job, _ in _retries(pod)),
                lambda told: len(told) == len(jobs) and min(told.values()) >= failures,
                what="failures of each job",
                # By its delays alone it takes more than half of what anything else may take.
                patience=2 * PATIENCE,
            )
        delays = [delay for _, delay in _retries(pod)]
        assert max(delays) <= LONGEST_OUTAGE_RETRY
        assert len(set(delays)) > len(delays) / 2
        for job in jobs:
            shop.wait_pods(job, f"{job}-aggregation-0", f"{job}-train-0")


def _retries(pod: GmPod) -> Iterator[tuple[str, float]]:
    """Which object could not be written, and after how many seconds it is tried again."""
    for line in pod.gm.log_text().splitlines():
        # The last one may be in the middle of being written.
        if "an object could not be written" in line and line.endswith("}"):
            told = json.loads(line)
            yield told["object"], told["delay"]


@contextmanager
def _services_that_fail(plane: ControlPlane, shop: Shop) -> Iterator[None]:
    """The API server answers 500 to whoever makes one: it asks a webhook that nobody serves."""
    path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    services = f"/api/v1/namespaces/{shop.namespace}/services"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["services"]}
    webhook = {
        "name": "nobody.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [{**rule, "operations": ["CREATE"]}],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": shop.namespace}},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
    }
    body = {"metadata": {"name": shop.namespace}, "webhooks": [webhook]}
    expect(plane.admin.post(path, body))
    tried = {"metadata": {"name": "tried"}, "spec": {"ports": [{"port": 80}]}}
    try:
        shop.wait(
            lambda: plane.admin.post(f"{services}?dryRun=All", tried)[0],
            lambda status: status == 500,
            what="the webhook is asked",
        )
        yield
    finally:
        expect(plane.admin.delete(f"{path}/{shop.namespace}"))
