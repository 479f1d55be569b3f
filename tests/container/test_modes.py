"""The images of GM, LC and their sidecars, in each mode: whoever fails, nothing is lost or doubled.

At the end of each test all that people made must be so as they made it, by the judges of the
integration tests; the witness saw whatever stood in the API in between.
"""

import os
from collections.abc import Iterator

import pytest

from tests.container.lab import Lab
from tests.container.network import Network
from tests.container.town import ContainerTown, Site
from tests.controlplane import sedna_kinds
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.controller_manager import ControllerManager
from tests.controlplane.fixtures import require_program
from tests.pods.system import MODES

# Images are built, a control plane is started: for the first test that needs them.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300, func_only=True)]
OBJECTS = 12


@pytest.fixture(scope="module")
def site(
    lab: Lab,
    images: dict[str, str],
    plane: ControlPlane,
    cloud: Network,
    watched: Network,
) -> Iterator[Site]:
    require_program("kube-controller-manager")
    sedna_kinds.install(plane)
    edge = Network(lab, f"edge-sidecars-edge-{os.getpid()}")
    with ControllerManager(plane):
        yield Site(lab, images, plane, cloud=cloud, edge=edge, watched=watched)


@pytest.fixture(scope="module", params=MODES)
def town(
    site: Site, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[ContainerTown]:
    """One for each mode; who breaks something in it heals it."""
    with ContainerTown(site, tmp_path_factory.mktemp("town"), mode=request.param) as it:
        yield it


def test_a_leader_whose_containers_are_killed_leaves_no_child_missing_and_none_twice(
    town: ContainerTown,
) -> None:
    town.workload.begin(OBJECTS)
    leader = town.leader()
    leader.kill()
    town.workload.begin(2 * OBJECTS)
    town.leader(other_than=leader)
    leader.start(wait=False)
    town.settled()
