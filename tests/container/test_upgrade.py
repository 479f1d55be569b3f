"""From one build of the images to another, pod by pod: one leads at a time, and all words arrive.

The earlier build is that of another commit, where the checkout has it (earlier.py says which).
"""

import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import docker
import pytest

from tests.container.cluster import ClusterNetwork, ContainerCluster
from tests.container.earlier_release import build_earlier
from tests.container.gm import PROBES, GmContainers
from tools.harness.containers.elector import ElectorContainer
from tools.harness.containers.engine.lab import DockerLab
from tools.harness.containers.networks.network import Network
from tools.harness.containers.program import merged
from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.clients.answer import Answer
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.controller_manager import ControllerManager
from tools.harness.controlplane.fixtures import require_program
from tools.harness.controlplane.schemas import sedna_kinds
from tools.harness.pods.fleet import LEASE
from tools.harness.pods.observers.history import Write, assert_backed, assert_polite, writes
from tools.harness.pods.observers.observer import Observer, wait_for_leader
from tools.harness.pods.system import ACTIVE_STANDBY

# Two builds of the images, a control plane: for the first test that needs them.
pytestmark = [pytest.mark.long, pytest.mark.slow, pytest.mark.timeout(300, func_only=True)]
# Longer than a busy machine lets anybody wait, so that who loses its Lease has given it back; and
# nobody is to wait for its end.
LEASE_DURATION = 20.0
TIMING = {"LEASE_DURATION": "20s", "RENEW_INTERVAL": "1s", "REQUEST_TIMEOUT": "4s"}
FLAGS = [f"--{name.lower().replace('_', '-')}={value}" for name, value in TIMING.items()]
# Seconds until somebody leads, on a busy machine.
ELECTION = LEASE_DURATION * 1.2 + 40
# What people make at a time.
OBJECTS = 12

Images = dict[str, str]


class Replica:
    """One of several electors, as a Deployment has them: replaced by a new pod, of another name on
    the network."""

    def __init__(self, make: Callable[[], ElectorContainer]) -> None:
        self._there = make()

    def replace(self, make: Callable[[], ElectorContainer]) -> None:
        """Returns when the new one contends."""
        assert self._there.stop() == 0
        self._there.pod.remove()
        self._there = make()

    @property
    def name(self) -> str:
        return self._there.name

    @property
    def identity(self) -> str:
        return self._there.identity

    @property
    def is_running(self) -> bool:
        return self._there.is_running

    @property
    def port(self) -> int:
        return self._there.port

    def ask(self, path: str) -> Answer | None:
        return self._there.ask(path)

    def is_leader(self) -> bool:
        return self._there.is_leader()


class GmElector:
    """Of a GM's pod, as an observer takes it."""

    port = PROBES
    is_running = True
    # Nobody asks which of a pod's processes it was.
    identity = ""

    def __init__(self, gm: GmContainers) -> None:
        self.name = gm.name
        self._gm = gm

    def ask(self, path: str) -> Answer | None:
        return self._gm.elector_says(path)

    def is_leader(self) -> bool:
        answer = self.ask("/readyz")
        return answer is not None and answer.status == 200


@pytest.fixture(scope="module")
def earlier(
    docker_engine: docker.DockerClient, images: Images, tmp_path_factory: pytest.TempPathFactory
) -> Images:
    built = build_earlier(
        docker_engine, tmp_path_factory.mktemp("earlier"), base=images["base"], tag="test-earlier"
    )
    for component in built.keys() - {"base"}:
        ids = {docker_engine.images.get(it[component]).id for it in (built, images)}
        assert len(ids) == 2, f"{component}: both builds are the same"
    return built


@pytest.fixture
def place(
    docker_lab: DockerLab, plane: ControlPlane, namespace: str, cloud: Network, watched: Network
) -> Callable[[str, str], ElectorContainer]:
    """Makes an elector of an image, in a pod of that name."""

    def make(image: str, name: str) -> ElectorContainer:
        return ElectorContainer(
            docker_lab,
            image,
            name,
            plane=plane,
            namespace=namespace,
            networks=(cloud, watched),
            flags=[*FLAGS, "--release-on-term"],
        )

    return make


@pytest.fixture(scope="module")
def earlier_network(
    docker_lab: DockerLab, earlier: Images, plane: ControlPlane, cloud: Network, watched: Network
) -> Iterator[ClusterNetwork]:
    require_program("kube-controller-manager")
    sedna_kinds.install(plane)
    edge = Network(docker_lab, f"edge-sidecars-upgraded-edge-{os.getpid()}")
    with ControllerManager(plane):
        cluster_network = ClusterNetwork(
            docker_lab, earlier, plane, cloud=cloud, edge=edge, watched=watched
        )
        timing = {f"ELECTOR_{name}": value for name, value in TIMING.items()}
        cluster_network.variables = merged(cluster_network.variables, {"elector": timing})
        yield cluster_network


@pytest.mark.parametrize("is_back", [False, True], ids=["upgrade", "roll back"])
def test_electors_are_replaced_pod_by_pod_and_each_leader_hands_over(
    place: Callable[[str, str], ElectorContainer],
    images: Images,
    earlier: Images,
    plane: ControlPlane,
    namespace: str,
    is_back: bool,
) -> None:
    old, new = (images, earlier) if is_back else (earlier, images)
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": LEASE}}
    expect(plane.admin.post(f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases", lease))
    numbers = itertools.count()

    def made_of(build: Images) -> ElectorContainer:
        return place(build["elector"], f"pod-{next(numbers)}")

    replicas = [Replica(lambda: made_of(old)) for _ in range(3)]
    with Observer(replicas) as observer:
        waiting = list(replicas)
        while waiting:
            # The leader first, so that old ones hand over to old ones and to new ones.
            leader = wait_for_leader(replicas, timeout=ELECTION)
            replica = leader if leader in waiting else waiting[0]
            waiting.remove(replica)
            replica.replace(lambda: made_of(new))
        wait_for_leader(replicas, timeout=ELECTION)
    history = writes(plane, namespace, lease=LEASE)
    observer.assert_exclusive()
    assert_polite(history)
    assert_backed(observer.answers(), history, duration=LEASE_DURATION)
    assert _changes(history)
    _assert_handed_over(history)


def test_gms_and_lcs_are_replaced_pod_by_pod_and_no_report_is_lost(
    earlier_network: ClusterNetwork, images: Images, plane: ControlPlane, tmp_path: Path
) -> None:
    """In the mode in which both builds speak to each other: over GM's stream."""
    with ContainerCluster(earlier_network, tmp_path, mode=ACTIVE_STANDBY) as cluster:
        with Observer([GmElector(it) for it in cluster.gms]) as observer:
            _make_more(cluster)
            waiting = list(cluster.gms)
            while waiting:
                leader = cluster.leader()
                gm = leader if leader in waiting else waiting[0]
                waiting.remove(gm)
                gm.replace(images)
                _make_more(cluster)
                gm.wait_ready()
            for name, edge in cluster.edges.items():
                # Workers go on with their words meanwhile.
                cluster.workload.append_on(name)
                edge.replace(images)
                edge.lc.wait_ready()
            cluster.settled()
        observer.assert_exclusive()
        _assert_handed_over(writes(plane, cluster.namespace, lease="gm"))


def _make_more(cluster: ContainerCluster) -> None:
    cluster.workload.begin(cluster.workload.objects + OBJECTS)


def _changes(history: Sequence[Write]) -> list[tuple[str, str]]:
    """From whom to whom the Lease went, "" included."""
    holders = [write.holder for write in history]
    return [(old, new) for old, new in itertools.pairwise(holders) if old != new]


def _assert_handed_over(history: Sequence[Write]) -> None:
    """Nobody had to wait until a Lease was over: whoever had it gave it back before."""
    taken = [(old, new) for old, new in _changes(history) if old and new]
    assert not taken, f"not given back: {taken}"
