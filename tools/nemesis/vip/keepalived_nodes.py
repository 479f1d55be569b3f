"""A few nodes that share a virtual address: on each an elector, a main and keepalived, all real.

keepalived runs on the node (its own network namespace) and asks its elector through a unix socket,
as on a host whose pod has a network of its own. The electors' way to the API server and the
node's cable can be broken, each by itself.
"""

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.fault_proxy.proxy import FaultProxy
from tools.harness.pods.elector import ElectorPod
from tools.harness.pods.fleet import Fleet
from tools.harness.pods.main import MainServer
from tools.harness.pods.observers.observer import Observer
from tools.nemesis.vip.faults import faults
from tools.nemesis.vip.keepalived import Keepalived
from tools.nemesis.vip.lines import Lines
from tools.nemesis.vip.nemesis import Fault
from tools.nemesis.vip.network import INTERFACE, PREFIX, Network
from tools.nemesis.vip.node_observer import NodeObserver

HERE = Path(__file__).parent
ADDRESS = "198.18.0.100"
CLIENT = "client"
# The shortest lease whose slack covers a slow renewal besides what the checks demand.
LEASE_DURATION = 6.0
TIMING = ("--lease-duration", "6s", "--renew-interval", "1s", "--request-timeout", "2s")


@dataclass(frozen=True)
class Node:
    name: str
    elector: ElectorPod
    main: MainServer
    link: FaultProxy
    keepalived: Keepalived


class VipTestbed:
    """Running while it is entered; all names are those of the electors' pods."""

    def __init__(self, plane: ControlPlane, namespace: str, *, nodes: int = 2) -> None:
        self.fleet = Fleet(plane, namespace)
        self.network = Network()
        self.nodes: list[Node] = []
        self._plane = plane
        self._count = nodes
        self._watches: dict[str, Lines] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self.network)
            stack.enter_context(self.fleet)
            self._folder = Path(tempfile.mkdtemp(prefix="vip-"))
            stack.callback(shutil.rmtree, self._folder)
            self.fleet.create_empty_lease()
            for _ in range(self._count):
                self.nodes.append(self._add(stack))
            self.network.add(CLIENT)
            asking = ["python3", "-I", "-S", HERE / "ask_network.py", INTERFACE, ADDRESS]
            command = [*self.network.inside(CLIENT), *asking]
            self.node_observer = NodeObserver(
                self.fleet.pods,
                kernels=self._watches,
                client=stack.enter_context(Lines(command)),
                observer=stack.enter_context(Observer(self.fleet.pods, interval=0.05)),
            )
            # Whoever looks on is there first.
            for node in self.nodes:
                node.keepalived.start()
                node.elector.start(wait=False)
            for node in self.nodes:
                node.elector.wait_listening()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _add(self, stack: ExitStack) -> Node:
        main = stack.enter_context(MainServer())
        socket = f"unix:{self._folder / f'{len(self.nodes)}.sock'}"
        health = ["--health-url", f"{main.url}/healthz", "--health-backoff", "2s"]
        # Both: the observer asks over TCP.
        listen = ["--listen", "127.0.0.1:0", "--http", socket]
        elector = self.fleet.add(*listen, *health, "--release-on-term", timing=TIMING, start=False)
        self.network.add(elector.name)
        inside = self.network.inside(elector.name)
        command = [*inside, "python3", "-I", "-S", HERE / "watch_address.py", ADDRESS]
        self._watches[elector.name] = stack.enter_context(Lines(command))
        values = {"VIRTUAL_IP": f"{ADDRESS}/{PREFIX}", "INTERFACE": INTERFACE, "ELECTOR": socket}
        keepalived = Keepalived(inside, values, guardian=self._plane.guardian)
        stack.enter_context(keepalived)
        return Node(elector.name, elector, main, self.fleet.link(elector), keepalived)

    # ── what a nemesis does ──

    @property
    def names(self) -> Sequence[str]:
        return [each.name for each in self.nodes]

    def faults(self, name: str) -> Mapping[str, Mapping[str, Fault]]:
        node = self.node(name)
        return faults(name, node.elector, node.main, node.link, self.network)

    def log_text(self, name: str) -> str:
        node = self.node(name)
        return node.elector.log_text() + node.keepalived.log_text()

    def node(self, name: str) -> Node:
        return next(each for each in self.nodes if each.name == name)

    def settled(self) -> Node:
        return self.node(self.node_observer.settled())
