"""One cluster of real nodes for all tests here; who breaks something in it heals it. It ends with
the last of them: three nodes keep a processor busy, also where nobody asks anything of them.
"""

from collections.abc import Iterator

import docker
import pytest

from tests.container.conftest import docker_engine
from tools.harness.containers.engine.lab import DockerLab
from tools.harness.controlplane.build import BuildError
from tools.harness.controlplane.fixtures import lack
from tools.harness.nodes.cluster import NodeCluster
from tools.harness.nodes.workloads import PodFacts
from tools.images.base import NoBase, base_image
from tools.images.wheels import NoWheels

__all__ = ["docker_engine"]


@pytest.fixture(scope="package")
def cluster(
    docker_engine: docker.DockerClient, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[NodeCluster]:
    """With relays installed, and workloads that answer."""
    try:
        with (
            DockerLab(docker_engine, base=base_image(docker_engine)) as docker_lab,
            NodeCluster(docker_engine, docker_lab, tmp_path_factory.mktemp("nodes")) as it,
        ):
            it.install_relays()
            it.apply_workloads()
            yield it
    except (BuildError, NoBase, NoWheels) as error:
        lack(str(error))


@pytest.fixture
def before(cluster: NodeCluster) -> Iterator[dict[str, PodFacts]]:
    """The pods of the workloads, all of which answer; after the test they are the same ones, and
    the nodes are Ready."""
    found = cluster.pods()
    assert not cluster.faults(found.values())
    yield found
    cluster.until(lambda: len(cluster.ready()) == len(cluster.nodes), what="all nodes are Ready")
    cluster.until(lambda: not cluster.faults(found.values()), what="all answer after the heal")
    # A pod may answer before its kubelet has told the control plane of it: a node that is cut off
    # in that moment keeps Services without it.
    cluster.until(cluster.is_up_to_date, what="the control plane knows what runs")
    cluster.until(lambda: _same(cluster.pods()) == _same(found), what="the same pods as before")


def _same(pods: dict[str, PodFacts]) -> dict[str, tuple[str, str, str]]:
    return {name: (it.uid, it.node, it.address) for name, it in pods.items()}
