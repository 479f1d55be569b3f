"""What the real controllers of Deployments and of disruption do with readiness = leader, and with
the leader label.
"""

import time
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.manifests.built import MANIFESTS, named, workload, write_kustomization
from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.clients.kustomize import kustomize
from tools.harness.controlplane.cluster import ControlPlane

Json = dict[str, Any]

REPLICAS = 3
# Seconds in which an update ends that does not stand still, on a busy machine.
PATIENCE = 60.0
# Seconds without a change after which it stands still: the controller acts within one.
STILLNESS = 8.0
POLL_INTERVAL = 0.2
OLD, NEW = "example.com/shop:1", "example.com/shop:2"


class _Rollout:
    """A Deployment, and the kubelets and electors of its pods: the first one that is there leads
    for as long as it is."""

    def __init__(self, plane: ControlPlane, deployment: Json, *, only_the_leader: bool) -> None:
        self._admin = plane.admin
        self._only_the_leader = only_the_leader
        namespace = plane.create_namespace("rollout")
        self._pods = f"/api/v1/namespaces/{namespace}/pods"
        self._path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
        self._budgets = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
        deployment["spec"]["replicas"] = REPLICAS
        expect(self._admin.post(self._path, deployment))
        self._path += f"/{deployment['metadata']['name']}"
        self._leader = ""

    def step(self) -> list[Json]:
        """What kubelets and electors do next; the pods that there are."""
        live = []
        for pod in expect(self._admin.get(self._pods))["items"]:
            name = pod["metadata"]["name"]
            if "deletionTimestamp" in pod["metadata"]:
                self._admin.delete(f"{self._pods}/{name}", {"gracePeriodSeconds": 0})
            else:
                live.append(pod)
        names = [it["metadata"]["name"] for it in live]
        if self._leader not in names:
            self._leader = names[0] if names else ""
        for pod in live:
            self._tell(pod, self._is_ready(pod))
        return live

    def _is_ready(self, pod: Json) -> bool:
        return not self._only_the_leader or pod["metadata"]["name"] == self._leader

    def _tell(self, pod: Json, is_ready: bool) -> None:
        condition = {"type": "Ready", "status": str(is_ready)}
        if condition in [
            {key: it[key] for key in condition} for it in pod["status"].get("conditions", ())
        ]:
            return
        condition["lastTransitionTime"] = "2026-01-01T00:00:00Z"
        status = {"status": {"phase": "Running", "conditions": [condition]}}
        self._admin.patch(f"{self._pods}/{pod['metadata']['name']}/status", status)

    def settle(self) -> None:
        """Until it has as many pods ready as it can have."""
        wanted = 1 if self._only_the_leader else REPLICAS
        deadline = time.monotonic() + PATIENCE
        while expect(self._admin.get(self._path)).get("status", {}).get("readyReplicas") != wanted:
            assert time.monotonic() < deadline
            self.step()
            time.sleep(POLL_INTERVAL)

    def update(self) -> list[str]:
        """The images of the pods when the update is over, or stands still."""
        container = {"name": "main", "image": NEW}
        template = {"spec": {"containers": [container]}}
        patch = {"spec": {"template": template}}
        expect(
            self._admin.patch(
                self._path, patch, content_type="application/strategic-merge-patch+json"
            )
        )
        seen: list[tuple[str, str]] = []
        changed = started = time.monotonic()
        while time.monotonic() - changed < STILLNESS:
            assert time.monotonic() - started < PATIENCE
            pods = self.step()
            now = sorted((it["metadata"]["name"], _image(it)) for it in pods)
            if [image for _, image in now] == [NEW] * REPLICAS:
                return [NEW] * REPLICAS
            if now != seen:
                seen, changed = now, time.monotonic()
            time.sleep(POLL_INTERVAL)
        return sorted(image for _, image in seen)

    def budget(self, *, allowed: int) -> None:
        """Gives it GM's PodDisruptionBudget; returns when so many disruptions are allowed."""
        body = yaml.safe_load((MANIFESTS / "base/gm/disruption-budget.yaml").read_text())
        body["spec"]["selector"] = {"matchLabels": {"app": "shop"}}
        expect(self._admin.post(self._budgets, body))
        deadline = time.monotonic() + PATIENCE
        while True:
            (found,) = expect(self._admin.get(self._budgets))["items"]
            status = found.get("status", {})
            # It may have heard of the pods before it hears that they are ready.
            told = status.get("expectedPods"), status.get("currentHealthy")
            if told == (REPLICAS, 1 if self._only_the_leader else REPLICAS):
                assert status["disruptionsAllowed"] == allowed
                return
            assert time.monotonic() < deadline
            time.sleep(POLL_INTERVAL)

    def leader_and_others(self) -> list[str]:
        """The names of its pods."""
        names = [it["metadata"]["name"] for it in self.step()]
        return sorted(names, key=lambda name: name != self._leader)

    def evict(self, name: str) -> int:
        """The status of the answer, to whoever drains the pod's node."""
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
        return self._admin.post(f"{self._pods}/{name}/eviction", body)[0]


def _image(pod: Json) -> str:
    image: str = pod["spec"]["containers"][0]["image"]
    return image


def _deployment(folder: Path, *components: str) -> Json:
    body = workload(serviceAccountName="default")
    folder = write_kustomization(folder, [body], components=["elector-sidecar", *components])
    return named(kustomize(folder), "Deployment", "shop")


@pytest.mark.slow
def test_with_the_leader_label_an_update_ends_by_itself(
    own_plane: ControlPlane, tmp_path: Path
) -> None:
    deployment = _deployment(tmp_path, "leader-label")
    rollout = _Rollout(own_plane, deployment, only_the_leader=False)
    rollout.settle()
    assert rollout.update() == [NEW] * REPLICAS


@pytest.mark.long
@pytest.mark.slow
def test_readiness_of_the_leader_alone_ends_with_the_components_settings(
    own_plane: ControlPlane, tmp_path: Path
) -> None:
    deployment = _deployment(tmp_path, "ready-when-leading")
    rollout = _Rollout(own_plane, deployment, only_the_leader=True)
    rollout.settle()
    assert rollout.update() == [NEW] * REPLICAS


@pytest.mark.long
@pytest.mark.slow
def test_with_fewer_unavailable_than_all_it_stands_still_before_the_old_leader(
    own_plane: ControlPlane, tmp_path: Path
) -> None:
    deployment = _deployment(tmp_path, "ready-when-leading")
    deployment["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] = REPLICAS - 1
    rollout = _Rollout(own_plane, deployment, only_the_leader=True)
    rollout.settle()
    assert rollout.update() == [OLD, NEW, NEW]


@pytest.mark.slow
def test_with_the_leader_label_the_leaders_node_is_drained_as_any_and_one_at_a_time(
    own_plane: ControlPlane, tmp_path: Path
) -> None:
    rollout = _Rollout(own_plane, _deployment(tmp_path, "leader-label"), only_the_leader=False)
    rollout.settle()
    rollout.budget(allowed=1)
    leader, other, _ = rollout.leader_and_others()
    assert rollout.evict(leader) == HTTPStatus.CREATED
    assert rollout.evict(other) == HTTPStatus.TOO_MANY_REQUESTS


@pytest.mark.long
@pytest.mark.slow
def test_with_readiness_of_the_leader_alone_its_node_cannot_be_drained_others_can(
    own_plane: ControlPlane, tmp_path: Path
) -> None:
    deployment = _deployment(tmp_path, "ready-when-leading")
    rollout = _Rollout(own_plane, deployment, only_the_leader=True)
    rollout.settle()
    rollout.budget(allowed=0)
    leader, other, _ = rollout.leader_and_others()
    assert rollout.evict(leader) == HTTPStatus.TOO_MANY_REQUESTS
    assert rollout.evict(other) == HTTPStatus.CREATED
