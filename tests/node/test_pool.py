"""Nodes of a pool whose kubelet, kube-proxy and CoreDNS go through the relay of the node: one cut
off while its neighbour is not, one dead while all are cut off, all without power meanwhile."""

from collections.abc import Iterator
from typing import Any

import docker
import pytest

from tests.node.pool import NodePool
from tools.harness.controlplane.access.accounts import expect
from tools.harness.nodes import workloads
from tools.harness.nodes.cluster import NodeCluster
from tools.harness.nodes.workloads import NAMESPACE, PLAIN, RELAYED, PodFacts, on

Json = dict[str, Any]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
NODE, NEIGHBOUR = RELAYED
# Seconds; the control plane's grace for a node is 50.
CUT = 70.0
ALL_OF_WEB = "web-all"
LATE = "late"


@pytest.fixture(scope="module")
def pool(
    cluster: NodeCluster,
    docker_engine: docker.DockerClient,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[NodePool]:
    """With a Service that names each pod of `web`."""
    with NodePool(cluster, docker_engine, tmp_path_factory.mktemp("pool")) as it:
        named = workloads.service("web", name=ALL_OF_WEB, clusterIP="None")
        cluster.apply([named])
        yield it
        cluster.delete([named])


def test_a_node_that_is_cut_is_as_ever_in_the_cloud_over_its_neighbour(
    cluster: NodeCluster, pool: NodePool, before: dict[str, PodFacts]
) -> None:
    """Its pods stay, and one that the cloud starts there begins and ends."""
    containers, ready_since = cluster.containers(), _ready_since(cluster, NODE)
    node = cluster.nodes[NODE]
    with pool.cut(NODE):
        refused = node.refused()
        cluster.apply([workloads.pod(LATE, node=NODE)])
        took = cluster.seconds_until(lambda: LATE in cluster.pods())
        print(f"a pod has its address after {took:.1f} s")
        late = cluster.pods()[LATE]
        cluster.until(lambda: cluster.are_ready({**before, LATE: late}), what="it is Ready")
        cluster.holds(
            lambda: (
                NODE in cluster.ready()
                and not cluster.faults([*before.values(), late])
                and cluster.are_ready({**before, LATE: late})
            ),
            seconds=CUT,
        )
        cluster.kubectl.run("delete", "pod", LATE).expect()
        assert node.status()["link"]["via"] == NEIGHBOUR
        # A lender that gives too few connections shows here.
        assert node.refused() == refused
    assert _ready_since(cluster, NODE) == ready_since
    assert cluster.containers() == containers


def test_while_all_are_cut_nothing_leads_to_a_node_that_is_dead(
    cluster: NodeCluster, pool: NodePool, before: dict[str, PodFacts]
) -> None:
    """Though nobody changes the EndpointSlices; and it leads there again once the node is back."""
    node, dead = cluster.nodes[NODE], on(before, NEIGHBOUR, "web")
    theirs = [it for it in before.values() if it.node in RELAYED]
    name = f"{ALL_OF_WEB}.{NAMESPACE}.svc.cluster.local"
    everyone = {it.address for it in before.values() if it.name.startswith("web-")}

    def answering() -> set[str]:
        return workloads.answering(node.address, "web")

    def leads_to_the_living() -> bool:
        is_named = dead.address in node.named(name)
        return not is_named and answering() == {NODE, PLAIN}

    with cluster.cut(*RELAYED):
        cluster.until(lambda: node.named(name) == everyone, what="all are named")
        cluster.nodes[NEIGHBOUR].lose_power()
        try:
            took = cluster.seconds_until(leads_to_the_living)
            print(f"nothing leads there after {took:.1f} s")
            assert node.status()["endpointView"]["silentEndpoints"]
        finally:
            cluster.nodes[NEIGHBOUR].power_on()
        cluster.until(lambda: not cluster.faults(theirs, asked=RELAYED), what="its pods are back")
        cluster.until(lambda: node.named(name) == everyone, what="all are named again")
        cluster.until(lambda: NEIGHBOUR in answering(), what="the Service leads there")
        assert not node.status()["link"]["isUp"]
    cluster.until(pool.is_calm, what="the pool is as before")


def test_a_pool_without_power_while_cut_has_all_back_and_heals_without_a_dip(
    cluster: NodeCluster, pool: NodePool, before: dict[str, PodFacts]
) -> None:
    theirs = [it for it in before.values() if it.node in RELAYED]
    for name in RELAYED:
        cluster.until_doctor_finds_nothing(name)
    with cluster.cut(*RELAYED):
        took = cluster.reboot(*RELAYED, until=lambda: cluster.are_back(theirs))
        print(f"all back after {took:.1f} s")
        cluster.until(pool.hears_all, what="the members hear each other")
        assert all(not node.status()["link"]["isUp"] for node in cluster.relayed)
        assert PLAIN in cluster.ready()
        # The cloud misses both by now, or soon; it is to take them for unknown, and not for dead.
        cluster.until(lambda: not cluster.ready() & set(RELAYED), what="the cloud misses them")
        containers = cluster.containers()
    cluster.holds(lambda: not cluster.faults(theirs, asked=RELAYED), seconds=30)
    cluster.until(pool.is_calm, what="the pool is as before")
    assert cluster.containers() == containers


def _ready_since(cluster: NodeCluster, name: str) -> str:
    """When the node became Ready, as the control plane has it."""
    conditions = expect(cluster.plane.admin.get(f"/api/v1/nodes/{name}"))["status"]["conditions"]
    [found] = [it["lastTransitionTime"] for it in conditions if it["type"] == "Ready"]
    return str(found)
