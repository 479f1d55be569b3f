"""Candidates of a pool, as overlays/pool has them, and the rights by which nodes share streams."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.access.kubeconfig import write_kubeconfig
from tools.harness.controlplane.clients.kustomize import kustomize
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.reservation import LOOPBACK
from tools.harness.pods.elector import ElectorPod
from tools.harness.pods.pools.accounts import token_of_pod
from tools.harness.pods.pools.member import PoolNode

OVERLAY: Final = Path(__file__).parents[4] / "manifests/overlays/pool"
ACCOUNT, NAMESPACE = "pool-candidate", "edge-pool"
BINDING: Final = "nodes-as-proxies"
BINDINGS: Final = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
# As kube-proxy has it on the node, which kubeadm gives it by a ServiceAccount.
_PROXIES: Final = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": BINDING},
    "roleRef": {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "ClusterRole",
        "name": "system:node-proxier",
    },
    "subjects": [
        {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:nodes"}
    ],
}


def pool_candidate(
    plane: ControlPlane, node: PoolNode, lease_file: Path, port: int, folder: Path
) -> ElectorPod:
    """`lease_file`: where the node's member writes the Lease; `port`: where it asks the elector. To
    be started."""
    kubeconfig = write_kubeconfig(
        folder / f"candidate-{node.name}.kubeconfig",
        server=plane.server,
        ca=plane.ca_bundle.read_bytes(),
        credentials=token_of_pod(plane, ACCOUNT, node.name),
    )
    told = {it["name"]: it["value"] for it in _container()["env"] if "value" in it}
    member = f"http://{LOOPBACK}:{node.member.port}"
    return ElectorPod(
        node.name,
        "",
        [
            *("--lease-file", str(lease_file), "--listen", f"{LOOPBACK}:{port}"),
            *("--health-url", f"{member}/eligible", "--drain-url", f"{member}/drain"),
            *("--kubeconfig", str(kubeconfig)),
        ],
        environ={**told, "POD_NAME": f"{ACCOUNT}-{node.name}", "POD_NAMESPACE": NAMESPACE},
        guardian=plane.guardian,
    )


def _container() -> dict[str, Any]:
    """Of the DaemonSet."""
    for it in kustomize(OVERLAY):
        if (it["kind"], it["metadata"]["name"]) == ("DaemonSet", ACCOUNT):
            pod: dict[str, Any] = it["spec"]["template"]["spec"]
            containers: list[dict[str, Any]] = pod["containers"]
            return containers[0]
    raise LookupError(ACCOUNT)


@contextmanager
def nodes_as_proxies(plane: ControlPlane) -> Iterator[None]:
    """Nodes may read Services and EndpointSlices meanwhile."""
    expect(plane.admin.post(BINDINGS, _PROXIES))
    try:
        yield
    finally:
        plane.admin.delete(f"{BINDINGS}/{BINDING}")
