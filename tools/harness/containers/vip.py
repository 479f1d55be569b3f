"""Pods that share a virtual address: in each an elector, a main and keepalived, as containers.

The address is in a network of its own (edge), in which a client asks for it; the electors reach the
API server through another one (cloud), and tests look at them through a third, which no fault
touches. keepalived runs as the shipped component has it, from the shipped Dockerfile.
"""

import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from docker.models.containers import Container

from tools.harness.containers.control_plane import control_plane
from tools.harness.containers.elector import ElectorContainer
from tools.harness.containers.engine.engine import engine
from tools.harness.containers.engine.lab import DockerLab
from tools.harness.containers.networks.network import Network
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.fleet import LEASE
from tools.harness.pods.observers.observer import Observer, wait_for
from tools.images.__main__ import build_all
from tools.images.keepalived import keepalived_image
from tools.nemesis.vip.faults import pair
from tools.nemesis.vip.nemesis import Fault
from tools.nemesis.vip.node_observer import NodeObserver

SCRIPTS = Path(__file__).parents[2] / "nemesis" / "vip"
LEASE_DURATION = 6.0
TIMING = ("--lease-duration=6s", "--renew-interval=1s", "--request-timeout=2s")
MAIN_PORT = 8081
# Not a release's: what is tested may be anything.
TAG = "test"
# Networks are plugged in this order: the tests', the cloud, the edge. Only the cloud's comes back
# under another name after it was out.
EDGE_INTERFACE = "eth2"
CLIENT_INTERFACE = "eth0"
# As manifests/keepalived/container/pod.yaml has them.
RIGHTS = ["NET_ADMIN", "NET_RAW", "SETGID"]
# In a pod's network: takes an interface down or up (linux/if.h, linux/sockios.h).
SET_LINK = """
import fcntl, socket, struct, sys
name, up = sys.argv[1].encode(), sys.argv[2] == "up"
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
    flags = struct.unpack_from("16sH", fcntl.ioctl(s, 0x8913, struct.pack("16sH14x", name, 0)))[1]
    fcntl.ioctl(s, 0x8914, struct.pack("16sH14x", name, flags | 1 if up else flags & ~1))
"""


class ContainerLines:
    """What a container prints, one JSON document a line, read while it runs."""

    def __init__(self, container: Container) -> None:
        self._container = container
        self._lock = threading.Lock()
        self._lines: list[dict[str, Any]] = []
        threading.Thread(target=self._read, name="lines", daemon=True).start()
        wait_for(lambda: bool(self.so_far()), timeout=60, what="a first line", interval=0.1)

    def so_far(self) -> list[dict[str, Any]]:
        with self._lock:
            return list(self._lines)

    def _read(self) -> None:
        rest = b""
        for chunk in self._container.logs(stream=True, follow=True):
            *whole, rest = (rest + chunk).split(b"\n")
            with self._lock:
                self._lines += [json.loads(line) for line in whole]


@dataclass(frozen=True)
class VipPod:
    name: str
    elector: ElectorContainer
    main: Container
    # Has the pod's network, and the right to set its interfaces.
    watch: Container

    def set_edge(self, state: str) -> None:
        code, output = self.watch.exec_run(["python3", "-c", SET_LINK, EDGE_INTERFACE, state])
        assert code == 0, output


class VipPods:
    """Running while it is entered."""

    def __init__(
        self,
        docker_lab: DockerLab,
        images: Mapping[str, str],
        *,
        plane: ControlPlane,
        namespace: str,
        networks: tuple[Network, Network],
        count: int,
    ) -> None:
        self._lab = docker_lab
        self._images = images
        self._plane = plane
        self._namespace = namespace
        self._networks = networks
        self._count = count
        self._stack = ExitStack()
        self.pods: list[VipPod] = []
        self.keepalived: dict[str, Container] = {}

    def __enter__(self) -> Self:
        metadata = {"name": LEASE, "namespace": self._namespace}
        body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}
        leases = f"/apis/coordination.k8s.io/v1/namespaces/{self._namespace}/leases"
        assert self._plane.admin.post(leases, body)[0] == 201
        with ExitStack() as stack:
            self._edge = Network(self._lab, f"edge-sidecars-edge-{self._namespace}")
            self.address = self._edge.new_address()
            for number in range(self._count):
                self.pods.append(self._add(stack, f"pod-{number}"))
            electors = [pod.elector for pod in self.pods]
            client = self._lab.start(
                self._images["base"],
                ["python3", "/vip/ask_network.py", CLIENT_INTERFACE, self.address],
                user="0:0",
                cap_add=["NET_RAW"],
                volumes=[f"{SCRIPTS}:/vip:ro"],
                **self._edge.settings(self._lab, self._edge.new_address()),
            )
            stack.callback(client.remove, force=True)
            self.node_observer = NodeObserver(
                electors,
                kernels={pod.name: ContainerLines(pod.watch) for pod in self.pods},
                client=ContainerLines(client),
                observer=stack.enter_context(Observer(electors, interval=0.05)),
            )
            # Whoever looks on is there first.
            for pod in self.pods:
                self.keepalived[pod.name] = self._start_keepalived(stack, pod)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _add(self, stack: ExitStack, name: str) -> VipPod:
        health = [f"--health-url=http://127.0.0.1:{MAIN_PORT}/", "--health-backoff=2s"]
        elector = ElectorContainer(
            self._lab,
            self._images["elector"],
            name,
            plane=self._plane,
            namespace=self._namespace,
            networks=self._networks,
            flags=[*TIMING, *health, "--release-on-term"],
        )
        stack.callback(elector.pod.remove)
        self._edge.plug(elector.pod.pause, self._edge.new_address())
        place = {"network_mode": f"container:{elector.pod.pause.id}"}
        base = self._images["base"]
        serve = ["python3", "-m", "http.server", str(MAIN_PORT), "--directory", "/vip"]
        main = self._lab.start(
            base, serve, user="65532:65532", volumes=[f"{SCRIPTS}:/vip:ro"], **place
        )
        watch = self._lab.start(
            base,
            ["python3", "/vip/watch_address.py", self.address],
            user="0:0",
            cap_add=["NET_ADMIN"],
            volumes=[f"{SCRIPTS}:/vip:ro"],
            **place,
        )
        for container in (main, watch):
            stack.callback(container.remove, force=True)
        return VipPod(name, elector, main, watch)

    def _start_keepalived(self, stack: ExitStack, pod: VipPod) -> Container:
        container = self._lab.start(
            self._images["keepalived"],
            [],
            cap_add=RIGHTS,
            environment={"VIRTUAL_IP": f"{self.address}/24", "INTERFACE": EDGE_INTERFACE},
            tmpfs={"/run": "size=1m"},
            network_mode=f"container:{pod.elector.pod.pause.id}",
        )
        stack.callback(container.remove, force=True)
        return container

    # ── what is done ──

    @property
    def names(self) -> Sequence[str]:
        return [each.name for each in self.pods]

    def log_text(self, name: str) -> str:
        containers = (self.pod(name).elector.container, self.keepalived[name])
        return "".join(each.logs().decode(errors="replace") for each in containers)

    def pod(self, name: str) -> VipPod:
        return next(each for each in self.pods if each.name == name)

    def settled(self) -> VipPod:
        return self.pod(self.node_observer.settled())

    def faults(self, name: str) -> Mapping[str, Mapping[str, Fault]]:
        pod = self.pod(name)
        elector, main = pod.elector, pod.main
        return {
            "main": {
                "gone": pair(main.kill, main.start),
                "frozen": _stopped(main),
            },
            "elector": {
                "killed": pair(elector.kill, elector.start),
                "frozen": _stopped(elector.container),
                "terminated": pair(elector.stop, elector.start),
            },
            # One at a time: interfaces keep their names then.
            "network": {
                "cloud unplugged": pair(elector.cut, elector.mend),
                "edge down": pair(lambda: pod.set_edge("down"), lambda: pod.set_edge("up")),
                "both": pair(
                    _both(elector.cut, lambda: pod.set_edge("down")),
                    _both(lambda: pod.set_edge("up"), elector.mend),
                ),
            },
        }


@contextmanager
def ground(count: int) -> Iterator[VipPods]:
    """Pods for whoever is no test: with an engine, images and a control plane of their own."""
    with ExitStack() as stack:
        client = stack.enter_context(engine())
        images = {**build_all(client, tag=TAG), "keepalived": keepalived_image(client, tag=TAG)}
        docker_lab = stack.enter_context(DockerLab(client, base=images["base"]))
        cloud = Network(docker_lab, f"edge-sidecars-vip-cloud-{os.getpid()}")
        watched = Network(docker_lab, f"edge-sidecars-vip-watched-{os.getpid()}", is_closed=True)
        plane = stack.enter_context(control_plane(docker_lab, cloud))
        pods = VipPods(
            docker_lab,
            images,
            plane=plane,
            namespace=plane.create_namespace("vip"),
            networks=(cloud, watched),
            count=count,
        )
        yield stack.enter_context(pods)


def _stopped(container: Container) -> Fault:
    """By signals: the engine's own pause fails now and then where processors are busy."""
    return pair(lambda: container.kill("SIGSTOP"), lambda: container.kill("SIGCONT"))


def _both(first: Callable[[], object], second: Callable[[], object]) -> Callable[[], None]:
    def steps() -> None:
        first()
        second()

    return steps
