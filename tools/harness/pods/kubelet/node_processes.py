"""The processes of pods whose plan says that their command really runs; their work in threads.

Knows no API but for services, whose names it resolves. Guarantee: `end` leaves no process behind.
Host paths that are mounted, names of services, and LC's address, are rewritten in the worker's
environment instead of being mounted and resolved (all nodes share one loopback device).
"""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import threading
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tools.harness.controlplane.guardian import Guardian
from tools.harness.pods.kubelet.pod_plan import PodState, Work, Working
from tools.harness.pods.wire.caller import Caller

Json = dict[str, Any]
# The variable that tells workers below which path their mounts stand.
PREFIX = "DATA_PATH_PREFIX"
# The variable that tells workers where their node's LC is.
LC_SERVER = "LC_SERVER"
# Seconds that a process has between SIGTERM and SIGKILL.
GRACE = 2.0


@dataclass(frozen=True)
class Machine:
    """What stands behind a node: the root of its file system, and where its LC is; "": there, where
    workers are told."""

    root: Path = Path("/")
    lc_server: str = ""


class NodeProcesses:
    """`machines` has what stands behind nodes; processes print into `logs`, and `folder` is where
    images would let them begin; `guardian` ends them with whoever started them."""

    def __init__(
        self,
        caller: Caller,
        *,
        logs: Path,
        machines: Mapping[str, Machine],
        folder: Path | None,
        guardian: Guardian | None,
    ) -> None:
        self._caller = caller
        self._logs = logs
        self._machines = dict(machines)
        self._folder = folder
        self._guardian = guardian
        logs.mkdir(parents=True, exist_ok=True)

    def log_of(self, name: str) -> str:
        """What the processes of the pods of that name printed."""
        return "".join(
            path.read_text(encoding="utf-8", errors="replace")
            for path in sorted(self._logs.glob(f"{name}-*.log"))
        )

    def start(self, pod: PodState, beside: Iterable[PodState]) -> Working | None:
        """None where a service that it is told of has no pod yet among those `beside` it."""
        container = pod.object["spec"]["containers"][0]
        command = [*container.get("command", ()), *container.get("args", ())]
        try:
            environment = self._environment(pod, container, beside)
        except LookupError:
            return None
        if pod.plan.work is not None:
            return _Errand(pod.plan.work, environment, pod.name)
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
        return _Command(process)

    def _environment(
        self, pod: PodState, container: Json, beside: Iterable[PodState]
    ) -> dict[str, str]:
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
                value = self._address_of(each.get("value", ""), pod.namespace, beside)
                found[each["name"]] = _rewritten(value, mounts)
        if PREFIX in found:
            found[PREFIX] = str(machine.root).rstrip("/")
        if LC_SERVER in found and machine.lc_server:
            # With the capability of the worker.
            found[LC_SERVER] = machine.lc_server + urlsplit(found[LC_SERVER]).path
        return found

    def _address_of(self, value: str, namespace: str, beside: Iterable[PodState]) -> str:
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
            for pod in beside
            if pod.namespace == namespace
            and pod.phase != "Pending"
            and selector <= pod.object["metadata"].get("labels", {}).items()
        ]
        if not begun:
            raise LookupError(value)
        return min(begun)[1]


class _Command:
    """A process with all that it started."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def poll(self) -> int | None:
        return self._process.poll()

    def end(self) -> None:
        """Gone when it returns."""
        if self._process.poll() is not None:
            return
        os.killpg(self._process.pid, signal.SIGTERM)
        try:
            self._process.wait(GRACE)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


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
        except BaseException as error:  # whatever it is: a thread tells nobody else
            self._failure = error
            raise


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
