"""The pods of the site: bound, run and removed as a scheduler and kubelets do, in small.

Owns a namespace. Guarantees: a pod goes to a node of the site that is Ready and has no taint that
keeps new pods away; what a node that the cloud does not hear would say, is not said; each pod that
was to go, by whoever, is noted once.
"""

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

from tools.demo.pool.cloud_state import condition
from tools.demo.pool.node import SiteNode
from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.clients import kubectl
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.observers.polling import Polling

Json = dict[str, Any]

SHOP = Path(__file__).parent / "shop"
# As its kustomization says.
REPLICAS = 3
INTERVAL = 0.5
UNREACHABLE = "node.kubernetes.io/unreachable"
KEEPS_AWAY = ("NoSchedule", "NoExecute")


@dataclass(frozen=True)
class Evicted:
    """A pod that was to go, and from which node."""

    name: str
    node: str


class Pods(Polling):
    """Works while it is entered, from `apply` on."""

    def __init__(self, plane: ControlPlane, nodes: Mapping[str, SiteNode]) -> None:
        super().__init__([("pods", self._look)], interval=INTERVAL)
        self._admin = plane.admin
        self._plane = plane
        self._nodes = nodes
        self._namespace = plane.create_namespace("shop")
        self._path = f"/api/v1/namespaces/{self._namespace}/pods"
        self._lock = threading.Lock()
        self._pods: Sequence[Json] = ()
        self._evicted: dict[str, Evicted] = {}

    def apply(self) -> None:
        """The Deployment, with the component keep-while-cut. Raises `kubectl.NotApplied`."""
        kubectl.apply(self._plane, SHOP, namespace=self._namespace)

    def add_control(self, node: str, *, seconds: int) -> None:
        """One pod more on the node: without the component, so that it goes `seconds` after the
        cloud has lost the node."""
        tolerations = [
            {
                "key": UNREACHABLE,
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": seconds,
            }
        ]
        body = {
            "metadata": {"generateName": "control-"},
            "spec": {
                "nodeName": node,
                "containers": [{"name": "main", "image": "example.com/control:1"}],
                "tolerations": tolerations,
                "terminationGracePeriodSeconds": 1,
            },
        }
        expect(self._admin.post(self._path, body))

    def running(self, node: str | None = None) -> list[str]:
        """Names of the shop's pods that run and are not to go, on the node or anywhere."""
        with self._lock:
            return [
                it["metadata"]["name"]
                for it in self._pods
                if _is_shop(it)
                and "deletionTimestamp" not in it["metadata"]
                and it.get("status", {}).get("phase") == "Running"
                and node in (None, it["spec"].get("nodeName"))
            ]

    def evicted(self, *, shop: bool) -> list[Evicted]:
        """So far: of the shop, or of what was added to it."""
        with self._lock:
            return [it for it in self._evicted.values() if it.name.startswith("shop-") is shop]

    # ── what a scheduler and kubelets do ──

    def _look(self) -> None:
        # An API server that is busy is asked again.
        with suppress(OSError):
            self._work()

    def _work(self) -> None:
        pods = expect(self._admin.get(self._path))["items"]
        nodes = expect(self._admin.get("/api/v1/nodes"))["items"]
        with self._lock:
            self._pods = pods
            for it in pods:
                if "deletionTimestamp" in it["metadata"]:
                    node = it["spec"].get("nodeName", "")
                    found = Evicted(it["metadata"]["name"], node)
                    self._evicted.setdefault(it["metadata"]["uid"], found)
        open_nodes = [it["metadata"]["name"] for it in nodes if self._is_open(it)]
        load = Counter(it["spec"]["nodeName"] for it in pods if it["spec"].get("nodeName"))
        for it in pods:
            self._act(it, open_nodes, load)

    def _is_open(self, node: Json) -> bool:
        """To new pods."""
        taints = node["spec"].get("taints", ())
        return (
            node["metadata"]["name"] in self._nodes
            and condition(node, "Ready") == "True"
            and not any(it["effect"] in KEEPS_AWAY for it in taints)
        )

    def _act(self, pod: Json, open_nodes: Sequence[str], load: Counter[str]) -> None:
        path = f"{self._path}/{pod['metadata']['name']}"
        node = pod["spec"].get("nodeName", "")
        if not node:
            if open_nodes and "deletionTimestamp" not in pod["metadata"]:
                chosen = min(open_nodes, key=lambda it: (load[it], it))
                load[chosen] += 1
                self._bind(path, pod, chosen)
        elif not self._nodes[node].is_heard:
            return
        elif "deletionTimestamp" in pod["metadata"]:
            body = {
                "gracePeriodSeconds": 0,
                "preconditions": {"uid": pod["metadata"]["uid"]},
            }
            self._admin.delete(path, body)
        elif condition(pod, "Ready") != "True":
            ready = [{"type": "Ready", "status": "True"}]
            status = {"phase": "Running", "conditions": ready}
            self._admin.patch(f"{path}/status", {"status": status})

    def _bind(self, path: str, pod: Json, node: str) -> None:
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {"metadata": {"name": pod["metadata"]["name"]}, "target": target}
        status, answer = self._admin.post(f"{path}/binding", body)
        # It may be gone by now.
        if status not in (HTTPStatus.CREATED, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
            expect((status, answer))


def _is_shop(pod: Json) -> bool:
    return str(pod["metadata"]["name"]).startswith("shop-")
