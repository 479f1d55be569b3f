"""A few nodes that share a virtual address: on each an elector, a main and keepalived, all real.

keepalived runs on the node (its own network namespace) and asks its elector through a unix socket,
as on a host whose pod has a network of its own. The electors' way to the API server and the
node's cable can be broken, each by itself.
"""

import shutil
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.controlplane.cluster import ControlPlane
from tests.controlplane.proxy import FaultProxy
from tests.pods.elector import ElectorPod, boottime
from tests.pods.fleet import Fleet
from tests.pods.main import MainServer
from tests.pods.observer import Observer, wait_for
from tests.vip.keepalived import Keepalived
from tests.vip.lines import Lines
from tests.vip.network import INTERFACE, PREFIX, Network
from tests.vip.ownership import Finding, Spell, owners, seen_twice, shared, spells, unfounded

HERE = Path(__file__).parent
ADDRESS = "198.18.0.100"
CLIENT = "client"
# The shortest lease whose slack covers a slow renewal besides what the checks demand.
LEASE_DURATION = 6.0
TIMING = ("--lease-duration", "6s", "--renew-interval", "1s", "--request-timeout", "2s")
# keepalived.conf: CHECK_FALL x CHECK_INTERVAL + CHECK_TIMEOUT.
HOLD = 2.0
# Seconds by which an outsider on a busy machine sees a 200 too late.
SLACK = 0.5
# From nothing to an owner: electors and keepalived start, the hold, a check, three adverts.
SETTLE_TIMEOUT = 30.0


@dataclass(frozen=True)
class Node:
    name: str
    elector: ElectorPod
    main: MainServer
    link: FaultProxy
    keepalived: Keepalived


class Site:
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
            for node in self.nodes:
                node.elector.wait_listening()
            self.network.add(CLIENT)
            asking = ["python3", "-I", "-S", HERE / "ask_network.py", INTERFACE, ADDRESS]
            command = [*self.network.inside(CLIENT), *asking]
            self._client = stack.enter_context(Lines(command))
            self._observer = stack.enter_context(Observer(self.fleet.pods, interval=0.05))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
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
        keepalived.start()
        elector.start(wait=False)
        return Node(elector.name, elector, main, self.fleet.link(elector), keepalived)

    # ── what is seen ──

    def spells(self) -> list[Spell]:
        return spells({name: watch.so_far() for name, watch in self._watches.items()})

    def owners(self) -> list[str]:
        return owners(self.spells(), boottime())

    def answering(self) -> Sequence[str]:
        """Whose hardware address the client was told last."""
        told: list[str] = self._client.so_far()[-1]["owners"]
        return told

    def findings(self) -> list[Finding]:
        """All broken promises up to now."""
        found, answers = self.spells(), self._observer.answers()
        return [
            *shared(found),
            *seen_twice(self._client.so_far()),
            *unfounded(found, answers, hold=HOLD + SLACK),
        ]

    def node(self, name: str) -> Node:
        return next(each for each in self.nodes if each.name == name)

    def settled(self, *, timeout: float = SETTLE_TIMEOUT) -> Node:
        """The one that leads and owns the address, when the client sees so too."""

        def is_settled() -> bool:
            leaders = [each.name for each in self.nodes if _leads(each.elector)]
            return len(leaders) == 1 and leaders == self.owners() and len(self.answering()) == 1

        wait_for(is_settled, timeout=timeout, what="an owner that leads", interval=0.1)
        return self.node(self.owners()[0])

    def hand_over(self, old: Node, *, since: float, timeout: float) -> float:
        """Seconds from `since` until another node owned the address."""

        def another() -> list[Spell]:
            return [each for each in self.spells() if each.since > since and each.node != old.name]

        wait_for(lambda: bool(another()), timeout=timeout, what="another owner")
        return another()[0].since - since


def _leads(elector: ElectorPod) -> bool:
    return elector.is_running and elector.is_leader()
