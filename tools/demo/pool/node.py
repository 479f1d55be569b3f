"""A node of the pool: member, relay, candidate and kubelet, its link, and what befalls it.

Guarantees: a node that is cut loses its link without a word to anybody; one that is killed answers
nobody any more, neither in the cloud nor at the site, as a machine that is off.
"""

from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from pool_sidecar.core.controller.node_state import DEFAULT_POOL_LABEL, MAY_LEAD_NODE_LABEL
from pool_sidecar.lan.host_signs import CLOSED_PORT
from tools.demo.pool.kubelet import NodeKubelet
from tools.demo.timing import Timing
from tools.harness.controlplane.access.kubeconfig import write_kubeconfig
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.reservation import LOOPBACK, Reservation
from tools.harness.pods.elector import ElectorPod
from tools.harness.pods.pools.accounts import token_of_pod
from tools.harness.pods.pools.controller import NAMESPACE
from tools.harness.pods.pools.member import PoolNode
from tools.harness.pods.wire.silent_address import SilentAddress

POOL_NAME = "factory-7"
ZONE = "topology.kubernetes.io/zone"
CANDIDATE = "pool-candidate"


class SiteNode:
    """Runs while it is entered. `may_lead`: whether it has a candidate for the pool's Lease."""

    def __init__(
        self,
        plane: ControlPlane,
        name: str,
        *,
        address: str,
        lan_port: int,
        timing: Timing,
        may_lead: bool,
    ) -> None:
        self.name = name
        self.is_cut = False
        self.is_killed = False
        self._plane = plane
        self._timing = timing
        self._lease_file = plane.folder / f"{name}.lease"
        self._elector_port = Reservation()
        self._silence: SilentAddress | None = None
        self.candidate: ElectorPod | None = None
        labels = {DEFAULT_POOL_LABEL: POOL_NAME, ZONE: "site", "kubernetes.io/hostname": name}
        flags = []
        if may_lead:
            labels[MAY_LEAD_NODE_LABEL] = "true"
            flags = [
                f"--lease-file={self._lease_file}",
                f"--elector=http://{LOOPBACK}:{self._elector_port.port}",
            ]
        self.pool_node = PoolNode(
            plane,
            name,
            address=address,
            lan_port=lan_port,
            folder=plane.folder,
            labels=labels,
            flags=flags,
            kubelet=NodeKubelet,
        )
        self._may_lead = may_lead

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.callback(self._elector_port.release)
            stack.enter_context(self.pool_node)
            if self._may_lead:
                self.candidate = self._make_candidate(self._plane.folder)
                stack.enter_context(self.candidate).start(wait=False)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if self._silence is not None:
            self._silence.close()
        self._stack.close()

    @property
    def is_heard(self) -> bool:
        """By the cloud, over its own link."""
        return not (self.is_cut or self.is_killed)

    @property
    def fallen(self) -> str:
        """What ended though nothing was done to it; "" for nothing."""
        if self.is_killed:
            return ""
        runs = {
            "pool-sidecar": self.pool_node.member.is_running,
            "relay": self.pool_node.relay.is_running,
            "candidate": self.candidate is None or self.candidate.is_running,
        }
        ended = (what for what, is_running in runs.items() if not is_running)
        return next((f"{self.name}: its {what}" for what in ended), "")

    def wan_bytes(self) -> int:
        """What went over its link, both ways."""
        traffic = self.pool_node.link.traffic()
        return traffic.request_bytes + traffic.response_bytes

    # ── what befalls it ──

    def cut(self) -> None:
        self.is_cut = True
        self.pool_node.link.black_hole()

    def kill(self) -> None:
        """Power off."""
        self.is_killed = True
        node = self.pool_node
        node.kubelet.is_well = False
        if self.candidate is not None:
            self.candidate.kill()
        node.member.kill()
        self._silence = SilentAddress(
            node.member.address, node.member.lan_port, datagrams=(CLOSED_PORT,)
        )
        node.relay.kill()
        node.link.black_hole()

    def heal(self) -> None:
        """The link is back, and the machine."""
        node = self.pool_node
        node.link.heal()
        self.is_cut = False
        if not self.is_killed:
            return
        if self._silence is not None:
            self._silence.close()
            self._silence = None
        node.relay.start(wait=False)
        node.member.start()
        if self.candidate is not None:
            self.candidate.start(wait=False)
        node.kubelet.is_well = True
        self.is_killed = False

    def _make_candidate(self, folder: Path) -> ElectorPod:
        """As overlays/pool has it: by the account of its pod on this node, over the node's link."""
        node = self.pool_node
        kubeconfig = write_kubeconfig(
            folder / f"{self.name}-candidate.kubeconfig",
            server=node.link.url,
            ca=self._plane.ca_bundle.read_bytes(),
            credentials=token_of_pod(self._plane, CANDIDATE, self.name),
            namespace=NAMESPACE,
        )
        member = f"http://{LOOPBACK}:{node.member.port}"
        return ElectorPod(
            self.name,
            "",
            [
                *("--lease-file", str(self._lease_file), "--kubeconfig", str(kubeconfig)),
                *("--listen", f"{LOOPBACK}:{self._elector_port.port}", *self._timing.flags()),
                *("--health-url", f"{member}/eligible", "--drain-url", f"{member}/drain"),
            ],
            environ={"POD_NAME": f"{CANDIDATE}-{self.name}", "POD_NAMESPACE": NAMESPACE},
            guardian=self._plane.guardian,
        )
