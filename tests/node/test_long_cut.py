"""A node behind a relay that was cut off for longer than the tokens of its pods live."""

import pytest

from tools.harness.nodes.cluster import NodeCluster
from tools.harness.nodes.workloads import RELAYED, PodFacts

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
