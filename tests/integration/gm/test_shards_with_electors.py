"""GMs with real electors share jobs: one is killed, one is added, one ends in order.

What GM does with its shards is `test_shards`; here is that both sides mean the same.
"""

from collections import Counter
from contextlib import ExitStack

import pytest

from tests.integration.gm.shop import Shop
from tests.integration.gm.test_high_availability import created_pods
from tests.integration.gm.test_shards import run, writers
from tools.harness.controlplane.clients.answer import ask
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.gm import SHARD_FLAGS, GmPod
from tools.harness.pods.observers.observer import wait_for

pytestmark = pytest.mark.long

# Seconds, on a busy machine; a lease is 6 s.
PATIENCE = 60.0
# Hand-overs that GM did not confirm in time.
WAITED = "elector_shards_waited_for_validity_total"


def owned(pod: GmPod) -> int:
    """How many shards, as its GM knows it; none without an answer, too."""
    answer = ask(pod.gm.port, "/status") if pod.gm.is_running else None
    shards = None if answer is None else answer.json()["shards"]
    return 0 if shards is None else len(shards["owned"])


def shares(pods: list[GmPod]) -> list[int]:
    return sorted(map(owned, pods))


def wait_shares(pods: list[GmPod], *wanted: int) -> None:
    wait_for(lambda: shares(pods) == [*wanted], timeout=PATIENCE, what=f"shares of {wanted}")


@pytest.mark.long
@pytest.mark.slow
def test_gms_share_jobs_while_members_come_and_go(control_plane: ControlPlane, shop: Shop) -> None:
    shop.stock()
    with ExitStack() as stack:

        def start(number: int) -> GmPod:
            pod = GmPod(
                control_plane,
                shop.namespace,
                name=f"gm-{number}",
                mode="active-active",
                flags=["--leadership=shards"],
                lease_flags=SHARD_FLAGS,
            )
            stack.callback(pod.stop)
            return pod.start(wait=False)

        pods = [start(number) for number in range(3)]
        wait_shares(pods, 21, 21, 22)
        run(shop, *[f"a{index:02}" for index in range(12)])
        makers = {by for each in writers(shop, "create", "pods").values() for by in each}
        assert makers == {"gm-0", "gm-1", "gm-2"}
        # All of the first is gone at once, as with its machine.
        pods[0].kill()
        wait_shares(pods[1:], 32, 32)
        run(shop, *[f"b{index:02}" for index in range(6)])
        pods.append(start(3))
        wait_shares(pods[1:], 21, 21, 22)
        # Those that moved were handed over, and moved once: the new one has a third.
        for pod in pods[1:3]:
            pod.elector.wait_listening()
            answer = pod.elector.ask("/metrics")
            assert answer is not None
            lines = answer.body.decode().splitlines()
            assert [it for it in lines if it.startswith(WAITED)] == [f'{WAITED}{{name="gm"}} 0']
        run(shop, *[f"c{index:02}" for index in range(6)])
        # One ends in order, GM first.
        assert pods[1].gm.terminate() == 0
        pods[1].elector.terminate()
        wait_shares(pods[2:], 32, 32)
        run(shop, *[f"d{index:02}" for index in range(6)])
        assert Counter(created_pods(control_plane, shop.namespace).values()) == {1: 60}
