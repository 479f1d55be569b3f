"""Nodes behind relays whose link is cut and healed: what goes on, what waits, what is seen when."""

import pytest

from tools.harness.nodes import workloads
from tools.harness.nodes.cluster import NodeCluster
from tools.harness.nodes.workloads import NAMESPACE, RELAYED, PodFacts, on

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
NODE = RELAYED[0]
# Of design/node.md, section 4: what real components ask while cut and is refused.
MAY_BE_REFUSED = {
    *((verb, "leases.coordination.k8s.io") for verb in ("get", "update", "create")),
    *(("create", it) for it in ("nodes", "csinodes.storage.k8s.io")),
    *(("patch", it) for it in ("nodes/status", "pods/status", "csinodes.storage.k8s.io")),
    *((verb, it) for verb in ("create", "patch") for it in ("events", "events.events.k8s.io")),
    ("delete", "pods"),
    ("deletecollection", "resourceslices.resource.k8s.io"),
    ("create", "certificatesigningrequests.certificates.k8s.io"),
    ("create", "tokenreviews.authentication.k8s.io"),
    ("create", "subjectaccessreviews.authorization.k8s.io"),
}


def test_a_container_that_dies_after_kubelet_was_restarted_comes_back(
    cluster: NodeCluster, before: dict[str, PodFacts]
) -> None:
    theirs = [it for it in before.values() if it.node in RELAYED]
    victim = on(before, NODE, "desk")
    node = cluster.nodes[NODE]
    with cluster.cut(*RELAYED):
        node.run("systemctl", "restart", "kubelet").expect()
        workloads.end(node.address, victim)
        cluster.until(lambda: cluster.faults([victim], asked=[NODE]), what="it has ended")
        took = cluster.seconds_until(lambda: cluster.are_back(theirs))
        print(f"back after {took:.1f} s")
    assert {it[:2] for it in node.refused()} <= MAY_BE_REFUSED


def test_a_relay_that_is_killed_forgets_nothing(
    cluster: NodeCluster, before: dict[str, PodFacts]
) -> None:
    """Secrets and tokens included, which a container needs that starts anew."""
    theirs = [it for it in before.values() if it.node in RELAYED]
    node, victim = cluster.nodes[NODE], on(before, NODE, "desk")
    with cluster.cut(*RELAYED):
        node.run("systemctl", "kill", "--signal=KILL", "relay-sidecar").expect()
        node.run("systemctl", "restart", "kubelet").expect()
        workloads.end(node.address, victim)
        cluster.until(lambda: cluster.faults([victim], asked=[NODE]), what="it has ended")
        cluster.until(lambda: not cluster.faults(theirs, asked=RELAYED), what="all is back")
        assert not node.status()["link"]["isUp"]
    assert {it[:2] for it in node.refused()} <= MAY_BE_REFUSED


def test_a_heal_restarts_nothing(cluster: NodeCluster, before: dict[str, PodFacts]) -> None:
    containers = cluster.containers()
    with cluster.cut(NODE):
        cluster.until(lambda: NODE not in cluster.ready(), what="the control plane misses it")
    took = cluster.seconds_until(lambda: NODE in cluster.ready())
    print(f"Ready {took:.1f} s after the heal")
    cluster.until(lambda: not cluster.faults(before.values()), what="all answer")
    assert cluster.containers() == containers


def test_what_the_cloud_changes_is_seen_after_the_heal_and_not_before(
    cluster: NodeCluster,
) -> None:
    before = cluster.pods()
    deleted = on(before, NODE, "desk")
    theirs = [it for it in before.values() if it.node in RELAYED]
    settings = {"data": {"colour": "blue"}}
    path = f"/api/v1/namespaces/{NAMESPACE}"
    admin = cluster.plane.admin
    with cluster.cut(*RELAYED):
        admin.delete(f"{path}/pods/{deleted.name}")
        admin.patch(f"{path}/configmaps/settings", settings)
        admin.patch(f"{path}/secrets/db", {"stringData": {"password": "another"}})
        # A restarted kubelet asks for everything anew.
        cluster.nodes[NODE].run("systemctl", "restart", "kubelet").expect()
        cluster.holds(lambda: not cluster.faults(theirs, asked=RELAYED), seconds=10)
    cluster.until(
        lambda: deleted.uid not in {it.uid for it in cluster.pods().values()}, what="it is deleted"
    )
    cluster.until(lambda: cluster.given(NODE) == ("another", "blue"), what="the changes are seen")
    admin.patch(f"{path}/configmaps/settings", {"data": {"colour": "green"}})
    admin.patch(f"{path}/secrets/db", {"stringData": {"password": workloads.PASSWORD}})
    cluster.until(
        lambda: len(cluster.pods()) == len(before) and not cluster.faults(), what="as before"
    )


def test_no_secret_and_no_token_is_readable_on_the_disk(
    cluster: NodeCluster, before: dict[str, PodFacts]
) -> None:
    """Kubelet's own volumes are in memory, containerd's database has variables of containers."""
    node = cluster.nodes[NODE]
    token = cluster.token_of(on(before, NODE, "web"))
    others = ("/proc", "/sys", "/dev", "/run", "/images", "/var/lib/kubelet", "/var/lib/containerd")
    skipped = " -o ".join(f"-path {it}" for it in others)
    search = rf'find / \( {skipped} \) -prune -o -type f -print0 | xargs -0 grep -lsF -e "$1"'
    for secret in (workloads.PASSWORD, token, token.split(".")[1][:40]):
        assert node.run("sh", "-c", search, "sh", secret).output == ""
    # What is there would have been found.
    assert "kubelet.json" in node.run("sh", "-c", search, "sh", "imageGCHighThreshold").output
