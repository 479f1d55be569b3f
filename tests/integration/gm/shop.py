"""A namespace with Sedna's objects, as their owner sees it: creates, edits, and looks.

Owns the smallest manifests of each kind that tests use. Guarantees: every read is a fresh one; a
wait fails with what was seen last.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from edge_sidecars.sedna_api.core.kinds import API_VERSION, ResourceKind, kind_named
from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.cluster import ControlPlane

Json = dict[str, Any]

# Seconds in which something that is waited for must be so.
PATIENCE = 30.0
POLL_INTERVAL = 0.05
NODES = ("edge-a", "edge-b", "cloud-1")


def template(node: str) -> Json:
    return {"spec": {"nodeName": node, "containers": [{"name": "w", "image": "worker:1"}]}}


def trigger(metric: str, threshold: float) -> Json:
    return {"condition": {"operator": ">", "threshold": threshold, "metric": metric}}


class Shop:
    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self.plane = plane
        self.namespace = namespace
        self._admin = plane.admin
        for node in NODES:
            self.add_node(node)

    def add_node(self, name: str) -> None:
        status, answer = self._admin.post("/api/v1/nodes", {"metadata": {"name": name}})
        assert status in (201, 409), answer

    # ── objects ──

    def create(self, kind: str, name: str, spec: Json) -> Json:
        found = _kind(kind)
        body = {
            "apiVersion": API_VERSION,
            "kind": found.kind,
            "metadata": {"name": name},
            "spec": spec,
        }
        return expect(self._admin.post(found.collection(self.namespace), body))

    def dataset(self, name: str, node: str = "edge-a") -> Json:
        return self.create(
            "dataset", name, {"url": f"/srv/{name}.txt", "format": "txt", "nodeName": node}
        )

    def model(self, name: str) -> Json:
        return self.create("model", name, {"url": f"/srv/{name}/m.pb", "format": "pb"})

    def federated(self, name: str, *, node: str = "edge-a", dataset: str = "d1") -> Json:
        worker = {"dataset": {"name": dataset}, "template": template(node)}
        return self.create(
            "fl",
            name,
            {
                "aggregationWorker": {"model": {"name": "base"}, "template": template("cloud-1")},
                "trainingWorkers": [worker],
                "transmitter": {"ws": {}},
            },
        )

    def incremental(self, name: str) -> Json:
        return self.create(
            "il",
            name,
            {
                "dataset": {"name": "d1", "trainProb": 0.8},
                "initialModel": {"name": "base"},
                "outputDir": "/srv/out",
                "trainSpec": {
                    "template": template("edge-a"),
                    "trigger": trigger("num_of_samples", 500),
                },
                "evalSpec": {"template": template("edge-a")},
                "deploySpec": {
                    "model": {"name": "prod"},
                    "trigger": trigger("precision_delta", 0.1),
                    "hardExampleMining": {"name": "IBT"},
                    "template": template("edge-a"),
                },
            },
        )

    def stock(self) -> None:
        """What jobs refer to."""
        self.dataset("d1")
        for name in ("base", "prod"):
            self.model(name)

    def get(self, kind: str, name: str) -> Json:
        return expect(self._admin.get(_kind(kind).path(self.namespace, name)))

    def items(self, kind: str) -> list[Json]:
        found: list[Json] = expect(self._admin.get(_kind(kind).collection(self.namespace)))["items"]
        return found

    def patch(self, kind: str, name: str, body: Json) -> Json:
        return expect(self._admin.patch(_kind(kind).path(self.namespace, name), body))

    def delete(self, kind: str, name: str) -> None:
        expect(self._admin.delete(_kind(kind).path(self.namespace, name)))

    # ── children ──

    def pods(self, owner: str = "") -> list[Json]:
        """Of one owner by name, or all."""
        path = f"/api/v1/namespaces/{self.namespace}/pods"
        found: list[Json] = expect(self._admin.get(path))["items"]
        return [it for it in found if not owner or _owner(it) == owner]

    def pod_names(self, owner: str = "") -> list[str]:
        return sorted(it["metadata"]["name"] for it in self.pods(owner))

    def set_phase(self, pod: str, phase: str) -> None:
        """As kubelet would."""
        path = f"/api/v1/namespaces/{self.namespace}/pods/{pod}/status"
        expect(self._admin.patch(path, {"status": {"phase": phase}}))

    def remove_pod(self, pod: str) -> None:
        """Gone at once, as on a node without a kubelet it would never be."""
        path = f"/api/v1/namespaces/{self.namespace}/pods/{pod}"
        self._admin.delete(path, {"gracePeriodSeconds": 0})

    def events(self, about: str) -> list[Json]:
        path = f"/api/v1/namespaces/{self.namespace}/events"
        found: list[Json] = expect(self._admin.get(path))["items"]
        return [it for it in found if it["involvedObject"]["name"] == about]

    # ── waiting ──

    def wait(
        self,
        look: Callable[[], Any],
        is_right: Callable[[Any], object],
        *,
        what: str,
        patience: float = PATIENCE,
    ) -> Any:
        """What was seen when it was right."""
        deadline = time.monotonic() + patience
        while True:
            seen = look()
            if is_right(seen):
                return seen
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {patience:g} s: {what}; seen last: {seen}")
            time.sleep(POLL_INTERVAL)

    def wait_status(self, kind: str, name: str, is_right: Callable[[Json], object]) -> Json:
        found: Json = self.wait(
            lambda: self.get(kind, name).get("status", {}), is_right, what=f"status of {name}"
        )
        return found

    def wait_pods(self, owner: str, *names: str) -> None:
        wanted = sorted(names)
        self.wait(lambda: self.pod_names(owner), lambda it: it == wanted, what=f"pods of {owner}")


def last_condition(status: Json) -> tuple[str, str]:
    """Stage and type; ("", "") without any."""
    conditions = status.get("conditions") or [{}]
    return conditions[-1].get("stage", ""), conditions[-1].get("type", "")


def _kind(text: str) -> ResourceKind:
    kind = kind_named(text)
    assert kind is not None, text
    return kind


def _owner(pod: Json) -> str:
    owners = pod["metadata"].get("ownerReferences", [])
    return next((str(it["name"]) for it in owners if it.get("controller")), "")
