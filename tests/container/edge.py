"""An edge node: LC as its manifest has it, with its relay in mode relay, behind a router.

As tools.harness.pods.edge_node.EdgeNode, but for where it runs. Its file system is a folder of this
machine, so its data is there whatever happens to containers; whoever speaks to LC is let in to the
pod and speaks from there, as workers do.
"""

import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

from tools.harness.containers.engine.lab import DockerLab
from tools.harness.containers.manifest import Manifest, Place
from tools.harness.containers.networks.network import Network
from tools.harness.containers.networks.port_forward import forward_port
from tools.harness.containers.networks.router import Router
from tools.harness.containers.pod import Pod
from tools.harness.containers.program import Program, Variables, programs, terminate
from tools.harness.controlplane.clients.answer import Answer, ask

Json = dict[str, Any]

WORKER_API = 9100
# So that a test need not wait for what takes a minute in the field.
TIMING: Variables = {
    "lc": {"LC_DATASET_INTERVAL": "1s", "LC_REDIAL_CAP": "2s"},
    "relay": {"RELAY_PROBE_INTERVAL": "300ms"},
}
# Seconds in which something that is waited for must be so, on a busy machine.
PATIENCE = 60.0
POLL_INTERVAL = 0.1
# Seconds; a report is on the disk when it is answered.
ANSWER_TIMEOUT = 5.0


class Lc:
    """`address`: where its pod is seen; `root`: of its node's file system."""

    def __init__(self, program: Program, address: str, root: Path) -> None:
        self._program = program
        self._address = address
        self.root = root
        self.url = f"http://{address}:{WORKER_API}"
        self.log_text = program.log_text

    def wait_ready(self) -> None:
        self._wait(lambda: self._answer("/readyz", status=HTTPStatus.OK), what="be ready")

    def ask(self, path: str) -> Answer:
        """Waits for an answer."""
        found: Answer = self._wait(lambda: self._answer(path), what=f"answer {path}")
        return found

    def status(self) -> Json:
        """The /status document."""
        return self.ask("/status").json()

    def until(self, is_so: Callable[[Json], object], *, what: str) -> Json:
        """The first status of which that is true."""
        seen: list[Json] = []

        def look() -> bool:
            seen[:] = [self.status()]
            return bool(is_so(seen[0]))

        self._wait(look, what=what)
        return seen[0]

    def _wait(self, is_so: Callable[[], Any], *, what: str) -> Any:
        deadline = time.monotonic() + PATIENCE
        while not (found := is_so()):
            assert time.monotonic() < deadline, f"LC does not {what}: {self.log_text()[-3000:]}"
            time.sleep(POLL_INTERVAL)
        return found

    def _answer(self, path: str, status: int | None = None) -> Answer | None:
        answer = ask(WORKER_API, path, host=self._address, timeout=ANSWER_TIMEOUT)
        return answer if answer and status in (None, answer.status) else None


class EdgeContainers:
    """`networks`: the edge, and that from which tests look; `router`: of the edge, to the cloud;
    `variables`: on top of the manifest's."""

    def __init__(
        self,
        docker_lab: DockerLab,
        images: Mapping[str, str],
        manifest: Manifest,
        place: Place,
        *,
        networks: tuple[Network, Network],
        router: Router,
        variables: Variables,
    ) -> None:
        self.name = place.node
        self._edge, watched = networks
        self._router = router
        self._pod = Pod(docker_lab, place.node, watched=watched, cloud=self._edge)
        self._pause_id = str(self._pod.pause.id)
        router.lead(self._pause_id, of=self._edge)
        self._specs = list(manifest.containers("DaemonSet", "lc", place))
        self._variables = variables
        self._root = place.root
        self._take(images)
        self._door = forward_port(
            docker_lab, f"container:{self._pause_id}", self._pod.address, WORKER_API
        )
        self._is_silent = False

    def _take(self, images: Mapping[str, str]) -> None:
        self.programs = programs(self._pod, self._specs, images, variables=self._variables)
        self.lc = Lc(self.programs["lc"], self._pod.address, self._root)

    # ── its life ──

    def start(self) -> None:
        """What does not run, with its data; returns at once."""
        for it in self.programs.values():
            it.start()

    def stop(self) -> None:
        """For good."""
        self._door.remove(force=True)
        self._pod.remove()

    def replace(self, images: Mapping[str, str]) -> None:
        """By a pod of these on the same node, when this one has ended in order."""
        terminate(self.programs)
        self._take(images)
        self.start()

    def restart(self) -> None:
        """Power gone and back: nobody could say good-bye."""
        for it in self.programs.values():
            it.kill()
        self.start()

    # ── its link ──

    def cut(self, *, is_silent: bool = False) -> None:
        """Silently: packets vanish on the way; else its interface is gone."""
        self._is_silent = is_silent
        if is_silent:
            self._router.drop(self._pod.cloud_address)
        else:
            self._pod.cut()

    def heal(self) -> None:
        if self._is_silent:
            self._router.let_pass(self._pod.cloud_address)
        else:
            self._pod.mend()
            self._router.lead(self._pause_id, of=self._edge)
