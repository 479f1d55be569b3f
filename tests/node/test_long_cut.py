"""A node behind a relay that was cut off for longer than the tokens of its pods live."""

import pytest

from tools.harness.nodes.cluster import KEY_FILE, NodeCluster
from tools.harness.nodes.images import RELAY_FOLDER
from tools.harness.nodes.workloads import RELAYED, PodFacts

# Adds seconds without upstream to what a relay that is stopped has recorded of its running time, as
# the relay writes it: the row is authenticated.
AGED = f"""
import asyncio, json, sys
from pathlib import Path
sys.path[:0] = ["{RELAY_FOLDER}/packages"]
from relay_sidecar.journal.journal import Journal
from relay_sidecar.journal.records import Blob
from relay_sidecar.journal.sealing.sealed_secrets import DATA_KEY, SPACE, SealedSecrets
from relay_sidecar.journal.sealing.sealer import Sealer
async def age(seconds):
    folder = Path("/var/lib/relay-sidecar/journal")
    journal = await Journal.open(folder)
    saved = await journal.load()
    wrapped = saved.kept[SPACE][DATA_KEY]
    key = Path("{KEY_FILE}")
    sealer = Sealer.open(key, data_dir=folder, credentials_dir=None, wrapped=wrapped)
    secrets = SealedSecrets(sealer)
    known, rejected = secrets.restored(saved)
    assert not rejected
    journal.store_as(secrets.stored, secrets.all_stored)
    boot, now, running, contact = json.loads(known.kept["access"][b"clock"])
    value = json.dumps([boot, now, running + seconds, contact]).encode()
    await journal.commit(Blob("access", b"clock", value))
    assert journal.failure is None
    await journal.close()
asyncio.run(age(float(sys.argv[1])))
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
