"""A node whose relay can write nothing more on its disk: nobody notices, until there is room again
and a reboot finds what happened meanwhile."""

import itertools

import pytest

from tests.node.small_disk import small_disk
from tools.harness.controlplane.access.accounts import expect
from tools.harness.nodes.cluster import NodeCluster
from tools.harness.nodes.workloads import NAMESPACE, RELAYED, PodFacts

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
NODE = RELAYED[0]
SETTINGS = f"/api/v1/namespaces/{NAMESPACE}/configmaps/settings"
# Bytes of one version of an object; what is known of it soon needs more than is left of a WAL.
BALLAST = 500_000


def test_a_node_whose_relays_disk_is_full_goes_on_and_keeps_what_it_missed_once_there_is_room(
    cluster: NodeCluster, before: dict[str, PodFacts]
) -> None:
    node, containers = cluster.nodes[NODE], cluster.containers()
    theirs = [it for it in before.values() if it.node == NODE]

    ballast = itertools.cycle("xy")

    def journal() -> str | None:
        failure: str | None = node.status()["journal"]["failure"]
        return failure

    def all_answer() -> bool:
        # Another colour than before is what they are to have.
        found = cluster.faults(theirs, asked=[NODE])
        return all(it.endswith(": no ConfigMap") for it in found)

    def is_well() -> bool:
        return NODE in cluster.ready() and all_answer()

    def change(colour: str, ballast: str | None) -> None:
        data = {"colour": colour, "ballast": ballast}
        expect(cluster.plane.admin.patch(SETTINGS, {"data": data}))

    def fails() -> bool:
        change("red", next(ballast) * BALLAST)
        return journal() is not None

    with small_disk(node) as disk:
        try:
            cluster.until_doctor_finds_nothing(NODE)
            disk.fill()
            cluster.until(fails, what="it cannot be written")
            assert "relay_journal_failed 1" in node.metrics()
            assert "the journal cannot be written" in node.journal("relay-sidecar")
            cluster.until(lambda: cluster.given(NODE)[1] == "red", what="pods see the change")
            cluster.holds(is_well, seconds=20)
            # Not even a relay that starts anew is in anybody's way.
            node.run("systemctl", "restart", "relay-sidecar").expect()
            cluster.holds(is_well, seconds=20)
            assert journal()
            assert cluster.containers() == containers
            disk.make_room()
            cluster.until(lambda: not journal(), what="it is written again")
            assert "the journal is written again" in node.journal("relay-sidecar")
            cluster.until_doctor_finds_nothing(NODE)
            with cluster.cut(NODE):
                cluster.reboot(NODE, until=all_answer)
                assert not node.status()["link"]["isUp"]
                assert cluster.given(NODE)[1] == "red"
        finally:
            change("green", None)
    cluster.until(lambda: cluster.given(NODE)[1] == "green", what="as before")
    cluster.until_doctor_finds_nothing(NODE)
