"""Where the nemesis of pools plays: the real control plane and its controllers, a site of five
nodes that are one pool, two nodes outside of it, workloads, and the pools' controller.

Guarantee: whatever is done to it, it leaves no process and no network behind.
"""

import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from pool_sidecar.core.controller.node_state import DEFAULT_POOL_LABEL
from tools.harness.controlplane.access.accounts import RequestRefusedError, expect
from tools.harness.controlplane.api_server import STOP_TIMEOUT
from tools.harness.controlplane.clients import kubectl
from tools.harness.controlplane.clients.kept_client import KeptClient
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.controller_manager import ControllerManager
from tools.harness.controlplane.daemon import Daemon
from tools.harness.nodes import programs
from tools.harness.pods.observers.observer import wait_for
from tools.harness.pods.pools.accounts import node_tls
from tools.harness.pods.pools.controller import PoolControllerPod
from tools.nemesis.pool.kubelet import RENEW_EVERY, NodeAgent
from tools.nemesis.pool.network import SiteNetwork
from tools.nemesis.pool.node import POOL, PoolNode
from tools.nemesis.pool.objects import ZONE, condition
from tools.nemesis.pool.workloads import MANIFESTS

NAMES = ("n1", "n2", "n3", "n4", "n5")
MAY_LEAD = ("n1", "n2", "n3")
# With all nodes lost, the controller manager evicts nobody.
OUTSIDE = ("cloud-1", "cloud-2")
CONTROLLERS = (
    "node-lifecycle-controller",
    "taint-eviction-controller",
    "pod-garbage-collector-controller",
    "statefulset-controller",
    "endpointslice-controller",
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
OVERLAY = Path(__file__).parents[3] / "manifests/overlays/pool"
READY_TIMEOUT = 120.0
# Of a node, within a grace period.
RENEWALS = 6
# Seconds: for a label, while an API server may be away; between two tries.
MOVE_TIMEOUT, MOVE_INTERVAL = 120.0, 0.5
# Nodes may watch what kube-proxy watches on them.
_BINDING = {
    "metadata": {"name": "nemesis-watch"},
    "roleRef": {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "ClusterRole",
        "name": "system:node-proxier",
    },
    "subjects": [
        {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:nodes"}
    ],
}


class PoolTestbed:
    """`say` tells how far it is; `grace_period`: seconds without a renewal after which a node is
    Unknown, if not those of `flags`, which are the controller manager's; `manifests` as
    `workloads.MANIFESTS`."""

    def __init__(
        self,
        plane: ControlPlane,
        say: Callable[[str], None],
        *,
        flags: Sequence[str] = FLAGS,
        grace_period: float | None = None,
        manifests: Sequence[tuple[str, dict[str, Any]]] = MANIFESTS,
    ) -> None:
        self.plane = plane
        self._say = say
        self._flags, self._manifests = [*flags], manifests
        self._renew_every = RENEW_EVERY
        if grace_period is not None:
            self._flags += [f"--node-monitor-grace-period={grace_period:g}s"]
            self._renew_every = grace_period / RENEWALS
        self.nodes: dict[str, PoolNode] = {}
        self.network = SiteNetwork(NAMES)

    def __enter__(self) -> Self:
        plane = self.plane
        with ExitStack() as stack:
            stack.enter_context(self.network)
            self._say("applying manifests/overlays/pool, starting the controllers")
            kubectl.apply(plane, OVERLAY)
            expect(
                plane.admin.post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", _BINDING)
            )
            # Each with a name of its own in the audit log.
            flags = (*self._flags, "--use-service-account-credentials=true")
            self._controllers = stack.enter_context(
                ControllerManager(plane, more=CONTROLLERS, flags=flags)
            )
            self._start_scheduler(stack)
            self.controller = stack.enter_context(PoolControllerPod(plane, plane.folder))
            for name in OUTSIDE:
                self.start_outside(stack, name)
            self._say(f"starting {len(NAMES)} nodes")
            for number, name in enumerate(NAMES, 1):
                node = PoolNode(
                    plane,
                    self.network,
                    name,
                    number=number,
                    others=NAMES,
                    may_lead=name in MAY_LEAD,
                    kubelet_flags=[f"--renew-every={self._renew_every}"],
                )
                self.nodes[name] = stack.enter_context(node)
            # Before, all pods would be on those that are the first.
            wait_for(self.are_schedulable, timeout=READY_TIMEOUT, what="all nodes are Ready")
            self.namespace = plane.create_namespace("shop")
            for path, body in self._manifests:
                expect(plane.admin.post(path.format(namespace=self.namespace), body))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def move(self, name: str, pool: str = POOL) -> None:
        """Another label, as soon as the API server takes it."""
        body = {"metadata": {"labels": {DEFAULT_POOL_LABEL: pool}}}
        deadline = time.monotonic() + MOVE_TIMEOUT
        while True:
            try:
                expect(self.plane.admin.patch(f"/api/v1/nodes/{name}", body))
                return
            except (OSError, RequestRefusedError):
                # It may be away, or have just come.
                if time.monotonic() > deadline:
                    raise
                time.sleep(MOVE_INTERVAL)

    def check_running(self) -> None:
        """Raises ChildProcessError where one of Kubernetes' own controllers has ended."""
        self._controllers.check_running()
        self._scheduler.check_running()

    def logs(self) -> Mapping[str, str]:
        """Of our own processes, in all their lives."""
        found = {"controller": self.controller.controller.log_text(all_lives=True)}
        for name, node in self.nodes.items():
            found[f"{name} member"] = node.member.log_text(all_lives=True)
            found[f"{name} relay"] = node.relay.log_text(all_lives=True)
        return found

    def start_outside(self, stack: ExitStack, name: str) -> None:
        """A node that is in no pool; it says nothing more from when `stack` is closed."""
        labels = {ZONE: "cloud", "kubernetes.io/hostname": name}
        body: dict[str, Any] = {"metadata": {"name": name, "labels": labels}}
        expect(self.plane.admin.post("/api/v1/nodes", body))
        client = KeptClient(self.plane.host, self.plane.port, node_tls(self.plane, name))
        agent = NodeAgent(name, client, number=100, renew_every=self._renew_every)
        ended = threading.Event()
        thread = threading.Thread(target=agent.run, args=(ended,), name=name, daemon=True)
        thread.start()
        stack.callback(thread.join)
        stack.callback(ended.set)

    def are_schedulable(self) -> bool:
        """All nodes take pods."""
        nodes = expect(self.plane.admin.get("/api/v1/nodes"))["items"]
        return all(
            condition(it, "Ready") == "True" and not it["spec"].get("taints") for it in nodes
        )

    # ── how it is made ──

    def _start_scheduler(self, stack: ExitStack) -> None:
        kubeconfig = self.plane.admin_kubeconfig()
        self._scheduler = Daemon(
            [
                str(programs.kube_scheduler()),
                *(f"--{it}={kubeconfig}" for it in ("kubeconfig", "authentication-kubeconfig")),
                f"--authorization-kubeconfig={kubeconfig}",
                "--leader-elect=false",
                "--secure-port=0",
            ],
            log=self.plane.folder / "kube-scheduler.log",
            guardian=self.plane.guardian,
        )
        self._scheduler.start()
        stack.callback(self._scheduler.stop, signal.SIGTERM, timeout=STOP_TIMEOUT)
