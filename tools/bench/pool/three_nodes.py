"""Three nodes of a pool before a real API server, whose kubelets renew as often as real ones.

Guarantee: gaps between renewals are taken from the API server's audit log, not from looks at it.
"""

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pool_sidecar.core.controller.node_state import DEFAULT_POOL_LABEL
from pool_sidecar.core.pool_member import PATH
from tools.bench.pace import wait_for
from tools.bench.process import MIB
from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.clients import kubectl
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.reservation import Reservation
from tools.harness.pods.pools.controller import PoolControllerPod
from tools.harness.pods.pools.member import Kubelet, PoolNode

OVERLAY = Path(__file__).parents[3] / "manifests/overlays/pool"
NAMES = ("b1", "b2", "b3")
TIMEOUT = 120.0
POLL = 0.1
# Heartbeats over a lent link, so that the gaps between them count, too.
HEARTBEATS = 3


class SteadyKubelet(Kubelet):
    # Seconds, as kubelet's own: a quarter of nodeLeaseDurationSeconds.
    every = 10.0


@contextmanager
def pool_plane() -> Iterator[ControlPlane]:
    """As kubeadm has it, with overlays/pool applied."""
    with ControlPlane(has_nodes=True) as plane:
        kubectl.apply(plane, OVERLAY)
        yield plane


@contextmanager
def running_controller(plane: ControlPlane) -> Iterator[PoolControllerPod]:
    with PoolControllerPod(plane, plane.folder) as pod:
        yield pod.wait_leading()


class Site:
    """`nodes` run while it is entered; the controller of pools does, too."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._port = Reservation()
        self.nodes = [
            PoolNode(
                plane,
                name,
                address=f"127.0.81.{number}",
                lan_port=self._port.port,
                folder=plane.folder,
                labels={DEFAULT_POOL_LABEL: "bench"},
                kubelet=SteadyKubelet,
                # What passes over a lent link is the heartbeat alone.
                is_followed=False,
            )
            for number, name in enumerate(NAMES, 1)
        ]

    def __enter__(self) -> "Site":
        with ExitStack() as stack:
            stack.callback(self._port.release)
            for node in self.nodes:
                stack.enter_context(node)
            self.wait_well()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def restart(self) -> None:
        """Members find their certificates where the first life made them."""
        for node in self.nodes:
            node.member.kill()
            node.member.start()
        self.wait_well()

    def memory(self) -> list[float]:
        """Resident MiB of each member."""
        return [it.member.memory() / MIB for it in self.nodes]

    def wait_well(self) -> None:
        """Until all hear each other, and have said so."""
        _wait(lambda: all(self._is_well(it) for it in self.nodes), "all well")

    def _is_well(self, node: PoolNode) -> bool:
        told = node.member.status()
        alive = [it for it in told["peers"] if it["verdict"] == "Alive"]
        found = expect(self._plane.admin.get(f"{PATH}/{node.name}")).get("status", {})
        is_own = (told["link"], found.get("link")) == ("Own", "Own")
        return is_own and len(alive) == len(NAMES) - 1

    def cut(self, node: PoolNode, *, window: float) -> tuple[float, float]:
        """The longest time between two renewals when its link is cut, and the bytes a second that
        its lender passes on for it, over the window."""
        since = time.time()
        node.link.black_hole()
        self._wait_borrows(node, "")
        self._wait_heartbeats(node)
        gap = self.longest_gap(node.name, since)
        lender = self.lender(node)
        before, begun = int(lender.member.status()["lentBytes"]), time.monotonic()
        time.sleep(window)
        passed = int(lender.member.status()["lentBytes"]) - before
        return gap, passed / (time.monotonic() - begun)

    def kill_lender(self, node: PoolNode) -> float:
        """The longest time between two renewals when the lender's member is killed."""
        lender, since = self.lender(node), time.time()
        lender.member.kill()
        self._wait_borrows(node, lender.name)
        self._wait_heartbeats(node)
        gap = self.longest_gap(node.name, since)
        lender.member.start()
        return gap

    def lender(self, node: PoolNode) -> PoolNode:
        via = node.member.status()["via"]
        (found,) = [it for it in self.nodes if it.name == via]
        return found

    def longest_gap(self, name: str, since: float) -> float:
        """Seconds between two renewals, of which the later is not before `since`, or till now."""
        times = [*self._renewals(name), time.time()]
        return max(later - it for it, later in itertools.pairwise(times) if later >= since)

    def _renewals(self, name: str) -> Sequence[float]:
        events = self._plane.audit(resource="leases", namespace="kube-node-lease")
        return sorted(
            it.stage_at
            for it in events
            if it.name == name and it.verb in ("patch", "update") and it.status == 200
        )

    def _wait_borrows(self, node: PoolNode, former: str) -> None:
        _wait(lambda: node.member.status()["via"] not in ("", former), f"{node.name} borrows")

    def _wait_heartbeats(self, node: PoolNode) -> None:
        before = int(node.member.status()["heartbeats"])
        _wait(
            lambda: int(node.member.status()["heartbeats"]) >= before + HEARTBEATS,
            f"heartbeats of {node.name}",
        )


def _wait(is_so: Callable[[], bool], what: str) -> None:
    wait_for(is_so, timeout=TIMEOUT, what=what, interval=POLL)
