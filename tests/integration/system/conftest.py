"""A control plane for systems: with Sedna's kinds and the real controllers, and nobody else's."""

import functools
from collections.abc import Iterator

import pytest

from tests.integration.system.gm_cluster import EXAMPLES, GmCluster, plan_of
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.controller_manager import ControllerManager
from tools.harness.controlplane.fixtures import require_program
from tools.harness.controlplane.schemas import sedna_kinds
from tools.harness.pods.system import MODES, System
from tools.harness.system.workers import Workers


@pytest.fixture(scope="session")
def sedna_plane() -> Iterator[ControlPlane]:
    """Shared by all systems, each of which has its own namespace and nodes."""
    for name in ("kube-apiserver", "etcd", "kube-controller-manager"):
        require_program(name)
    with ControlPlane() as plane:
        sedna_kinds.install(plane)
        with ControllerManager(plane):
            yield plane


@pytest.fixture(scope="session", params=MODES)
def cluster(
    sedna_plane: ControlPlane,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Iterator[GmCluster]:
    """One for each mode; who breaks something in it heals it."""
    workers = Workers()
    with System(
        sedna_plane,
        tmp_path_factory.mktemp("cluster"),
        mode=request.param,
        gms=3,
        plan_of=functools.partial(plan_of, workers),
        image=EXAMPLES,
    ) as system:
        yield GmCluster(system, workers)
