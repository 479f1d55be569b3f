"""A control plane as kubeadm has it, with overlays/pool applied, and the controllers that evict."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.manifests.typist import Typist
from tests.integration.pool.hall import Nodes, hall
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.controller_manager import ControllerManager
from tools.harness.controlplane.fixtures import require_program

MORE = (
    "node-lifecycle-controller",
    "taint-eviction-controller",
    "pod-garbage-collector-controller",
)
FLAGS = (
    "--node-monitor-grace-period=8s",
    "--node-monitor-period=1s",
    "--node-startup-grace-period=8s",
    # Else one node in ten seconds, and of a small zone that is mostly gone none.
    "--node-eviction-rate=10",
    "--secondary-node-eviction-rate=10",
    "--large-cluster-size-threshold=0",
)
APPLY = "kubectl apply --server-side --validate=strict -k edge-sidecars/manifests/overlays/pool"


@pytest.fixture(scope="package")
def pool_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    for name in ("kube-apiserver", "etcd", "kube-controller-manager", "kubectl"):
        require_program(name)
    with ControlPlane(has_nodes=True) as plane, ControllerManager(plane, more=MORE, flags=FLAGS):
        Typist(plane, tmp_path_factory.mktemp("typist")).type(APPLY)
        yield plane


@pytest.fixture
def nodes(pool_plane: ControlPlane, tmp_path: Path) -> Iterator[Nodes]:
    with hall(pool_plane, tmp_path) as found:
        yield found
