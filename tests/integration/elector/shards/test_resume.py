"""P11 with shards: the elector of one member is killed, and started again in its pod, on its port.

Real processes at a real kube-apiserver; an observer asks all members all the time.
"""

import time
import uuid

from tools.harness.controlplane.reservation import Reservation
from tools.harness.peers.shard_observer import ShardObserver, two_owners
from tools.harness.pods.elector import ElectorPod
from tools.harness.pods.fleet import STEADY_DURATION
from tools.harness.pods.observers.observer import wait_for
from tools.harness.pods.shards.sharded import ShardedFleet, owned, shards

# Seconds: of a restart by kubelet.
RESTART = 1.0
# For a busy machine; far less than a lease lasts that is not renewed.
SOON = 10.0


def tokens(pod: ElectorPod) -> dict[int, int]:
    return {it["shard"]: it["fencingToken"] for it in shards(pod)["owned"]}


def test_p11_a_killed_elector_goes_on_with_its_shards_and_no_shard_changes_its_member(
    ring: ShardedFleet,
) -> None:
    ports = [Reservation() for _ in range(3)]
    pods = [
        ring.join(
            *("--listen", f"127.0.0.1:{it.port}"),
            environ={"POD_UID": str(uuid.uuid4())},
            start=False,
        )
        for it in ports
    ]
    for pod in pods:
        pod.start()
    ring.wait_even(pods)
    crashed, *others = pods
    before = {pod.name: tokens(pod) for pod in pods}
    named = ring.table()["owners"]
    lease = f"{ring.lease}-{crashed.name}"
    transitions = ring.named(lease)["spec"]["leaseTransitions"]
    with ShardObserver(pods, asked=(0,)) as observer:
        time.sleep(RESTART)
        crashed.kill()
        killed_at = time.monotonic()
        time.sleep(RESTART)
        crashed.start()
        wait_for(
            lambda: owned(crashed) == sorted(before[crashed.name]),
            timeout=SOON,
            what="all its shards are its own again",
        )
        assert time.monotonic() < killed_at + STEADY_DURATION, "it waited for its Lease"
        assert {pod.name: tokens(pod) for pod in others} == {
            pod.name: before[pod.name] for pod in others
        }
        # Until after the moment at which others would have taken what has no owner.
        time.sleep(max(killed_at + STEADY_DURATION + 2.0 - time.monotonic(), 0.0))
        spans = observer.spans()
    assert two_owners(spans) == []
    assert ring.table()["owners"] == named
    assert ring.named(lease)["spec"]["leaseTransitions"] == transitions + 1
    again = tokens(crashed)
    assert min(again.values()) > max(before[crashed.name].values())
    owners = {(it.shard, it.pod) for it in spans}
    assert len(owners) == ring.shards, "each shard was one member's all the time"
    for it in ports:
        it.release()
