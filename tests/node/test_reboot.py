"""Nodes behind relays that lose their power while their link is cut."""

import pytest

from tools.harness.nodes.cluster import NodeCluster
from tools.harness.nodes.workloads import PLAIN, RELAYED, PodFacts

# Adds seconds without upstream to what a relay that is stopped has recorded of its running time.
AGED = """
import json, sqlite3, sys, zlib
with sqlite3.connect("/var/lib/relay-sidecar/journal/journal.sqlite3") as journal:
    key = b"clock"
    [row] = journal.execute("SELECT space, value FROM kept WHERE key = ?", (key,))
    boot, now, running, contact = json.loads(row[1])
    value = json.dumps([boot, now, running + float(sys.argv[1]), contact]).encode()
    digest = zlib.crc32(value, zlib.crc32(key, zlib.crc32(row[0].encode())))
    journal.execute("UPDATE kept SET value = ?, digest = ? WHERE key = ?", (value, digest, key))
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_nodes_rebooted_while_cut_have_all_back_without_a_cloud(
    cluster: NodeCluster, before: dict[str, PodFacts]
) -> None:
    theirs = [it for it in before.values() if it.node in RELAYED]
    for name in RELAYED:
        cluster.until_doctor_finds_nothing(name)
    with cluster.cut(*RELAYED):
        took = cluster.reboot(*RELAYED, until=lambda: not cluster.faults(theirs, asked=RELAYED))
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


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_node_that_was_cut_off_for_more_than_a_day_has_all_back_after_a_reboot(
    cluster: NodeCluster, before: dict[str, PodFacts]
) -> None:
    """By the counter that is stored: the tokens of ten minutes have long expired then."""
    [name, *_] = RELAYED
    theirs = [it for it in before.values() if it.node == name]
    node = cluster.nodes[name]
    cluster.until_doctor_finds_nothing(name)
    with cluster.cut(name):
        node.run("systemctl", "stop", "relay-sidecar").expect()
        node.run("python3", "-c", AGED, str(30 * 3600)).expect()
        cluster.reboot(name, until=lambda: not cluster.faults(theirs, asked=[name]))
        assert not node.status()["link"]["isUp"]
