"""A site as a pool, and what is in the cloud: the controllers that evict, the controller of pools
with all objects of its overlay, and two nodes outside of the pool.

Guarantees: all of it ends with it; durations are kept short by flags of kube-controller-manager
alone, so that pool-sidecar runs as it does anywhere.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from tools.demo.environment import TAIL
from tools.demo.pool.kubelet import NodeKubelet
from tools.demo.pool.node import ZONE, SiteNode
from tools.demo.timing import Timing
from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.clients import kubectl
from tools.harness.controlplane.clients.kept_client import KeptClient
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.controller_manager import ControllerManager
from tools.harness.controlplane.reservation import Reservation
from tools.harness.pods.pools.accounts import node_tls
from tools.harness.pods.pools.controller import PoolControllerPod

OVERLAY = Path(__file__).parents[3] / "manifests/overlays/pool"
NAMES = ("n1", "n2", "n3")
MAY_LEAD = ("n1", "n2")
# With all nodes lost, the controller manager evicts nobody.
OUTSIDE = ("cloud-1", "cloud-2")
CONTROLLERS = (
    "node-lifecycle-controller",
    "taint-eviction-controller",
    "pod-garbage-collector-controller",
)
FLAGS = (
    # Kubernetes' own is 50s; a node that borrows a link renews its Lease within 20.
    "--node-monitor-grace-period=30s",
    "--node-startup-grace-period=30s",
    "--node-monitor-period=1s",
    # Else one node in ten seconds, and of a small zone that is mostly gone none.
    "--node-eviction-rate=10",
    "--secondary-node-eviction-rate=10",
    "--large-cluster-size-threshold=0",
)


class Site:
    """`nodes`: of the pool, by name. Starts as a context manager; `say` tells how far it is."""

    def __init__(self, plane: ControlPlane, timing: Timing, say: Callable[[str], None]) -> None:
        self.plane = plane
        self._say = say
        self._lan_port = Reservation()
        self.nodes = {
            name: SiteNode(
                plane,
                name,
                # Of this machine's loopback, another one for each node.
                address=f"127.0.78.{number}",
                lan_port=self._lan_port.port,
                timing=timing,
                may_lead=name in MAY_LEAD,
            )
            for number, name in enumerate(NAMES, 1)
        }
        self._outside = [
            NodeKubelet(name, KeptClient(plane.host, plane.port, node_tls(plane, name)))
            for name in OUTSIDE
        ]
        self._controller_manager = ControllerManager(plane, more=CONTROLLERS, flags=FLAGS)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.callback(self._lan_port.release)
            self._say("applying manifests/overlays/pool, starting the controllers")
            kubectl.apply(self.plane, OVERLAY)
            stack.enter_context(self._controller_manager)
            self.controller = stack.enter_context(PoolControllerPod(self.plane, self.plane.folder))
            self._say(f"starting {len(NAMES)} nodes, and {len(OUTSIDE)} outside of the pool")
            for kubelet in self._outside:
                labels = {ZONE: "cloud", "kubernetes.io/hostname": kubelet.node}
                body = {"metadata": {"name": kubelet.node, "labels": labels}}
                expect(self.plane.admin.post("/api/v1/nodes", body))
                kubelet.start()
                stack.callback(kubelet.stop)
            for node in self.nodes.values():
                stack.enter_context(node)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._stack.close()

    @property
    def living(self) -> Sequence[SiteNode]:
        return [it for it in self.nodes.values() if not it.is_killed]

    @property
    def heard(self) -> Sequence[SiteNode]:
        """Those with a link of their own."""
        return [it for it in self.nodes.values() if it.is_heard]

    def fallen(self) -> str:
        """What ended though nothing was done to it; "" for nothing."""
        if not self.controller.controller.is_running:
            return "the controller of pools"
        if not self.controller.elector.is_running:
            return "the elector of the controller of pools"
        return next((it.fallen for it in self.nodes.values() if it.fallen), "")

    def log_tails(self) -> dict[str, Sequence[str]]:
        """The last lines of who decides, by name."""
        texts = {name: it.pool_node.member.log_text() for name, it in self.nodes.items()}
        texts["controller"] = self.controller.controller.log_text()
        return {name: text.splitlines()[-TAIL:] for name, text in texts.items()}
