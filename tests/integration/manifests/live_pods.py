"""The pods of a Deployment before the real controller, with real electors as its template says.

Plays the kubelets: starts each pod's elector with the container's variables, asks what its
readiness probe asks, and when a pod is deleted ends main and elector in the order of native
sidecars. Of the main there is its end only. Guarantees: each elector is observed from its start to
its end, and none is left.
"""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from http import HTTPStatus
from pathlib import Path
from typing import Any, Self

from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.elector import ElectorPod
from tools.harness.pods.observers.observer import Observer, Ready

Json = dict[str, Any]

LEASE = "shop"
POLL_INTERVAL = 0.1


class LivePods:
    """Running while it is entered; `look` is to be called until then. `kubeconfig`: of the pods'
    account; `most`: how many pods there are at a time; `main_ends` returns when the main of a pod
    that is deleted has ended."""

    def __init__(
        self,
        plane: ControlPlane,
        namespace: str,
        *,
        kubeconfig: Path,
        most: int,
        main_ends: Callable[[], None],
    ) -> None:
        self._plane = plane
        self._namespace = namespace
        self._kubeconfig = kubeconfig
        self._main_ends = main_ends
        self._pods = f"/api/v1/namespaces/{namespace}/pods"
        self._lives: dict[str, Future[None]] = {}
        self._electors: dict[str, ElectorPod] = {}
        self._observers: list[Observer] = []
        self._pool = ThreadPoolExecutor(most)
        self.is_over = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.is_over = True
        self._pool.shutdown()

    def look(self) -> list[Json]:
        """Starts what is new, and raises what a pod's life ended with; all pods that there are."""
        pods: list[Json] = expect(self._plane.admin.get(self._pods))["items"]
        for pod in pods:
            name = pod["metadata"]["name"]
            if name not in self._lives:
                self._lives[name] = self._pool.submit(self._live, pod)
        for life in self._lives.values():
            if life.done():
                life.result()
        return pods

    def running(self) -> list[ElectorPod]:
        return [it for it in list(self._electors.values()) if it.is_running and it.port]

    def answers(self) -> list[Ready]:
        """All 200s of all electors that there were, in the order of their receipt."""
        found = [ready for observer in self._observers for ready in observer.answers()]
        return sorted(found, key=lambda ready: ready.received)

    # ── the life of a pod ──

    def _live(self, pod: Json) -> None:
        name = pod["metadata"]["name"]
        (container,) = [it for it in pod["spec"]["initContainers"] if it["name"] == "elector"]
        flags = ["--namespace", self._namespace, "--kubeconfig", str(self._kubeconfig)]
        with ElectorPod(
            name, LEASE, flags, environ=_environ(pod, container), guardian=self._plane.guardian
        ) as elector:
            elector.start()
            observer = Observer([elector])
            self._observers.append(observer)
            with observer:
                self._electors[name] = elector
                self._serve(name, elector, container["readinessProbe"]["httpGet"]["path"])
                self._main_ends()
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
