"""The images of GM, LC and their sidecars, in each mode: whoever fails, nothing is lost or doubled.

At the end of each test all that people made must be so as they made it, by the judges of the
integration tests; the observer saw whatever stood in the API in between.
"""

import os
from collections.abc import Iterator

import pytest

from tests.container.cluster import ClusterNetwork, ContainerCluster
from tools.harness.containers.edge import Lc
from tools.harness.containers.engine.lab import DockerLab
from tools.harness.containers.networks.network import Network
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.controller_manager import ControllerManager
from tools.harness.controlplane.fixtures import require_program
from tools.harness.controlplane.schemas import sedna_kinds
from tools.harness.pods.system import MODES

# Images are built, a control plane is started: for the first test that needs them.
pytestmark = [pytest.mark.long, pytest.mark.slow, pytest.mark.timeout(300, func_only=True)]
# What people make at a time: datasets of both nodes, and jobs whose workers learn together.
OBJECTS = 12


@pytest.fixture(scope="module")
def cluster_network(
    docker_lab: DockerLab,
    images: dict[str, str],
    plane: ControlPlane,
    cloud: Network,
    watched: Network,
) -> Iterator[ClusterNetwork]:
    require_program("kube-controller-manager")
    sedna_kinds.install(plane)
    edge = Network(docker_lab, f"edge-sidecars-edge-{os.getpid()}")
    with ControllerManager(plane):
        yield ClusterNetwork(docker_lab, images, plane, cloud=cloud, edge=edge, watched=watched)


@pytest.fixture(scope="module", params=MODES)
def cluster(
    cluster_network: ClusterNetwork,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Iterator[ContainerCluster]:
    """One for each mode; who breaks something in it heals it."""
    with ContainerCluster(
        cluster_network, tmp_path_factory.mktemp("cluster"), mode=request.param
    ) as it:
        yield it


def test_a_leader_whose_containers_are_killed_leaves_no_child_missing_and_none_twice(
    cluster: ContainerCluster,
) -> None:
    _make_more(cluster)
    leader = cluster.leader()
    leader.kill()
    _make_more(cluster)
    cluster.leader(other_than=leader)
    leader.start(wait=False)
    cluster.settled()


def test_a_node_that_restarts_while_its_packets_vanish_answers_workers_and_tells_it_all_later(
    cluster: ContainerCluster,
) -> None:
    edge = cluster.edges["edge-a"]
    _make_more(cluster)
    service = cluster.workload.new_service_on("edge-a")
    _wait_for_words(cluster, service)
    cluster.settled()
    known = _uids(edge.lc)
    edge.cut(is_silent=True)
    cluster.kubelet.cut(edge.name)
    edge.restart()
    edge.lc.wait_ready()
    assert _uids(edge.lc) == known
    _wait_for_words(cluster, service)
    assert cluster.workload.append_on("edge-a")
    edge.lc.until(lambda it: it["reports"]["waiting"], what="keep what it was told")
    assert not edge.lc.status()["link"]["isUp"]
    # Others go on.
    _make_more(cluster)
    edge.heal()
    cluster.kubelet.heal(edge.name)
    cluster.settled()


def _make_more(cluster: ContainerCluster) -> None:
    cluster.workload.begin(cluster.workload.objects + OBJECTS)


def _wait_for_words(cluster: ContainerCluster, service: str) -> None:
    """LC has taken another one from a worker of that service."""
    before = cluster.workers.last_of(service)
    cluster.until(lambda: cluster.workers.last_of(service) != before, what=f"{service} is heard")


def _uids(lc: Lc) -> list[str]:
    return [it["uid"] for it in lc.ask("/sedna/objects").json()["objects"]]
