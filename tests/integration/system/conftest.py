"""A control plane for systems: with Sedna's kinds and the real controllers, and nobody else's."""

from collections.abc import Iterator

import pytest

from tests.controlplane import sedna_kinds
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.controller_manager import ControllerManager
from tests.controlplane.fixtures import require_program


@pytest.fixture(scope="session")
def sedna_plane() -> Iterator[ControlPlane]:
    """Shared by all systems, each of which has its own namespace and nodes."""
    for name in ("kube-apiserver", "etcd", "kube-controller-manager"):
        require_program(name)
    with ControlPlane() as plane:
        sedna_kinds.install(plane)
        with ControllerManager(plane):
            yield plane
