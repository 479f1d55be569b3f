"""What becomes of a node whose relay is new, broken, or gone; and what is the same with one."""

import pytest

from tools.harness.nodes import workloads
from tools.harness.nodes.cluster import NodeCluster
from tools.harness.nodes.workloads import RELAYED, PodFacts, on

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
NODE = RELAYED[0]
# Seconds; the control plane's grace for a node is 50.
BROKEN = 60.0


def test_kubectl_reaches_a_pod_as_without_a_relay(
    cluster: NodeCluster, before: dict[str, PodFacts]
) -> None:
    pod = on(before, NODE, "web").name
    kubectl = cluster.kubectl
    assert "serving" in kubectl.run("logs", pod).expect()
    assert kubectl.run("exec", pod, "--", "/workload", "print", "hello").expect() == "hello\n"
    with kubectl.running("port-forward", pod, ":8080") as forwarding:
        line = forwarding.wait_line("Forwarding from 127.0.0.1:")
        port = int(line.split(":")[1].split()[0])
        assert workloads.ask("127.0.0.1", port)["pod"] == pod


def test_online_nothing_is_refused(cluster: NodeCluster) -> None:
    """While kubelet and kube-proxy start, and a pod ends and its successor begins."""
    before, node = cluster.pods(), cluster.nodes[NODE]
    node.run("systemctl", "restart", "relay-sidecar", "kubelet").expect()
    cluster.until(lambda: node.status()["tokens"], what="kubelet asked for tokens")
    cluster.kubectl.run("delete", "pod", on(before, NODE, "desk").name).expect()
    cluster.until(
        lambda: len(cluster.pods()) == len(before) and not cluster.faults(), what="its successor"
    )
    assert not node.refused()


def test_a_relay_that_is_restarted_is_not_noticed(
    cluster: NodeCluster, before: dict[str, PodFacts]
) -> None:
    containers = cluster.containers()
    node = cluster.nodes[NODE]
    for command in (("restart",), ("kill", "--signal=KILL")):
        node.run("systemctl", *command, "relay-sidecar").expect()
        cluster.holds(
            lambda: NODE in cluster.ready() and not cluster.faults(before.values()), seconds=15
        )
        assert node.status()["isReady"]
    assert cluster.containers() == containers


def test_a_relay_that_is_broken_for_a_minute_does_not_take_the_pods(
    cluster: NodeCluster, before: dict[str, PodFacts]
) -> None:
    containers = cluster.containers()
    theirs = [it for it in before.values() if it.node == NODE]
    node = cluster.nodes[NODE]
    node.run("systemctl", "stop", "relay-sidecar").expect()
    try:
        cluster.holds(lambda: not cluster.faults(theirs, asked=[NODE]), seconds=BROKEN)
        assert node.relay("node", "status").status == 1
    finally:
        node.run("systemctl", "start", "relay-sidecar").expect()
    cluster.until(lambda: NODE in cluster.ready(), what="it is Ready again")
    assert cluster.containers() == containers


def test_a_relay_that_is_uninstalled_while_cut_leaves_a_node_as_it_was(
    cluster: NodeCluster, before: dict[str, PodFacts]
) -> None:
    containers = cluster.containers()
    theirs = [it for it in before.values() if it.node == NODE]
    node = cluster.nodes[NODE]
    with cluster.cut(NODE):
        node.run("systemctl", "kill", "--signal=KILL", "relay-sidecar").expect()
        node.relay("node", "uninstall", "--now").expect()
        cluster.until(
            lambda: (
                node.run("systemctl", "is-active", "kubelet").status == 0
                and node.run("systemctl", "is-active", "relay-sidecar").status != 0
            ),
            what="kubelet runs, the relay does not",
        )
        cluster.holds(lambda: not cluster.faults(theirs, asked=[NODE]), seconds=5)
    cluster.until(lambda: NODE in cluster.ready(), what="it is Ready, without a relay")
    cluster.install(node)
    cluster.until(lambda: node.status()["tokens"], what="kubelet asks the relay again")
    cluster.until_doctor_finds_nothing(NODE)
    assert cluster.containers() == containers
