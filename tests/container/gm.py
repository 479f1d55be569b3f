"""A pod of GM as its manifest has it: containers of the gm, the elector and the relay image.

As tools.harness.pods.gm.GmPod, but for where it runs. It is asked through another network than the
one that faults touch, at the ports that kubelet asks.
"""

import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from tools.harness.containers.engine.lab import DockerLab
from tools.harness.containers.manifest import Manifest, Place
from tools.harness.containers.networks.network import Network
from tools.harness.containers.networks.router import Router, administer
from tools.harness.containers.pod import Pod
from tools.harness.containers.program import Variables, programs, terminate
from tools.harness.controlplane.clients.answer import Answer, ask

Json = dict[str, Any]

STREAM, STATUS, PROBES = 9000, 9001, 4041
# Seconds until it has listed everything, on a busy machine.
START_TIMEOUT = 120.0
POLL_INTERVAL = 0.1
# Seconds; as short as leaves time for writes, so that failovers are quick.
LEASE_DURATION = 6.0
TIMING: Variables = {
    "elector": {
        "ELECTOR_LEASE_DURATION": "6s",
        "ELECTOR_RENEW_INTERVAL": "1s",
        "ELECTOR_REQUEST_TIMEOUT": "2s",
    },
    "relay": {"RELAY_PROBE_INTERVAL": "300ms"},
    "gm": {"GM_REQUEST_TIMEOUT": "1500ms"},
}


class GmContainers:
    """`networks`: the cloud, and that from which tests look; `router`: of the cloud, to the edge;
    `api_id`: the container that has the API server's address; `variables`: on top of the
    manifest's."""

    def __init__(
        self,
        docker_lab: DockerLab,
        images: Mapping[str, str],
        manifest: Manifest,
        place: Place,
        *,
        networks: tuple[Network, Network],
        router: Router,
        api_id: str,
        variables: Variables,
    ) -> None:
        self.name = place.pod
        self._cloud, watched = networks
        self._lab, self._router, self._api_id = docker_lab, router, api_id
        self._is_silent = False
        self._pod = Pod(
            docker_lab, f"{place.pod}.{place.namespace}", watched=watched, cloud=self._cloud
        )
        # For LCs.
        self.address = f"{self._pod.cloud_address}:{STREAM}"
        self._pause_id = str(self._pod.pause.id)
        router.lead(self._pause_id, of=self._cloud)
        self._specs = list(manifest.containers("Deployment", "gm", place))
        self._variables = variables
        self._take(images)

    def _take(self, images: Mapping[str, str]) -> None:
        self.programs = programs(self._pod, self._specs, images, variables=self._variables)
        self.gm, self.elector = self.programs["gm"], self.programs["elector"]

    # ── its life ──

    def start(self, *, wait: bool = True) -> None:
        """What does not run, with its data."""
        for it in self.programs.values():
            it.start()
        if wait:
            self.wait_ready()

    def stop(self) -> None:
        """For good."""
        self._pod.remove()

    def replace(self, images: Mapping[str, str]) -> None:
        """By a pod of these, when this one has ended in order; it has the address that was this
        one's, as behind a Service."""
        terminate(self.programs)
        self._take(images)
        self.start(wait=False)

    def wait_ready(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT
        while (answer := self._ask(STATUS, "/readyz")) is None or answer.status != HTTPStatus.OK:
            assert time.monotonic() < deadline, f"{self.name} is not ready: {self.gm.log_text()}"
            time.sleep(POLL_INTERVAL)

    # ── what befalls it ──

    def kill(self) -> None:
        """All containers, as when the machine dies."""
        for it in self.programs.values():
            it.kill()

    def freeze(self) -> None:
        """All containers, as when the machine stands still."""
        for it in self.programs.values():
            it.freeze()

    def thaw(self) -> None:
        for it in self.programs.values():
            it.thaw()

    def cut(self, *, is_silent: bool = False) -> None:
        """Its interface is gone; silently: what the API server sends it vanishes, and LCs reach it
        as ever."""
        self._is_silent = is_silent
        if is_silent:
            administer(self._lab, self._api_id, "drop", self._pod.cloud_address)
        else:
            self._pod.cut()

    def heal(self) -> None:
        if self._is_silent:
            administer(self._lab, self._api_id, "pass", self._pod.cloud_address)
        else:
            self._pod.mend()
            self._router.lead(self._pause_id, of=self._cloud)

    # ── what it says ──

    @property
    def may_act(self) -> bool:
        """As the leader, by its own account and by its elector's; False without an answer, too."""
        answer = self.elector_says("/readyz")
        if answer is None or answer.status != HTTPStatus.OK:
            return False
        status = self.status()
        return status is not None and bool(status["leader"]["mayAct"])

    def elector_says(self, path: str) -> Answer | None:
        return self._ask(PROBES, path)

    def status(self) -> Json | None:
        """The /status document of gm; None without an answer."""
        answer = self._ask(STATUS, "/status")
        return answer.json() if answer else None

    def _ask(self, port: int, path: str) -> Answer | None:
        return ask(port, path, host=self._pod.address)
