"""Jobs that are made together with what they refer to: none is ever reported Failed for that."""

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.integration.gm.shop import Shop, last_condition
from tests.unit.gm.controller import samples
from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.gm import SHARD_FLAGS, GmPod
from tools.harness.pods.observers.api_observer import ApiObserver
from tools.harness.pods.wire.caller import Caller

Json = dict[str, Any]

# Of each kind one; of IncrementalLearningJob the one whose model is taken while it runs.
JOBS: tuple[Callable[[], Json], ...] = tuple(
    it for it in samples.EVERY_JOB if it is not samples.incremental
)
MODELS = ("base", "small", "big", "prod")
DATASETS = {"d1": "edge-a", "d2": "edge-b"}
# Seconds between the jobs and what they refer to: longer than GM takes to decide.
APART = 2.0

MODES: Mapping[str, Mapping[str, Any]] = {
    "active-standby": {"mode": "active-standby"},
    "active-active": {"mode": "active-active"},
    "relay": {"mode": "relay"},
    "shards": {
        "mode": "active-active",
        "flags": ("--leadership=shards",),
        "lease_flags": SHARD_FLAGS,
    },
}


def observed(plane: ControlPlane, namespace: str) -> ApiObserver:
    return ApiObserver(Caller(plane.server, context=plane.tls()), namespace)


def without_node(job: Json) -> Json:
    """The spec, with its workers on a node that has yet to join."""
    text = json.dumps(job["spec"]).replace('"cloud-1"', '"late-node"')
    spec: Json = json.loads(text)
    return spec


def owners(seen: ApiObserver) -> set[str]:
    """Of workers that are there."""
    return {
        owner["name"]
        for kind in ("pod", "deployment")
        for child in seen.objects(kind)
        for owner in child["metadata"].get("ownerReferences", ())
    }


@pytest.mark.parametrize(
    "mode",
    [it if it in ("relay", "shards") else pytest.param(it, marks=pytest.mark.long) for it in MODES],
)
def test_what_a_job_refers_to_may_come_a_moment_later(
    control_plane: ControlPlane, shop: Shop, mode: str
) -> None:
    jobs = [make() for make in JOBS]
    with (
        GmPod(control_plane, shop.namespace, **MODES[mode]) as pod,
        observed(control_plane, shop.namespace) as seen,
    ):
        pod.wait_leading()
        for job in jobs:
            shop.create(job["kind"], job["metadata"]["name"], without_node(job))
        time.sleep(APART)
        for name in MODELS:
            shop.create("model", name, {"url": "s3://b/m", "format": "pb", "credentialName": "s"})
        for name, node in DATASETS.items():
            shop.dataset(name, node)
        time.sleep(APART)
        shop.add_node("late-node")
        path = f"/api/v1/namespaces/{shop.namespace}/secrets"
        expect(control_plane.admin.post(path, {"metadata": {"name": "s"}, "stringData": {}}))
        # A lifelong job has no worker before its LC says that it may train.
        wanted = {it["metadata"]["name"] for it in jobs} - {"ll1"}
        shop.wait(lambda: owners(seen), lambda it: it >= wanted, what="workers of each job")
        shop.wait_status("ll", "ll1", lambda it: last_condition(it) == ("Train", "Waiting"))
        assert seen.failures == set()
    control_plane.admin.delete("/api/v1/nodes/late-node")


def test_what_never_comes_is_said_and_a_reference_that_is_replaced_is_not(
    control_plane: ControlPlane, shop: Shop
) -> None:
    shop.stock()
    with (
        GmPod(control_plane, shop.namespace) as pod,
        observed(control_plane, shop.namespace) as seen,
    ):
        pod.wait_leading()
        shop.federated("lacking", dataset="never")
        # As `kubectl replace --force` does, and a job comes in between.
        shop.delete("model", "base")
        shop.federated("lucky")
        time.sleep(APART)
        shop.model("base")
        shop.wait_pods("lucky", "lucky-aggregation-0", "lucky-train-0")
        shop.wait_status("fl", "lacking", lambda it: last_condition(it)[1] == "Failed")
        assert seen.failures == {("FederatedLearningJob", "lacking", "MissingReference")}
        shop.dataset("never")
        shop.wait_pods("lacking", "lacking-aggregation-0", "lacking-train-0")
