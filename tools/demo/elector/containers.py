"""Pods and edge nodes as containers of the images, in networks of an engine.

Owns what it makes there, all of which the Docker lab removes. Guarantees: containers of a pod share
its network, run as nobody and write to no root file system; a pod that is cut off has lost its
interface to the cloud, and is still seen through another one.
"""

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from http import HTTPStatus
from pathlib import Path

from docker.errors import APIError, BuildError
from docker.models.containers import Container
from requests.exceptions import ConnectionError, ReadTimeout

from tools.demo.elector.edge import RULES as EDGE_RULES
from tools.demo.elector.pod import RULES, elector_flags
from tools.demo.environment import END_TIMEOUT, TAIL, EdgeParts, Environment, PodParts, Unprepared
from tools.demo.timing import Timing
from tools.harness.containers.control_plane import control_plane, local_apiserver
from tools.harness.containers.engine.engine import NoEngine, engine
from tools.harness.containers.engine.lab import DockerLab
from tools.harness.containers.networks.network import Network
from tools.harness.containers.networks.port_forward import forward_port
from tools.harness.containers.pod import Pod
from tools.harness.controlplane.access.accounts import Rule
from tools.harness.controlplane.api_server import ApiServer
from tools.images.__main__ import build_all, release
from tools.images.base import NoBase
from tools.images.wheels import NoWheels

ELECTOR, PROBES, MAIN = 4040, 4041, 8080
API, STATUS = 10550, 10551
# What a pod's main is: one file, for any image with Python.
MAIN_PROGRAM = Path(__file__).parents[1] / "main.py"
RELAY_DATA = "/var/lib/relay-sidecar"
# Seconds for which it is known whether a container runs: the engine is asked over HTTP.
LOOK_INTERVAL = 1.0

Planes = Mapping[
    str, Callable[[DockerLab, Network, Mapping[str, str]], AbstractContextManager[ApiServer]]
]
# By the names of tools.demo.cluster.CLUSTERS.
PLANES: Planes = {
    "local": lambda docker_lab, cloud, images: local_apiserver(docker_lab, cloud, images["relay"]),
    "kube": lambda docker_lab, cloud, images: control_plane(docker_lab, cloud),
}


class ContainerProgram:
    """`run`: makes the container, the first time."""

    def __init__(self, run: Callable[[], Container]) -> None:
        self._run = run
        self._container: Container | None = None
        self._looked_at = 0.0
        self._exit_status: int | None = None

    def start(self) -> None:
        """Again in the same container, as kubelet does it in the same pod."""
        if self._container is None:
            self._container = self._run()
        else:
            self._container.start()
        self._looked_at, self._exit_status = time.monotonic(), None

    def end(self, number: signal.Signals) -> int | None:
        if self._container is None:
            return None
        try:
            self._container.kill(number.name)
        except APIError as error:
            # It does not run.
            if error.status_code != HTTPStatus.CONFLICT:
                raise
        try:
            return int(self._container.wait(timeout=END_TIMEOUT)["StatusCode"])
        except (ReadTimeout, ConnectionError):
            return None

    def exit_status(self) -> int | None:
        if self._container is not None and time.monotonic() - self._looked_at > LOOK_INTERVAL:
            self._container.reload()
            state = self._container.attrs["State"]
            self._exit_status = None if state["Running"] else int(state["ExitCode"])
            self._looked_at = time.monotonic()
        return self._exit_status

    def log_tail(self) -> Sequence[str]:
        if self._container is None:
            return []
        return self._container.logs(tail=TAIL).decode(errors="replace").splitlines()


class PodLink:
    """Of a pod to the cloud."""

    def __init__(self, pod: Pod) -> None:
        self._pod = pod

    def cut(self) -> None:
        self._pod.cut()

    def heal(self) -> None:
        self._pod.mend()


class ContainerPlace:
    """`networks`: the cloud, and that from which the demo looks at pods."""

    def __init__(
        self,
        docker_lab: DockerLab,
        images: Mapping[str, str],
        *,
        plane: ApiServer,
        networks: tuple[Network, Network],
    ) -> None:
        self.plane = plane
        self._lab = docker_lab
        self._images = images
        self._networks = networks
        # Whoever a main is, it may write there.
        self._ledgers = plane.folder / "ledgers"
        self._ledgers.mkdir()
        self._ledgers.chmod(0o777)

    @property
    def ledger(self) -> Path:
        return self._ledgers / "ledger"

    def pod(self, name: str, namespace: str, timing: Timing) -> PodParts:
        pod = self._pod(name)
        account = self._account(namespace, "elector", RULES)
        sidecar = [
            *(f"--server={self.plane.server}", f"--service-account-dir={account}"),
            *(f"--listen=127.0.0.1:{ELECTOR}", f"--probe-listen=0.0.0.0:{PROBES}"),
            *elector_flags(name, timing, main=f"http://127.0.0.1:{MAIN}"),
        ]
        main = [
            *("python3", "-c", MAIN_PROGRAM.read_text(encoding="utf-8")),
            *("--elector", f"http://127.0.0.1:{ELECTOR}"),
            *("--listen", f"0.0.0.0:{MAIN}", "--ledger", f"/ledgers/{self.ledger.name}"),
        ]
        ledgers = {str(self._ledgers): "/ledgers"}
        return PodParts(
            sidecar=ContainerProgram(
                lambda: pod.run(self._images["elector"], sidecar, files=[account])
            ),
            main=ContainerProgram(
                lambda: pod.run(self._lab.base, main, user="65532:65532", volumes=ledgers)
            ),
            link=PodLink(pod),
            host=pod.address,
            port=PROBES,
            main_port=MAIN,
        )

    def edge(self, namespace: str) -> EdgeParts:
        pod = self._pod("edge")
        account = self._account(namespace, "edge-relay", EDGE_RULES)
        relay = [
            *(f"--server={self.plane.server}", f"--service-account-dir={account}"),
            # Programs of the pod are answered, and the demo plays one of them through a door.
            *(f"--listen=127.0.0.1:{API}", f"--allowed-host={pod.address}"),
            *(f"--status-listen=0.0.0.0:{STATUS}", f"--data-dir={RELAY_DATA}"),
        ]
        forward_port(self._lab, f"container:{pod.pause.id}", pod.address, API)
        return EdgeParts(
            relay=ContainerProgram(
                lambda: pod.run(self._images["relay"], relay, files=[account], data=[RELAY_DATA])
            ),
            link=PodLink(pod),
            host=pod.address,
            port=API,
            status_port=STATUS,
        )

    def _pod(self, name: str) -> Pod:
        cloud, watched = self._networks
        return Pod(self._lab, name, watched=watched, cloud=cloud)

    def _account(self, namespace: str, name: str, rules: Sequence[Rule]) -> Path:
        path = self.plane.service_account_dir(namespace, name, rules).path
        # Kubelet gives the files of a projected token to the pod's group.
        for each in (path, *path.rglob("*")):
            each.chmod(0o755 if each.is_dir() else 0o644)
        return path


class ContainerBackend:
    """In an engine that has the images."""

    def __init__(
        self, docker_lab: DockerLab, images: Mapping[str, str], *, cluster: str, title: str
    ) -> None:
        self.title = title
        self._lab = docker_lab
        self._images = images
        self._cluster = cluster

    @contextmanager
    def open(self) -> Iterator[Environment]:
        """Raises NoEngine where its networks are another machine's."""
        cloud = Network(self._lab, f"edge-sidecars-cloud-{os.getpid()}")
        watched = Network(self._lab, f"edge-sidecars-watched-{os.getpid()}", is_closed=True)
        _check_near(cloud)
        with PLANES[self._cluster](self._lab, cloud, self._images) as plane:
            yield ContainerPlace(self._lab, self._images, plane=plane, networks=(cloud, watched))


@contextmanager
def container_backend(cluster: str, title: str) -> Iterator[ContainerBackend]:
    """Builds the images, unless they are there. Raises Unprepared."""
    try:
        with engine() as client:
            images = build_all(client, tag=release(), components=("elector", "relay"))
            with DockerLab(client, base=images["base"]) as docker_lab:
                yield ContainerBackend(
                    docker_lab, images, cluster=cluster, title=f"containers, {title}"
                )
    except (NoEngine, NoBase, NoWheels) as error:
        raise Unprepared(str(error)) from error
    except BuildError as error:
        raise Unprepared(f"{error}; make images tells more") from error


def _check_near(network: Network) -> None:
    """Raises NoEngine where pods cannot be watched from here."""
    with socket.socket() as own:
        try:
            own.bind((network.gateway, 0))
        except OSError as error:
            raise NoEngine(
                "the engine's networks are not this machine's (is it in a virtual machine, or "
                "remote?), so pods could not be watched: run the demo where the engine runs"
            ) from error
