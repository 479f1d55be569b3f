"""The controller of pools before many Nodes: what it keeps of each.

Guarantee: Nodes are as large as those of a small cluster, and in pools of 64.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial

from pool_sidecar.core.controller.node_state import DEFAULT_POOL_LABEL
from pool_sidecar.core.pool_member import MAX_MEMBERS, PATH
from tools.bench.pace import wait_for
from tools.bench.process import MIB
from tools.bench.progress import say
from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.clients.admin import Json
from tools.harness.controlplane.clients.kept_client import KeptClient
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.pools.controller import PoolControllerPod

# A Node of 50 images, the most that kubelet tells of (nodeStatusMaxImages), has some 6 KB.
IMAGES = 50
BATCH = 250
THREADS = 4
# Seconds for as many PoolMembers on a busy machine.
TIMEOUT = 900.0


def controller_memory(plane: ControlPlane, pod: PoolControllerPod, count: int) -> Iterator[float]:
    """Resident MiB of the leader: when it has made all members, and after a start beside them."""
    say(f"{count} Nodes")
    with ThreadPoolExecutor(THREADS) as threads:
        batches = [range(count)[it : it + BATCH] for it in range(0, count, BATCH)]
        list(threads.map(partial(_create, plane), batches))
    say("their PoolMembers")
    wait_for(
        lambda: _members(plane) >= count, timeout=TIMEOUT, what="all PoolMembers", interval=1.0
    )
    yield pod.controller.memory() / MIB
    pod.kill()
    pod.start().wait_leading()
    yield pod.controller.memory() / MIB


def _create(plane: ControlPlane, numbers: range) -> None:
    with closing(KeptClient(plane.host, plane.port, plane.tls())) as client:
        for number in numbers:
            expect(client.post("/api/v1/nodes", _node(number)))


def _node(number: int) -> Json:
    name = f"node-{number:05}"
    images = [
        {"names": [f"registry.example.com/team-{it}/service-{number % 97}:v{it}"], "sizeBytes": it}
        for it in range(IMAGES)
    ]
    labels = {DEFAULT_POOL_LABEL: f"pool-{number // MAX_MEMBERS}", "kubernetes.io/hostname": name}
    return {"metadata": {"name": name, "labels": labels}, "status": {"images": images}}


def _members(plane: ControlPlane) -> int:
    found = expect(plane.admin.get(f"{PATH}?limit=1"))
    return len(found["items"]) + int(found["metadata"].get("remainingItemCount", 0))
