"""A node whose kubelet renews its certificate, or cannot since its link is cut."""

import datetime
import time
from collections.abc import Iterator

import pytest

from tools.harness.nodes.cluster import NodeCluster
from tools.harness.nodes.node import Node
from tools.harness.nodes.workloads import RELAYED, PodFacts

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
NODE = RELAYED[0]
# Seconds; kubelet renews a certificate when 70 to 90 % of its life are over.
SHORT = 50.0


def give_certificate(cluster: NodeCluster, node: Node, *, life: float) -> float:
    """When it ends, by the clock of `time.time`."""
    validity = datetime.timedelta(seconds=life)
    pair = cluster.plane.client_authority.issue_client(
        f"{node.name}-{life:g}",
        user=f"system:node:{node.name}",
        group="system:nodes",
        validity=validity,
    )
    node.give_certificate(pair.certificate.read_bytes() + pair.key.read_bytes())
    return time.time() + life


@pytest.fixture
def node(cluster: NodeCluster) -> Iterator[Node]:
    """With a certificate of its own for a year, in the end as well."""
    found = cluster.nodes[NODE]
    yield found
    give_certificate(cluster, found, life=365 * 86400.0)
    found.run("systemctl", "restart", "relay-sidecar", "kubelet").expect()
    cluster.until(lambda: NODE in cluster.ready(), what="it is Ready")
    cluster.until_doctor_finds_nothing(NODE)


def test_a_certificate_that_kubelet_renews_is_soon_the_relays(
    cluster: NodeCluster, before: dict[str, PodFacts], node: Node
) -> None:
    containers = node.containers()
    ends_at = give_certificate(cluster, node, life=SHORT)
    node.run("systemctl", "restart", "kubelet").expect()
    cluster.until(lambda: time.time() > ends_at, what="the first one has ended")
    cluster.holds(
        lambda: NODE in cluster.ready() and node.status()["link"]["state"] == "up", seconds=30
    )
    assert not cluster.faults(before.values())
    assert node.containers() == containers


def test_a_certificate_that_ends_while_cut_takes_nothing(
    cluster: NodeCluster, before: dict[str, PodFacts], node: Node
) -> None:
    """kubelet shows none any more, to nobody, and asks for another one in vain."""
    theirs = [it for it in before.values() if it.node == NODE]
    ends_at = give_certificate(cluster, node, life=SHORT)
    # The relay takes it at once, kubelet with its next start.
    node.run("systemctl", "restart", "relay-sidecar").expect()
    cluster.until(lambda: node.status()["link"]["state"] == "up", what="upstream takes it")
    with cluster.cut(NODE):
        assert time.time() < ends_at
        cluster.until(lambda: time.time() > ends_at, what="it has ended")
        node.run("systemctl", "restart", "kubelet").expect()
        cluster.holds(lambda: not cluster.faults(theirs, asked=[NODE]), seconds=10)
        cluster.reboot(NODE, until=lambda: not cluster.faults(theirs, asked=[NODE]))
        assert not node.status()["link"]["isUp"]
        give_certificate(cluster, node, life=365 * 86400.0)
        node.run("systemctl", "restart", "kubelet").expect()
