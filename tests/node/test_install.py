"""What installations and uninstallations leave of a node: one that fails or is killed, all as it
was; one that is taken back, a node whose pods begin and end."""

import time

import pytest

from tools.harness.controlplane.access.accounts import expect
from tools.harness.nodes import workloads
from tools.harness.nodes.cluster import NodeCluster
from tools.harness.nodes.node import Node
from tools.harness.nodes.workloads import NAMESPACE, PLAIN, RELAYED, PodFacts

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
NODE = RELAYED[0]
NAMES = [f"short-{number}" for number in range(10)]
# Seconds in which ten pods are to run, and to end.
LIMIT = 30.0
# Contents, modes, owners, links of all that an installation may change.
_STATE = """
for it in /etc/systemd/system /etc/kubernetes /etc/cni /opt/cni/bin; do
    find $it -printf '%p %y %m %U %G %l\\n'
    find $it -type f -exec sha256sum {} +
done | sort
systemctl is-enabled kubelet; systemctl is-active kubelet
systemctl is-enabled relay-sidecar 2>&1; systemctl is-active relay-sidecar
"""
_BROKEN = "/etc/systemd/system/relay-sidecar.service.d/broken.conf"


@pytest.mark.parametrize("is_cut", [False, True])
def test_pods_begin_and_end_on_a_node_whose_relay_is_uninstalled(
    cluster: NodeCluster, before: dict[str, PodFacts], is_cut: bool
) -> None:
    node = cluster.nodes[NODE]
    if is_cut:
        with cluster.cut(NODE):
            said = node.relay("node", "uninstall", "--now").expect()
    else:
        said = node.relay("node", "uninstall", "--now").expect()
    for it in ("edge-sidecars.io/relay-", "clusterDNS", "/opt/cni/bin/sticky-ipam stays"):
        assert it in said
    try:
        cluster.until(lambda: NODE in cluster.ready(), what="it is Ready, without a relay")
        took, plain = _begin_and_end(cluster, NODE), _begin_and_end(cluster, PLAIN)
        print(f"ten pods ran after {took[0]:.1f} s, and had ended after {took[1]:.1f} s")
        # As on a node that never had a relay, where the machine is busy.
        for own, other in zip(took, plain, strict=True):
            assert own < max(LIMIT, 2 * other)
        # A look again: its own pods still need the plugin.
        assert "sticky-ipam stays" in node.relay("node", "uninstall").expect()
    finally:
        cluster.install(node)
        cluster.until(lambda: node.status()["tokens"], what="kubelet asks the relay again")
    cluster.until_doctor_finds_nothing(NODE)


def test_one_that_fails_or_is_killed_leaves_the_node_as_it_was(
    cluster: NodeCluster, before: dict[str, PodFacts]
) -> None:
    node = cluster.nodes[NODE]
    containers = cluster.containers()
    node.relay("node", "uninstall", "--now").expect()
    try:
        node.write({_BROKEN: (b"[Service]\nMemoryMax=1M\n", 0o644)})
        cluster.until(lambda: _state(node) == _state(node), what="it is at rest")
        found = _state(node)
        for command in ("", "timeout -s KILL 4 ", "timeout -s TERM 4 "):
            done = node.run("sh", "-c", f"{command}{_install(cluster, node)}")
            assert done.status != 0, done.output
            if "KILL" in command:
                node.relay("node", "uninstall", "--now").expect()
            assert _state(node) == found
            cluster.until(lambda: NODE in cluster.ready(), what="it is Ready")
    finally:
        node.run("rm", "-r", _BROKEN.rpartition("/")[0]).expect()
        cluster.install(node)
        cluster.until(lambda: node.status()["tokens"], what="kubelet asks the relay again")
    cluster.until_doctor_finds_nothing(NODE)
    assert cluster.containers() == containers


def _begin_and_end(cluster: NodeCluster, name: str) -> tuple[float, float]:
    """Seconds in which ten pods on a node run, and in which they end."""
    pods = [workloads.pod(it, node=name) for it in NAMES]
    started = time.monotonic()
    cluster.apply(pods)
    cluster.until(lambda: set(NAMES) <= cluster.pods().keys(), what="ten pods run")
    ran = time.monotonic() - started
    started = time.monotonic()
    cluster.delete(pods)
    cluster.until(lambda: not _there(cluster), what="ten pods have ended")
    return ran, time.monotonic() - started


def _there(cluster: NodeCluster) -> list[str]:
    path = f"/api/v1/namespaces/{NAMESPACE}/pods"
    items = expect(cluster.plane.admin.get(path))["items"]
    return [it["metadata"]["name"] for it in items if it["metadata"]["name"] in NAMES]


def _state(node: Node) -> str:
    return node.run("sh", "-c", _STATE).output


def _install(cluster: NodeCluster, node: Node) -> str:
    """The command line of `cluster.install`."""
    return " ".join(cluster.install_command(node))
