"""A control plane for what would disturb others: cluster-wide objects, and the real controllers."""

from collections.abc import Iterator

import pytest

from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.controller_manager import ControllerManager
from tools.harness.controlplane.fixtures import require_program


@pytest.fixture(scope="package")
def own_plane() -> Iterator[ControlPlane]:
    for name in ("kube-apiserver", "etcd", "kube-controller-manager"):
        require_program(name)
    with ControlPlane() as plane, ControllerManager(plane):
        yield plane
