"""A small stand-in for the kubelets of some nodes, and for the scheduler.

Owns: the Nodes it makes, and the status of the pods that are bound to them.
Guarantees: phases go Pending, Running, then Succeeded or Failed, as a kubelet's do; a pod that is
deleted loses its process, then its object; while `cut`, a node's pods run on and nothing is told,
and what happened is told when it is healed; `close` ends every process.
Differs from a kubelet: a pod's address is a loopback one; init containers do not run; probes are
not made; a process is one of this machine (`node_processes.py`).
"""

from __future__ import annotations

import functools
import json
import queue
import socket
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing, suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any, Self

from tools.harness.controlplane.guardian import Guardian
from tools.harness.pods.kubelet.node_processes import Machine, NodeProcesses
from tools.harness.pods.kubelet.pod_plan import PodPlan, PodState
from tools.harness.pods.kubelet.schedule import Schedule
from tools.harness.pods.wire.caller import Caller

Json = dict[str, Any]
PODS = "/api/v1/pods"
NODES = "/api/v1/nodes"
# Seconds between two looks at processes.
POLL_INTERVAL = 0.05
# Seconds until a container that failed is started again (a kubelet: 10, doubled each time).
RESTART_DELAY = 0.5


class Kubelet:
    """Runs the pods of `nodes`, each as `plan_of` says; a context manager.

    `caller` may do anything; a pod without a node is bound to the first one; `machines` has what
    stands behind nodes; processes print into `logs`, and `folder` is where images would let them
    begin.
    """

    def __init__(
        self,
        caller: Caller,
        nodes: Sequence[str],
        *,
        logs: Path,
        plan_of: Callable[[Json], PodPlan] = lambda pod: PodPlan(),
        machines: Mapping[str, Machine] | None = None,
        folder: Path | None = None,
        guardian: Guardian | None = None,
    ) -> None:
        self._caller = caller
        self._nodes = list(nodes)
        self._course_of = plan_of
        self._processes = NodeProcesses(
            caller, logs=logs, machines=machines or {}, folder=folder, guardian=guardian
        )
        self._pods: dict[str, PodState] = {}
        self._gone: set[str] = set()
        self._cut: set[str] = set()
        self._schedule = Schedule()
        self._events: queue.SimpleQueue[Json | None] = queue.SimpleQueue()
        self._ended = threading.Event()
        self._socket: socket.socket | None = None
        self._failure: BaseException | None = None
        self._threads = [
            threading.Thread(target=run, name=name, daemon=True)
            for run, name in ((self._watch, "kubelet-watch"), (self._work, "kubelet-work"))
        ]

    def __enter__(self) -> Self:
        for node in self._nodes:
            self._make_node(node)
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends all processes; raises what one of the threads died of."""
        self._ended.set()
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
        self._events.put(None)
        for thread in self._threads:
            thread.join()
        for pod in self._pods.values():
            pod.end()
        if self._failure is not None:
            raise self._failure

    def cut(self, *nodes: str) -> None:
        """From now on nothing of these nodes' pods is told or heard."""
        self._cut.update(nodes)

    def heal(self, *nodes: str) -> None:
        """Tells what happened meanwhile, and hears again."""
        self._cut.difference_update(nodes)
        self._events.put({"type": "HEALED", "nodes": list(nodes)})

    def log_of(self, name: str) -> str:
        """What the processes of the pods of that name printed."""
        return self._processes.log_of(name)

    def phase_of(self, name: str) -> str | None:
        """Where the pod of that name stands on its node, told or not; None: not there."""
        found = [pod.phase for pod in list(self._pods.values()) if pod.name == name]
        return found[0] if found else None

    # What the API says

    def _make_node(self, node: str) -> None:
        conditions = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
        body = {"metadata": {"name": node}, "status": {"conditions": conditions}}
        status = self._caller.post(NODES, body).status
        assert status in (HTTPStatus.CREATED, HTTPStatus.CONFLICT), status

    def _watch(self) -> None:
        try:
            while not self._ended.is_set():
                with suppress(OSError, ValueError, AttributeError):
                    self._follow()
                self._ended.wait(POLL_INTERVAL)
        except BaseException as error:  # whatever it is: a thread tells nobody else
            self._failure = error
            raise

    def _follow(self) -> None:
        """One watch of all pods, which begins with those that are there."""
        with closing(self._caller.open(30)) as connection:
            connection.connect()
            # Answers without a length make http.client forget its socket.
            self._socket = connection.sock
            connection.request("GET", f"{PODS}?watch=true", headers=dict(self._caller.headers))
            with closing(connection.getresponse()) as response:
                self._socket.settimeout(None)
                while line := response.readline():
                    self._events.put(json.loads(line))

    # What is done about it

    def _work(self) -> None:
        try:
            while not self._ended.is_set():
                with suppress(queue.Empty):
                    while event := self._events.get(timeout=self._schedule.patience(POLL_INTERVAL)):
                        self._hear(event)
                self._schedule.do_what_is_due()
                self._look_at_processes()
        except BaseException as error:  # whatever it is: a thread tells nobody else
            self._failure = error
            raise

    def _hear(self, event: Json) -> None:
        match event["type"]:
            case "BOOKMARK" | "ERROR":
                return
            case "HEALED":
                self._catch_up(event["nodes"])
                return
        found = event["object"]
        known = self._pods.get(found["metadata"]["uid"])
        if event["type"] == "DELETED":
            if known is not None and known.node not in self._cut:
                self._forget(known)
            return
        node = found["spec"].get("nodeName", "")
        if not node:
            self._bind(found)
        elif node in self._nodes and node not in self._cut:
            self._meet(found, known)

    def _meet(self, found: Json, pod: PodState | None) -> None:
        uid = found["metadata"]["uid"]
        if uid in self._gone:
            return
        if pod is None:
            pod = self._pods[uid] = PodState(found, self._course_of(found))
            if found.get("status", {}).get("phase") in ("Succeeded", "Failed"):
                pod.phase = pod.told = found["status"]["phase"]
            else:
                begun = pod
                self._schedule.later(pod.plan.starts_after, lambda: self._begin(begun))
        pod.object = found
        if "deletionTimestamp" in found["metadata"] and not pod.is_leaving:
            pod.is_leaving = True
            self._remove(pod)

    def _bind(self, found: Json) -> None:
        """As the scheduler does."""
        metadata = found["metadata"]
        target = {"apiVersion": "v1", "kind": "Node", "name": self._nodes[0]}
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/binding"
        self._caller.post(path, {"metadata": {"name": metadata["name"]}, "target": target})

    def _begin(self, pod: PodState) -> None:
        if pod.is_leaving or pod.uid in self._gone or self._ended.is_set():
            return
        if pod.plan.is_working:
            pod.process = self._processes.start(pod, self._pods.values())
            if pod.process is None:
                self._schedule.later(RESTART_DELAY, lambda: self._begin(pod))
                return
        elif pod.plan.runs_for is not None:
            self._schedule.later(pod.plan.runs_for, lambda: self._become(pod, pod.plan.phase))
        self._become(pod, "Running")

    def _become(self, pod: PodState, phase: str) -> None:
        if pod.uid in self._gone or pod.phase in ("Succeeded", "Failed"):
            return
        pod.phase = phase
        self._tell(pod)

    def _tell(self, pod: PodState) -> None:
        """Writes the status, again a little later where the API does not answer."""
        if pod.node in self._cut or pod.told == pod.phase or pod.uid in self._gone:
            return
        body = {"metadata": {"uid": pod.uid}, "status": pod.status()}
        try:
            answer = self._caller.patch(f"{pod.path}/status", body)
        except OSError:
            self._schedule.later(0.2, lambda: self._tell(pod))
            return
        if answer.status == HTTPStatus.OK:
            pod.told = pod.phase
        elif answer.status not in (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
            self._schedule.later(0.2, lambda: self._tell(pod))

    def _catch_up(self, nodes: Collection[str]) -> None:
        there = {
            each["metadata"]["uid"]: each
            for each in self._caller.get(PODS).expect()["items"]
            if each["spec"].get("nodeName") in nodes
        }
        for pod in list(self._pods.values()):
            if pod.node in nodes:
                if pod.uid in there:
                    self._tell(pod)
                else:
                    self._forget(pod)
        for uid, found in there.items():
            self._meet(found, self._pods.get(uid))

    def _remove(self, pod: PodState) -> None:
        pod.end()
        body = {
            "gracePeriodSeconds": 0,
            "preconditions": {"uid": pod.uid},
        }
        try:
            status = self._caller.ask(pod.path, method="DELETE", body=body).status
        except OSError:
            status = 0
        if status in (HTTPStatus.OK, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
            self._forget(pod)
        else:
            self._schedule.later(0.2, lambda: self._remove(pod))

    def _forget(self, pod: PodState) -> None:
        pod.end()
        self._gone.add(pod.uid)
        self._pods.pop(pod.uid, None)

    # Processes

    def _look_at_processes(self) -> None:
        for pod in list(self._pods.values()):
            if pod.process is None or (code := pod.process.poll()) is None:
                continue
            pod.process = None
            policy = pod.object["spec"].get("restartPolicy", "Always")
            if policy == "Always" or (policy == "OnFailure" and code != 0):
                pod.restarts += 1
                self._schedule.later(RESTART_DELAY, functools.partial(self._again, pod))
            else:
                self._become(pod, "Failed" if code else "Succeeded")

    def _again(self, pod: PodState) -> None:
        if not (pod.is_leaving or pod.uid in self._gone or self._ended.is_set()):
            pod.process = self._processes.start(pod, self._pods.values())
            if pod.process is None:
                self._schedule.later(RESTART_DELAY, functools.partial(self._again, pod))
