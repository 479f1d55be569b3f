"""An elector in a pod of containers, seen only through its probe listener, its log and its Lease.

As tools.harness.pods.elector.ElectorPod, but for where it runs: an observer takes either.
"""

import json
from collections.abc import Sequence
from typing import Any

from tools.harness.containers.engine.lab import DockerLab
from tools.harness.containers.networks.network import Network
from tools.harness.containers.pod import Pod
from tools.harness.controlplane.clients.answer import Answer, ask
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.elector import ELECTOR_RULES
from tools.harness.pods.fleet import LEASE
from tools.harness.pods.observers.observer import readiness, wait_for

PORT = 8080
# Seconds until a container answers on a busy machine; a quiet one needs one.
START_TIMEOUT = 60.0


class ElectorContainer:
    """Runs when it is made."""

    def __init__(
        self,
        docker_lab: DockerLab,
        image: str,
        name: str,
        *,
        plane: ControlPlane,
        namespace: str,
        networks: tuple[Network, Network],
        flags: Sequence[str],
    ) -> None:
        cloud, watched = networks
        self.name = name
        self.port = PORT
        self.identity = ""
        self.is_running = True
        self.pod = Pod(docker_lab, f"{name}.{namespace}", watched=watched, cloud=cloud)
        account = plane.service_account_dir(namespace, "elector", ELECTOR_RULES)
        # Kubelet gives the files of a projected token to the pod's group.
        for path in (plane.folder, account.path, *account.path.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        self.container = self.pod.run(
            image,
            [
                *(f"--lease={LEASE}", f"--identity={name}", f"--server={plane.server}"),
                *(f"--service-account-dir={account.path}", "--log-format=json"),
                *(f"--probe-listen=0.0.0.0:{PORT}", *flags),
            ],
            files=[account.path],
        )
        self._wait_contending()

    def log_lines(self) -> list[dict[str, Any]]:
        lines = self.container.logs().decode().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]

    # What it says

    def ask(self, path: str) -> Answer | None:
        return ask(self.port, path, host=self.pod.address)

    def is_leader(self) -> bool:
        answer = readiness(self.ask)
        return answer is not None and answer.status == 200

    # What is done to it

    def kill(self) -> None:
        """SIGKILL, and gone when it returns."""
        self.is_running = False
        self.container.kill()
        self.container.wait()

    def stop(self) -> int:
        """SIGTERM; its exit status."""
        self.container.stop(timeout=30)
        self.is_running = False
        return int(self.container.wait()["StatusCode"])

    def start(self) -> None:
        """Again, as kubelet does it: the same pod, a new process, hence a new identity."""
        self.container.start()
        self._wait_contending()
        self.is_running = True

    def pause(self) -> None:
        """Freezes it: connections stay open, nobody answers."""
        self.container.pause()

    def unpause(self) -> None:
        self.container.unpause()

    def cut(self) -> None:
        """From the API server; the test still sees it."""
        self.pod.cut()

    def mend(self) -> None:
        self.pod.mend()

    def _wait_contending(self) -> None:
        before = self.identity

        def contends() -> bool:
            said = [line for line in self.log_lines() if line["message"] == "contending"]
            if said:
                self.identity = str(said[-1]["identity"])
            return self.identity != before

        wait_for(contends, timeout=START_TIMEOUT, what=f"{self.name} contends", interval=0.1)
