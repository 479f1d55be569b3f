"""The control plane in containers: kube-apiserver and etcd, from the binaries that all tests use.

Or `tools.local_apiserver` in their place, by the image of the relay, which has Python. The API
server has an address of its own in the cloud, so that a pod without that network does not reach it.
The test reaches it as the engine's host.
"""

import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from docker.errors import NotFound
from docker.models.containers import Container

import tools
from tools.harness.containers.engine.lab import DockerLab
from tools.harness.containers.networks.network import Network
from tools.harness.containers.networks.port_forward import forward_port
from tools.harness.controlplane import build
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.daemon import LOG_TAIL_LINES
from tools.harness.controlplane.local_apiserver import MODULE, LocalApiServerProcess

# Whose files they are.
_OWNER = f"{os.getuid()}:{os.getgid()}"


class PlaneContainer:
    """One program in a container; as tools.harness.controlplane.daemon.Daemon, but for where it
    runs."""

    def __init__(
        self, docker_lab: DockerLab, image: str, command: Sequence[str], settings: dict[str, Any]
    ) -> None:
        self._lab = docker_lab
        self._image = image
        self._command = list(command)
        self._settings = settings
        self._container: Container | None = None

    @property
    def pid(self) -> int:
        """On this machine."""
        container = self._running()
        container.reload()
        return int(container.attrs["State"]["Pid"])

    def start(self) -> None:
        if self._container is not None:
            self._container.start()
            return
        self._container = self._lab.start(self._image, self._command, **self._settings)

    def stop(self, number: signal.Signals, *, timeout: float) -> None:
        if self._container is None:
            return
        try:
            self._container.reload()
        except NotFound:
            return  # the lab was cleaned up meanwhile
        if self._container.status == "paused":
            self._container.unpause()
        if number == signal.SIGKILL:
            if self._container.status != "exited":
                self._container.kill()
            self._container.wait()
        else:
            self._container.stop(timeout=int(timeout))

    def freeze(self) -> None:
        self._running().pause()

    def thaw(self) -> None:
        self._running().unpause()

    def check_running(self) -> None:
        container = self._running()
        container.reload()
        if container.status not in ("running", "paused"):
            log = container.logs(tail=LOG_TAIL_LINES).decode(errors="replace")
            raise ChildProcessError(f"{self._image} is not running, its log ends with:\n{log}")

    def _running(self) -> Container:
        if self._container is None:
            raise ChildProcessError(f"{self._image} is not running")
        return self._container


def control_plane(
    docker_lab: DockerLab, cloud: Network, *, has_nodes: bool = False
) -> ControlPlane:
    """Not started yet; `has_nodes`: real kubelets come."""
    address, network_mode = _standing(docker_lab, cloud)

    def run(command: Sequence[str], log: Path) -> PlaneContainer:
        program = command[0]
        files = [f"{program}:{program}:ro", f"{log.parent}:{log.parent}"]
        settings = {"network_mode": network_mode, "user": _OWNER, "volumes": files}
        return PlaneContainer(docker_lab, docker_lab.base, command, settings)

    for name in ("etcd", "kube-apiserver"):
        build.binary(name)
    return ControlPlane(host=address, has_nodes=has_nodes, run=run)


def local_apiserver(docker_lab: DockerLab, cloud: Network, image: str) -> LocalApiServerProcess:
    """From this checkout, with the packages in the image of the relay. Not started yet."""
    address, network_mode = _standing(docker_lab, cloud)

    def run(arguments: Sequence[str], log: Path) -> PlaneContainer:
        sources = Path(tools.__file__).parent
        files = [f"{log.parent}:{log.parent}", f"{sources}:/checkout/tools:ro"]
        settings = {
            "network_mode": network_mode,
            "user": _OWNER,
            "volumes": files,
            "entrypoint": ["python3", "-m", MODULE],
            "environment": {"PYTHONPATH": "/app/src:/app/lib:/checkout"},
        }
        return PlaneContainer(docker_lab, image, arguments, settings)

    it = LocalApiServerProcess(host=address, run=run)
    forward_port(docker_lab, network_mode, address, it.port)
    return it


def _standing(docker_lab: DockerLab, cloud: Network) -> tuple[str, str]:
    """A new address in the cloud, and how containers share it."""
    address = cloud.new_address()
    pause = ["python3", "-c", "import signal; signal.pause()"]
    holder = docker_lab.start(docker_lab.base, pause, **cloud.settings(docker_lab, address))
    return address, f"container:{holder.id}"
