"""A pod: containers that share a network, which one of them holds and that does nothing else.

Containers of a pod run as manifests run them: as nobody, with a root file system that nobody
writes to, without capabilities. One that is killed and started again keeps the pod's addresses,
as in kubelet's hands.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from docker.models.containers import Container

from tools.harness.containers.engine.lab import DockerLab
from tools.harness.containers.networks.network import Network

# It has to be killed: the first process of a container has no defaults for signals.
_PAUSE = "import signal; signal.pause()"


class Pod:
    """`watched`: the network from which tests look at it, which no fault touches."""

    def __init__(
        self, docker_lab: DockerLab, name: str, *, watched: Network, cloud: Network
    ) -> None:
        self.name = name
        self._lab = docker_lab
        self._cloud = cloud
        self.address = watched.new_address()
        self.cloud_address = cloud.new_address()
        self.pause = docker_lab.start(
            docker_lab.base,
            ["python3", "-c", _PAUSE],
            hostname=name,
            user="65532:65532",
            **watched.settings(docker_lab, self.address),
        )
        cloud.plug(self.pause, self.cloud_address)

        self._containers: list[Container] = []

    def run(
        self,
        image: str,
        arguments: Sequence[str],
        *,
        environ: Mapping[str, str] | None = None,
        files: Sequence[Path] = (),
        volumes: Mapping[str, str] | None = None,
        data: Sequence[str] = (),
        **settings: Any,
    ) -> Container:
        """`files`: of this machine, readable at the same path; `volumes`: by name, at a path;
        `data`: where the container has a volume of its own, which goes with it."""
        container = self._lab.start(
            image,
            list(arguments),
            environment={"POD_NAME": self.name, **(environ or {})},
            network_mode=f"container:{self.pause.id}",
            # Kubelet does not look at an image's health check either.
            healthcheck={"test": ["NONE"]},
            volumes=[
                *(f"{path}:{path}:ro" for path in files),
                *(f"{name}:{path}" for name, path in (volumes or {}).items()),
                *data,
            ],
            **settings,
        )
        self._containers.append(container)
        return container

    def cut(self) -> None:
        """Unplugs it from the cloud."""
        self._cloud.unplug(self.pause)

    def mend(self) -> None:
        self._cloud.plug(self.pause, self.cloud_address)

    def remove(self) -> None:
        """All of it, whatever state it is in."""
        for container in (*self._containers, self.pause):
            container.remove(force=True, v=True)
