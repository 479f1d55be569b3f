"""Three pods of containers elect a leader, and real faults happen to it.

An observer in another network polls each pod through every fault; at the end of each test, what
it saw is held to the promises, together with the API server's audit log.
"""

import time
from collections.abc import Iterator

import pytest

from tools.harness.containers.elector import ElectorContainer
from tools.harness.containers.engine.lab import DockerLab
from tools.harness.containers.networks.network import Network
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.fleet import FAST, FAST_DURATION, LEASE
from tools.harness.pods.observers.history import assert_backed, assert_polite, writes
from tools.harness.pods.observers.observer import Observer, wait_for, wait_for_leader

# Images are built, a control plane is started: for the first test that needs them.
pytestmark = [pytest.mark.long, pytest.mark.slow, pytest.mark.timeout(300, func_only=True)]
# Seconds until another one leads after a leader that is gone: its Lease has to end, and three
# Pythons and an API server share two processors with whatever else there is.
TAKEOVER = FAST_DURATION * 1.2 + 20


class Trio:
    """Three electors, and the one that leads."""

    def __init__(self, electors: list[ElectorContainer]) -> None:
        self.electors = electors

    def leader(self, *, other_than: ElectorContainer | None = None) -> ElectorContainer:
        """Waits for one."""
        there = [it for it in self.electors if it is not other_than]
        return wait_for_leader(there, timeout=TAKEOVER)


@pytest.fixture
def trio(
    docker_lab: DockerLab,
    images: dict[str, str],
    plane: ControlPlane,
    namespace: str,
    cloud: Network,
    watched: Network,
) -> Iterator[Trio]:
    body = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": LEASE, "namespace": namespace},
    }
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    assert plane.admin.post(leases, body)[0] == 201
    electors = [
        ElectorContainer(
            docker_lab,
            images["elector"],
            f"pod-{number}",
            plane=plane,
            namespace=namespace,
            networks=(cloud, watched),
            flags=FAST,
        )
        for number in range(3)
    ]
    with Observer(electors) as observer:
        yield Trio(electors)
    for elector in electors:
        elector.pod.remove()
    history = writes(plane, namespace, lease=LEASE)
    observer.assert_exclusive()
    assert_polite(history)
    assert_backed(observer.answers(), history, duration=FAST_DURATION)


def test_who_was_paused_for_longer_than_its_lease_does_not_lead_when_it_goes_on(
    trio: Trio,
) -> None:
    first = trio.leader()
    first.pause()
    try:
        second = trio.leader(other_than=first)
        time.sleep(FAST_DURATION)
    finally:
        first.unpause()
    wait_for(lambda: first.ask("/readyz") is not None, timeout=TAKEOVER, what="the first answers")
    assert not first.is_leader()
    assert trio.leader() is second


def test_who_is_cut_off_from_the_api_server_stops_leading_before_another_starts(
    trio: Trio,
) -> None:
    first = trio.leader()
    first.cut()
    try:
        second = trio.leader(other_than=first)
        answer = first.ask("/readyz")
        assert answer is not None
        assert answer.status == 503
    finally:
        first.mend()
    time.sleep(FAST_DURATION)
    assert trio.leader() is second
