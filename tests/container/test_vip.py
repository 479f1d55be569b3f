"""A virtual address of real keepalived containers beside real elector containers.

That two pods never own it, and none that does not lead, is checked at the end of each test by the
fixture, over all that the kernels told, a client saw and an observer was answered.
"""

from collections.abc import Callable, Iterator, Mapping

import docker
import pytest

from tools.harness.containers.engine.lab import DockerLab
from tools.harness.containers.networks.network import Network
from tools.harness.containers.vip import LEASE_DURATION, RIGHTS, TAG, VipPod, VipPods
from tools.harness.controlplane.clients.answer import boottime
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.fixtures import lack
from tools.images.base import NoBase
from tools.images.keepalived import keepalived_image

# Images are built, a control plane is started: for the first test that needs them.
pytestmark = [pytest.mark.long, pytest.mark.slow, pytest.mark.timeout(300, func_only=True)]
# The issue's: elector killed, frozen or cut.
BY_EXPIRY = LEASE_DURATION + 4.0


@pytest.fixture(scope="session")
def vip_images(docker_engine: docker.DockerClient, images: dict[str, str]) -> Mapping[str, str]:
    try:
        return {**images, "keepalived": keepalived_image(docker_engine, tag=TAG)}
    except NoBase as error:
        lack(str(error))


@pytest.fixture(scope="module", params=[2, 3])
def running(
    request: pytest.FixtureRequest,
    docker_lab: DockerLab,
    vip_images: Mapping[str, str],
    plane: ControlPlane,
    cloud: Network,
    watched: Network,
) -> Iterator[VipPods]:
    """In one life: starting them takes longest."""
    namespace = plane.create_namespace("vip")
    networks = (cloud, watched)
    with VipPods(
        docker_lab,
        vip_images,
        plane=plane,
        namespace=namespace,
        networks=networks,
        count=request.param,
    ) as it:
        yield it


@pytest.fixture
def pods(running: VipPods) -> Iterator[VipPods]:
    """Who breaks something heals it."""
    yield running
    assert running.node_observer.findings() == []


def _terminate(pod: VipPod) -> None:
    pod.elector.container.kill("SIGTERM")


def _kill(pod: VipPod) -> None:
    pod.elector.container.kill()


def _freeze(pod: VipPod) -> None:
    pod.elector.pause()


def _cut(pod: VipPod) -> None:
    pod.elector.cut()


def test_the_address_goes_from_leader_to_leader_and_nowhere_else(
    pods: VipPods, record_property: Callable[[str, object], None]
) -> None:
    """Each fault of a leader's elector."""
    ends: list[tuple[Callable[[VipPod], None], Callable[[VipPod], None], float]] = [
        (_terminate, lambda pod: pod.elector.start(), LEASE_DURATION),
        (_kill, lambda pod: pod.elector.start(), BY_EXPIRY),
        (_freeze, lambda pod: pod.elector.unpause(), BY_EXPIRY),
        (_cut, lambda pod: pod.elector.mend(), BY_EXPIRY),
    ]
    for fault, heal, limit in ends:
        old = pods.settled()
        since = boottime()
        fault(old)
        took = pods.node_observer.hand_over(old.name, since=since, timeout=BY_EXPIRY + 10)
        print(f"{fault.__name__} of {len(pods.pods)}: {took:.2f}s")
        record_property(f"seconds{fault.__name__}", round(took, 2))
        heal(old)
        assert took < limit


@pytest.mark.parametrize(
    ("environment", "rights", "missing"),
    [
        ({}, RIGHTS, "VIRTUAL_IP"),
        ({"VIRTUAL_IP": "198.18.0.100/24"}, RIGHTS, "INTERFACE"),
        ({"VIRTUAL_IP": "198.18.0.100/24", "INTERFACE": "eth0; true"}, RIGHTS, "eth0; true"),
        (
            {"VIRTUAL_IP": "198.18.0.100/24", "INTERFACE": "eth0"},
            ["NET_ADMIN", "NET_RAW"],
            "SETGID",
        ),
        ({"VIRTUAL_IP": "198.18.0.100/24", "INTERFACE": "eth0"}, ["SETGID"], "NET_ADMIN"),
    ],
)
def test_keepalived_that_lacks_something_names_it_and_does_not_start(
    docker_lab: DockerLab,
    vip_images: Mapping[str, str],
    environment: dict[str, str],
    rights: list[str],
    missing: str,
) -> None:
    """Without SETGID it would take every check for passed, and own the address on every node."""
    container = docker_lab.start(
        vip_images["keepalived"],
        [],
        environment=environment,
        cap_add=rights,
        tmpfs={"/run": "size=1m"},
        network_mode="none",
    )
    try:
        assert container.wait(timeout=60)["StatusCode"] == 2
        assert missing in container.logs().decode().splitlines()[0]
    finally:
        container.remove(force=True)
