"""A Deployment before the real controller, in whose pods real electors run as its template says.

Plays the kubelets: starts each pod's elector with the container's variables, asks what its
readiness probe asks, and when a pod is deleted ends main and elector in the order of native
sidecars. Of the main there is its end only. Guarantees: each elector is observed from its start to
its end, and none is left.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from http import HTTPStatus
from types import TracebackType
from typing import Any, Self

from tests.unit.manifests.built import named
from tools.harness.controlplane.accounts import expect
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.elector import ElectorPod
from tools.harness.pods.observer import Observer, Ready

Json = dict[str, Any]

REPLICAS = 3
LEASE = "shop"
# Seconds in which an update ends, on a busy machine.
PATIENCE = 120.0
POLL_INTERVAL = 0.1
NEW = "example.com/shop:2"
# Of a surge while all old pods are ending.
MOST_PODS = 4 * REPLICAS


class LiveRollout:
    """Running while it is entered. `objects`: what kustomize built; `main_ends` returns when the
    main of a pod that is deleted has ended."""

    def __init__(
        self,
        plane: ControlPlane,
        objects: Sequence[Json],
        *,
        main_ends: Callable[["LiveRollout"], None],
    ) -> None:
        self._plane = plane
        self._main_ends = main_ends
        self.namespace = plane.create_namespace("rollout")
        roles = [it for it in objects if it["kind"] == "Role"]
        rules = [rule for role in roles for rule in role["rules"]]
        self._kubeconfig = plane.kubeconfig_for(self.namespace, "shop", rules)
        self._objects = objects
        self._deployments = f"/apis/apps/v1/namespaces/{self.namespace}/deployments"
        self._pods = f"/api/v1/namespaces/{self.namespace}/pods"
        self._lives: dict[str, Future[None]] = {}
        self._electors: dict[str, ElectorPod] = {}
        self._observers: list[Observer] = []
        self._stack = ExitStack()
        self.is_over = False

    def __enter__(self) -> Self:
        deployment = named(self._objects, "Deployment", "shop")
        deployment["spec"]["replicas"] = REPLICAS
        leases = f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases"
        expect(self._plane.admin.post(leases, named(self._objects, "Lease", LEASE)))
        self._pool = self._stack.enter_context(ThreadPoolExecutor(MOST_PODS))
        self._stack.callback(self._end)
        expect(self._plane.admin.post(self._deployments, deployment))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._stack.close()

    def _end(self) -> None:
        self.is_over = True
        self._plane.admin.delete(f"{self._deployments}/shop")

    # ── what is done ──

    def settle(self, *, ready: int, image: str) -> None:
        """Returns when all pods are of the image, as many as wanted are ready, and one leads."""

        def is_settled() -> bool:
            pods = self._look()
            status = expect(self._plane.admin.get(f"{self._deployments}/shop")).get("status", {})
            return (
                [_image(pod) for pod in pods] == [image] * REPLICAS
                and status.get("readyReplicas") == ready
                and sum(elector.is_leader() for elector in self.running()) == 1
            )

        deadline = time.monotonic() + PATIENCE
        while not is_settled():
            assert time.monotonic() < deadline, list(self._lives.items())
            time.sleep(POLL_INTERVAL)

    def update(self) -> None:
        template = {"spec": {"containers": [{"name": "main", "image": NEW}]}}
        kind = "application/strategic-merge-patch+json"
        patch = {"spec": {"template": template}}
        expect(self._plane.admin.patch(f"{self._deployments}/shop", patch, content_type=kind))

    # ── what is seen ──

    def running(self) -> list[ElectorPod]:
        return [it for it in list(self._electors.values()) if it.is_running and it.port]

    def answers(self) -> list[Ready]:
        """All 200s of all electors that there were, in the order of their receipt."""
        found = [ready for observer in self._observers for ready in observer.answers()]
        return sorted(found, key=lambda ready: ready.received)

    def _look(self) -> list[Json]:
        pods: list[Json] = expect(self._plane.admin.get(self._pods))["items"]
        for pod in pods:
            name = pod["metadata"]["name"]
            if name not in self._lives:
                self._lives[name] = self._pool.submit(self._live, pod)
        for life in self._lives.values():
            if life.done():
                life.result()
        return pods

    # ── the life of a pod ──

    def _live(self, pod: Json) -> None:
        name = pod["metadata"]["name"]
        (container,) = [it for it in pod["spec"]["initContainers"] if it["name"] == "elector"]
        flags = ["--namespace", self.namespace, "--kubeconfig", str(self._kubeconfig)]
        with ElectorPod(
            name, LEASE, flags, environ=_environ(pod, container), guardian=self._plane.guardian
        ) as elector:
            elector.start()
            observer = Observer([elector])
            self._observers.append(observer)
            with observer:
                self._electors[name] = elector
                self._serve(name, elector, container["readinessProbe"]["httpGet"]["path"])
                self._main_ends(self)
                elector.terminate()
                assert elector.wait() == 0
        self._plane.admin.delete(f"{self._pods}/{name}", {"gracePeriodSeconds": 0})

    def _serve(self, name: str, elector: ElectorPod, probe: str) -> None:
        """Until it is to end."""
        told = None
        while not self.is_over:
            status, found = self._plane.admin.get(f"{self._pods}/{name}")
            if status == HTTPStatus.NOT_FOUND or found.get("metadata", {}).get("deletionTimestamp"):
                return
            answer = elector.ask(probe)
            is_ready = answer is not None and answer.status == HTTPStatus.OK
            if is_ready is not told:
                told = is_ready
                condition = {"type": "Ready", "status": str(is_ready)}
                condition["lastTransitionTime"] = "2026-01-01T00:00:00Z"
                body = {"status": {"phase": "Running", "conditions": [condition]}}
                self._plane.admin.patch(f"{self._pods}/{name}/status", body)
            time.sleep(POLL_INTERVAL)


def _environ(pod: Json, container: Json) -> dict[str, str]:
    """The container's variables, but for where it listens: all pods are on one machine here."""
    fields = {
        "metadata.annotations['edge-sidecars.io/lease']": LEASE,
        "metadata.name": pod["metadata"]["name"],
        "metadata.namespace": pod["metadata"]["namespace"],
    }
    return {
        it["name"]: it["value"]
        if "value" in it
        else fields[it["valueFrom"]["fieldRef"]["fieldPath"]]
        for it in container["env"]
        if it["name"] != "ELECTOR_PROBE_LISTEN"
    }


def _image(pod: Json) -> str:
    image: str = next(it for it in pod["spec"]["containers"] if it["name"] == "main")["image"]
    return image
