"""A small stand-in for the kubelets of some nodes, and for the scheduler.

Owns: the Nodes it makes, the status of the pods that are bound to them, and the processes of pods
whose course says that their command really runs.
Guarantees: phases go Pending, Running, then Succeeded or Failed, as a kubelet's do; a pod that is
deleted loses its process, then its object; while `cut`, a node's pods run on and nothing is told,
and what happened is told when it is healed; `close` ends every process.
Differs from a kubelet: host paths that are mounted, names of services, and LC's address, are
rewritten in the worker's environment instead of being mounted and resolved (all nodes share one
loopback device); a pod's address is a loopback one; init containers do not run; probes are not
made.
"""

from __future__ import annotations

import functools
import hashlib
import heapq
import itertools
import json
import os
import queue
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.controlplane.guardian import Guardian
from tests.pods.caller import Caller

Json = dict[str, Any]
PODS = "/api/v1/pods"
NODES = "/api/v1/nodes"
# The variable that tells workers below which path their mounts stand.
PREFIX = "DATA_PATH_PREFIX"
# The variable that tells workers where their node's LC is.
LC_SERVER = "LC_SERVER"
# Seconds between two looks at processes.
POLL_INTERVAL = 0.05
# Seconds until a container that failed is started again (a kubelet: 10, doubled each time).
RESTART_DELAY = 0.5
# Seconds that a process has between SIGTERM and SIGKILL.
GRACE = 2.0


# A worker in a thread: it is given its environment, ends soon after the event, and returns what a
# process would exit with.
Work = Callable[[Mapping[str, str], threading.Event], int]


@dataclass(frozen=True)
class Course:
    """What becomes of a pod: Running after `starts_after` seconds; then its command runs as a
    process, or `work` in a thread, or it ends with `phase` after `runs_for` seconds (None: it runs
    on)."""

    starts_after: float = 0.05
    runs_for: float | None = None
    phase: str = "Succeeded"
    is_process: bool = False
    work: Work | None = None

    @property
    def is_working(self) -> bool:
        return self.is_process or self.work is not None


class _Errand:
    """Work in a thread, ended and asked as a process."""

    def __init__(self, work: Work, environment: Mapping[str, str], name: str) -> None:
        self._told = threading.Event()
        self._code: int | None = None
        self._failure: BaseException | None = None
        self._work = functools.partial(work, environment, self._told)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def poll(self) -> int | None:
        """Raises what the work died of: a test's worker is not to fail unseen."""
        if self._failure is not None:
            raise self._failure
        return self._code

    def end(self) -> None:
        self._told.set()

    def _run(self) -> None:
        try:
            self._code = self._work()
        except BaseException as error:
            self._failure = error
            raise


@dataclass(frozen=True)
class Machine:
    """What stands behind a node: the root of its file system, and where its LC is; "": there, where
    workers are told."""

    root: Path = Path("/")
    lc_server: str = ""


@dataclass
class _Pod:
    object: Json
    course: Course
    phase: str = "Pending"
    told: str = ""
    process: subprocess.Popen[bytes] | _Errand | None = None
    restarts: int = 0
    is_leaving: bool = False
    log: list[Path] = field(default_factory=list)

    @property
    def uid(self) -> str:
        return str(self.object["metadata"]["uid"])

    @property
    def name(self) -> str:
        return str(self.object["metadata"]["name"])

    @property
    def node(self) -> str:
        return str(self.object["spec"].get("nodeName", ""))

    @property
    def namespace(self) -> str:
        return str(self.object["metadata"]["namespace"])

    @property
    def path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"

    @property
    def address(self) -> str:
        """Its own one among the loopback addresses."""
        digest = hashlib.sha256(self.uid.encode()).digest()
        return f"127.{digest[0]}.{digest[1]}.{1 + digest[2] % 254}"


class Kubelet:
    """Runs the pods of `nodes`, each as `course_of` says; a context manager.

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
        course_of: Callable[[Json], Course] = lambda pod: Course(),
        machines: Mapping[str, Machine] | None = None,
        folder: Path | None = None,
        guardian: Guardian | None = None,
    ) -> None:
        self._caller = caller
        self._nodes = list(nodes)
        self._course_of = course_of
        self._machines = dict(machines or {})
        self._folder = folder
        self._guardian = guardian
        self._logs = logs
        logs.mkdir(parents=True, exist_ok=True)
        self._pods: dict[str, _Pod] = {}
        self._gone: set[str] = set()
        self._cut: set[str] = set()
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
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
            _end(pod.process)
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
        return "".join(
            path.read_text(encoding="utf-8", errors="replace")
            for path in sorted(self._logs.glob(f"{name}-*.log"))
        )

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
        except BaseException as error:
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
                    while event := self._events.get(timeout=self._patience()):
                        self._hear(event)
                while self._due and self._due[0][0] <= time.monotonic():
                    heapq.heappop(self._due)[2]()
                self._look_at_processes()
        except BaseException as error:
            self._failure = error
            raise

    def _patience(self) -> float:
        if not self._due:
            return POLL_INTERVAL
        return min(POLL_INTERVAL, max(0.0, self._due[0][0] - time.monotonic()))

    def _later(self, seconds: float, work: Callable[[], None]) -> None:
        heapq.heappush(self._due, (time.monotonic() + seconds, next(self._numbers), work))

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

    def _meet(self, found: Json, pod: _Pod | None) -> None:
        uid = found["metadata"]["uid"]
        if uid in self._gone:
            return
        if pod is None:
            pod = self._pods[uid] = _Pod(found, self._course_of(found))
            if found.get("status", {}).get("phase") in ("Succeeded", "Failed"):
                pod.phase = pod.told = found["status"]["phase"]
            else:
                begun = pod
                self._later(pod.course.starts_after, lambda: self._begin(begun))
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

    def _begin(self, pod: _Pod) -> None:
        if pod.is_leaving or pod.uid in self._gone or self._ended.is_set():
            return
        if pod.course.is_working:
            pod.process = self._start(pod)
            if pod.process is None:
                self._later(RESTART_DELAY, lambda: self._begin(pod))
                return
        elif pod.course.runs_for is not None:
            self._later(pod.course.runs_for, lambda: self._become(pod, pod.course.phase))
        self._become(pod, "Running")

    def _become(self, pod: _Pod, phase: str) -> None:
        if pod.uid in self._gone or pod.phase in ("Succeeded", "Failed"):
            return
        pod.phase = phase
        self._tell(pod)

    def _tell(self, pod: _Pod) -> None:
        """Writes the status, again a little later where the API does not answer."""
        if pod.node in self._cut or pod.told == pod.phase or pod.uid in self._gone:
            return
        is_running = pod.phase == "Running"
        ready = {"type": "Ready", "status": "True" if is_running else "False"}
        status = {
            "phase": pod.phase,
            "conditions": [ready],
            "podIP": pod.address,
            "startTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }
        body = {"metadata": {"uid": pod.uid}, "status": status}
        try:
            answer = self._caller.patch(f"{pod.path}/status", body)
        except OSError:
            self._later(0.2, lambda: self._tell(pod))
            return
        if answer.status == HTTPStatus.OK:
            pod.told = pod.phase
        elif answer.status not in (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
            self._later(0.2, lambda: self._tell(pod))

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

    def _remove(self, pod: _Pod) -> None:
        _end(pod.process)
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
            self._later(0.2, lambda: self._remove(pod))

    def _forget(self, pod: _Pod) -> None:
        _end(pod.process)
        self._gone.add(pod.uid)
        self._pods.pop(pod.uid, None)

    # Processes

    def _start(self, pod: _Pod) -> subprocess.Popen[bytes] | _Errand | None:
        """None where a service that it is told of has no pod yet."""
        container = pod.object["spec"]["containers"][0]
        command = [*container.get("command", ()), *container.get("args", ())]
        try:
            environment = self._environment(pod, container)
        except LookupError:
            return None
        if pod.course.work is not None:
            return _Errand(pod.course.work, environment, pod.name)
        with (self._logs / f"{pod.name}-{pod.uid[:8]}.log").open("ab") as log:
            process = subprocess.Popen(
                command,
                cwd=self._folder,
                env={"PATH": os.environ["PATH"], **environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        if self._guardian is not None:
            self._guardian.watch(process.pid)
        return process

    def _environment(self, pod: _Pod, container: Json) -> dict[str, str]:
        machine = self._machines.get(pod.node, Machine())
        mounts = _mounts(pod.object["spec"], container, machine.root)
        fields = {
            "metadata.name": pod.name,
            "metadata.namespace": pod.namespace,
            "spec.nodeName": pod.node,
            "status.podIP": pod.address,
        }
        found = {}
        for each in container.get("env", ()):
            if "valueFrom" in each:
                found[each["name"]] = fields[each["valueFrom"]["fieldRef"]["fieldPath"]]
            else:
                value = self._address_of(each.get("value", ""), pod.namespace)
                found[each["name"]] = _rewritten(value, mounts)
        if PREFIX in found:
            found[PREFIX] = str(machine.root).rstrip("/")
        if LC_SERVER in found and machine.lc_server:
            found[LC_SERVER] = machine.lc_server
        return found

    def _address_of(self, value: str, namespace: str) -> str:
        """The address of a pod behind `<service>.<namespace>`, any other value as it is. Raises
        LookupError where none has begun."""
        service, _, rest = value.partition(".")
        if rest != namespace:
            return value
        answer = self._caller.get(f"/api/v1/namespaces/{namespace}/services/{service}")
        if answer.status != HTTPStatus.OK:
            raise LookupError(value)
        selector = answer.json()["spec"]["selector"].items()
        begun = [
            (pod.phase != "Running", pod.address)
            for pod in self._pods.values()
            if pod.namespace == namespace
            and pod.phase != "Pending"
            and selector <= pod.object["metadata"].get("labels", {}).items()
        ]
        if not begun:
            raise LookupError(value)
        return min(begun)[1]

    def _look_at_processes(self) -> None:
        for pod in list(self._pods.values()):
            if pod.process is None or (code := pod.process.poll()) is None:
                continue
            pod.process = None
            policy = pod.object["spec"].get("restartPolicy", "Always")
            if policy == "Always" or (policy == "OnFailure" and code != 0):
                pod.restarts += 1
                self._later(RESTART_DELAY, functools.partial(self._again, pod))
            else:
                self._become(pod, "Failed" if code else "Succeeded")

    def _again(self, pod: _Pod) -> None:
        if not (pod.is_leaving or pod.uid in self._gone or self._ended.is_set()):
            pod.process = self._start(pod)
            if pod.process is None:
                self._later(RESTART_DELAY, functools.partial(self._again, pod))


def _mounts(spec: Json, container: Json, root: Path) -> Collection[tuple[str, str]]:
    """Paths in the container, and where these are on the host; the longest first."""
    host = {
        volume["name"]: volume["hostPath"]["path"]
        for volume in spec.get("volumes", ())
        if "hostPath" in volume
    }
    found = [
        (mount["mountPath"].rstrip("/"), str(root / host[mount["name"]].lstrip("/")))
        for mount in container.get("volumeMounts", ())
        if mount["name"] in host
    ]
    return sorted(found, key=lambda pair: -len(pair[0]))


def _rewritten(value: str, mounts: Collection[tuple[str, str]]) -> str:
    """A value, or several joined by ";", with paths in the container made paths on the host."""
    return ";".join(_on_host(each, mounts) for each in value.split(";"))


def _on_host(value: str, mounts: Collection[tuple[str, str]]) -> str:
    for inside, outside in mounts:
        if value == inside or value.startswith(f"{inside}/"):
            return outside.rstrip("/") + value[len(inside) :]
    return value


def _end(process: subprocess.Popen[bytes] | _Errand | None) -> None:
    if isinstance(process, _Errand):
        process.end()
        return
    if process is None or process.poll() is not None:
        return
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(GRACE)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
