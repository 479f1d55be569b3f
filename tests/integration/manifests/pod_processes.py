"""A pod as the API server returned it, its containers as processes in a network of their own.

Owns what kubelet would do: volumes as directories, mounts that nobody else sees, variables, init
containers in their order, and the startup probe of a sidecar before what follows. Guarantees:
exactly the commands, variables and mounts of the pod's spec are used; whatever it has that is not
understood here raises; `stop` leaves no process and no folder.
Differs from a pod: programs are those of this checkout, run as root; there are no limits.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Self

from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.clients.answer import exchange
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.reservation import LOOPBACK
from tools.harness.pods.kubelet.pod_network import PodNetwork

Json = dict[str, Any]

# Where the Service of the API server is, in this network.
API_PORT = 6443
# Seconds on a busy machine, where the Python client takes 20 to be imported.
TIMEOUT = 120.0
PROGRAMS = {"elector-sidecar": "elector_sidecar", "relay-sidecar": "relay_sidecar"}
# Pairs of a directory and where it is mounted, then "--" and the program. What is there on this
# machine is hidden by empty directories.
_MOUNT = """for it in /run /var/lib; do mount -t tmpfs none $it; done
while [ "$1" != -- ]; do mkdir -p "$2"; mount --bind "$1" "$2"; shift 2; done
shift
exec "$@"
"""


class PodProcesses:
    """A context manager that starts the sidecars; `target`: the port by which they reach the API
    server."""

    def __init__(self, plane: ControlPlane, pod: Json, *, target: int) -> None:
        self._plane = plane
        self._pod = pod
        self._spec: Json = pod["spec"]
        self._folder = Path(tempfile.mkdtemp(prefix="pod-"))
        self.network = PodNetwork(API_PORT, target)
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._volumes: dict[str, Path] = {}

    def __enter__(self) -> Self:
        try:
            for each in self._spec["volumes"]:
                self._volumes[each["name"]] = self._volume(each)
            for each in self._spec.get("initContainers", ()):
                self._start(each)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Kills all."""
        for each in self._running.values():
            each.kill()
            each.wait()
        self.network.close()
        shutil.rmtree(self._folder)

    def restart(self, name: str) -> None:
        """Kills a sidecar and starts it again, as kubelet does."""
        self._running[name].kill()
        self._running[name].wait()
        self._start(self.container(name))

    # ── what runs beside it ──

    def container(self, name: str) -> Json:
        everything = [*self._spec.get("initContainers", ()), *self._spec["containers"]]
        found: list[Json] = [it for it in everything if it["name"] == name]
        (it,) = found
        return it

    def prefix(self, name: str) -> list[str]:
        """A command that becomes a program in the container of this name."""
        mounts = self.container(name)["volumeMounts"]
        pairs = [text for it in mounts for text in (str(self._of(it)), it["mountPath"])]
        return [*self.network.prefix, "unshare", "--mount", "sh", "-ec", _MOUNT, "sh", *pairs, "--"]

    def environ(self, name: str) -> dict[str, str]:
        """As kubelet makes it: Services, ConfigMaps, then the container's own."""
        container = self.container(name)
        found = {
            "PATH": os.environ["PATH"],
            # Not this machine's, where kubectl keeps what it has discovered.
            "HOME": "/run",
            "KUBERNETES_SERVICE_HOST": LOOPBACK,
            "KUBERNETES_SERVICE_PORT": str(API_PORT),
        }
        for each in container.get("envFrom", ()):
            found |= self._config_map(each)
        for each in container.get("env", ()):
            found[each["name"]] = _expand(self._value(each), found)
        return found

    def run(self, name: str, *command: str) -> str:
        """What a command prints in the container of this name, as `kubectl exec` has it."""
        done = subprocess.run(
            [*self.prefix(name), *command],
            env=self.environ(name),
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        assert done.returncode == 0, f"{command}: {done.stderr}{self.log_text()}"
        return done.stdout

    def status(self, port: int, path: str) -> int | None:
        """Of an answer at the pod's address, as kubelet's probes ask; None without one."""
        try:
            with self.network.entered():
                connection = HTTPConnection(LOOPBACK, port, timeout=TIMEOUT)
                return exchange(connection, path).status
        except OSError:
            return None

    def log_text(self) -> str:
        logs = sorted(self._folder.glob("*.log"))
        return "\n".join(f"{it.name}: {it.read_text(errors='replace')}" for it in logs)

    # ── what kubelet does ──

    def _start(self, container: Json) -> None:
        name = container["name"]
        with (self._folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [*self.prefix(name), *self._command(container)],
                env=self.environ(name),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._running[name] = process
        if container.get("restartPolicy") != "Always":
            assert process.wait(TIMEOUT) == 0, self.log_text()
        elif "startupProbe" in container:
            self._wait_started(container)

    def _command(self, container: Json) -> list[str]:
        image = container["image"].rpartition("/")[2].partition(":")[0]
        environ = self.environ(container["name"])
        arguments = [_expand(it, environ) for it in container.get("args", ())]
        return [sys.executable, "-m", PROGRAMS[image], *arguments]

    def _wait_started(self, container: Json) -> None:
        probe = container["startupProbe"]["httpGet"]
        (port,) = [it["containerPort"] for it in container["ports"] if it["name"] == probe["port"]]
        deadline = time.monotonic() + TIMEOUT
        while self.status(port, probe["path"]) != HTTPStatus.OK:
            assert self._running[container["name"]].poll() is None, self.log_text()
            assert time.monotonic() < deadline, self.log_text()
            time.sleep(0.05)

    def _of(self, mount: Json) -> Path:
        assert mount.keys() <= {"name", "mountPath", "readOnly"}, mount
        return self._volumes[str(mount["name"])]

    def _volume(self, volume: Json) -> Path:
        folder = self._folder / str(volume["name"])
        folder.mkdir()
        if "emptyDir" in volume:
            return folder
        sources = volume["projected"]["sources"]
        assert [set(it) for it in sources] == [
            {"serviceAccountToken"},
            {"configMap"},
            {"downwardAPI"},
        ], sources
        namespace = self._pod["metadata"]["namespace"]
        account = self._spec["serviceAccountName"]
        token = self._plane.new_token(namespace, account)
        (folder / sources[0]["serviceAccountToken"]["path"]).write_text(token)
        (item,) = sources[1]["configMap"]["items"]
        (folder / item["path"]).write_bytes(self._plane.ca_bundle.read_bytes())
        (item,) = sources[2]["downwardAPI"]["items"]
        (folder / item["path"]).write_text(self._field(item["fieldRef"]["fieldPath"]))
        return folder

    def _value(self, variable: Json) -> str:
        if "valueFrom" not in variable:
            return str(variable.get("value", ""))
        return self._field(variable["valueFrom"]["fieldRef"]["fieldPath"])

    def _field(self, path: str) -> str:
        kind, name = path.split(".")
        assert kind == "metadata", path
        return str(self._pod["metadata"][name])

    def _config_map(self, source: Json) -> Mapping[str, str]:
        name, namespace = source["configMapRef"]["name"], self._pod["metadata"]["namespace"]
        answer = self._plane.admin.get(f"/api/v1/namespaces/{namespace}/configmaps/{name}")
        if answer[0] == HTTPStatus.NOT_FOUND and source["configMapRef"]["optional"]:
            return {}
        data = expect(answer)["data"]
        return {source.get("prefix", "") + key: value for key, value in data.items()}


def _expand(text: str, environ: Mapping[str, str]) -> str:
    """`$(NAME)`, as kubelet does."""
    return re.sub(r"\$\((\w+)\)", lambda it: environ.get(it[1], it[0]), text)
