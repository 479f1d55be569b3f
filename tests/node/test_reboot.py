"""Nodes behind relays that lose their power while their link is cut."""

from collections.abc import Iterator

import pytest

from tools.harness.nodes import storage
from tools.harness.nodes.busy import spend_half_a_day
from tools.harness.nodes.cluster import NodeCluster
from tools.harness.nodes.workloads import PLAIN, RELAYED, PodFacts


@pytest.fixture
def with_volumes(cluster: NodeCluster) -> Iterator[None]:
    """A pod more on each node with a relay: with a claim on a CSI driver, and with a Secret and a
    ConfigMap that are immutable."""
    with cluster.more(storage.objects(RELAYED), pods=map(storage.pod_name, RELAYED)):
        yield


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_nodes_rebooted_while_cut_have_all_back_without_a_cloud(
    cluster: NodeCluster, with_volumes: None, before: dict[str, PodFacts]
) -> None:
    """After half a day of Events, and of what others read by name."""
    theirs = [it for it in before.values() if it.node in RELAYED]
    assert {storage.pod_name(it) for it in RELAYED} <= {it.name for it in theirs}
    spend_half_a_day(cluster)
    for name in RELAYED:
        cluster.until_doctor_finds_nothing(name)
    with cluster.cut(*RELAYED):
        took = cluster.reboot(*RELAYED, until=lambda: cluster.are_back(theirs))
        print(f"all back after {took:.1f} s")
        # Nobody in the cloud helped, and nobody there was disturbed.
        assert all(not node.status()["link"]["isUp"] for node in cluster.relayed)
        assert PLAIN in cluster.ready()
        tokens = [node.status()["tokens"] for node in cluster.relayed]
        assert all(tokens)
        refused = {(verb, what) for node in cluster.relayed for verb, what, _ in node.refused()}
        assert ("create", "serviceaccounts/token") not in refused
        containers = cluster.containers()
    cluster.until(lambda: cluster.ready() >= set(RELAYED), what="the nodes are Ready again")
    cluster.until(lambda: not cluster.faults(before.values()), what="all answer after the heal")
    # The heal itself restarts nothing.
    assert cluster.containers() == containers
