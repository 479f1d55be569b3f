"""What other people do to the Lease object: deleted, blanked, stolen, edited, damaged, reserved.

A living leader keeps the lead without a gap; a dead one's claim outlives whatever was done to the
record; what belongs to others stays in it.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.integration.elector.timeline import Timeline
from tools.harness.controlplane.clients.answer import Answer, boottime
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.fixtures import require_program
from tools.harness.pods.elector import ElectorPod
from tools.harness.pods.fleet import FAST, FAST_DURATION, Fleet
from tools.harness.pods.observers.history import ANNOTATION, FOREIGN_FACTOR, assert_backed, writes
from tools.harness.pods.observers.observer import Observer, wait_for, wait_for_leader

# Between a write of the log and the moment at which a test looked at its clock.
SLACK = 0.3
SOON = 10.0


@dataclass
class Pair:
    leader: ElectorPod
    standby: ElectorPod

    @property
    def pods(self) -> list[ElectorPod]:
        return [self.leader, self.standby]


def pair(fleet: Fleet, *flags: str, timing: tuple[str, ...] = FAST) -> Pair:
    """A leader that has renewed its first write, and a standby that knows it."""
    fleet.create_empty_lease()
    pods = [fleet.add(*flags, timing=timing, start=False).start(wait=False) for _ in range(2)]
    return settled(pods)


def settled(pods: list[ElectorPod]) -> Pair:
    """Of two pods that were started."""
    for pod in pods:
        pod.wait_listening()
    leader = wait_for_leader(pods, timeout=20)
    acquired = leader.leader()["renewTime"]
    standby = pods[1 - pods.index(leader)]
    wait_for(lambda: standby.leader()["holder"] == leader.identity, timeout=20, what="a standby")
    wait_for(lambda: leader.leader()["renewTime"] != acquired, timeout=20, what="a renewal")
    return Pair(leader, standby)


def same_term(answers: list[Answer]) -> bool:
    """Whether all were 200, and of one term."""
    tokens = {answer.headers.get("X-Leader-Fencing-Token") for answer in answers}
    return {answer.status for answer in answers} == {200} and len(tokens) == 1


def holder_is(fleet: Fleet, pod: ElectorPod) -> bool:
    lease = fleet.get_lease()
    return lease is not None and (lease.get("spec") or {}).get("holderIdentity") == pod.identity


def renewed(fleet: Fleet, pod: ElectorPod, times: int) -> None:
    """Waits for so many further writes of the pod."""
    mine = [write for write in writes(fleet.plane, fleet.namespace) if write.writer == pod.identity]
    wait_for(
        lambda: (
            sum(w.writer == pod.identity for w in writes(fleet.plane, fleet.namespace))
            >= len(mine) + times
        ),
        timeout=times * 2 + SOON,
        what=f"{times} writes",
    )


# ── a living leader ──


def test_a_deleted_lease_is_written_back_by_its_leader_without_a_gap(fleet: Fleet) -> None:
    both = pair(fleet)
    before = both.leader.leader()
    with Observer(both.pods) as observer, Timeline(both.leader) as timeline:
        for _ in range(2):
            fleet.delete_lease()
            wait_for(lambda: holder_is(fleet, both.leader), timeout=SOON, what="the Lease again")
            assert fleet.spec()["leaseTransitions"] == 0
            assert fleet.spec()["acquireTime"] == before["acquireTime"]
            renewed(fleet, both.leader, 2)
    assert same_term(timeline.answers)
    after = both.leader.leader()
    assert after["fencingToken"] == before["fencingToken"]
    assert after["acquireTime"] == before["acquireTime"]
    observer.assert_exclusive()
    assert {ready.pod for ready in observer.answers()} == {both.leader.name}


def test_p10_what_others_keep_in_the_lease_stays(fleet: Fleet) -> None:
    fleet.create_empty_lease()
    owner = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "owner",
        "uid": "6c1f7a0e-0000-4000-8000-000000000000",
    }
    fleet.edit(
        metadata={
            "labels": {"team": "storage"},
            "annotations": {"example.com/note": "keep"},
            "ownerReferences": [owner],
            "finalizers": ["example.com/kept"],
        }
    )
    pod = fleet.add("--release-on-term")
    wait_for(pod.is_leader, timeout=20, what="the lead")
    renewed(fleet, pod, 2)
    for annotations in ({ANNOTATION: pod.identity}, {}):
        lease = fleet.get_lease()
        assert lease is not None
        metadata = lease["metadata"]
        assert metadata["labels"] == {"team": "storage"}
        # Of all the terms: no release takes it off.
        assert "edge-sidecars.io/history" in metadata["annotations"]
        del metadata["annotations"]["edge-sidecars.io/history"]
        assert metadata["annotations"] == {"example.com/note": "keep", **annotations}
        assert metadata["ownerReferences"] == [owner]
        assert metadata["finalizers"] == ["example.com/kept"]
        if annotations:
            pod.terminate()
            assert pod.wait() == 0
    assert not fleet.spec().get("holderIdentity")


# ── a dead leader ──


# ── stolen ──


@pytest.mark.slow
def test_p4_a_leader_steps_down_at_once_for_whoever_stands_in_the_record(fleet: Fleet) -> None:
    both = pair(fleet)
    with Observer(both.pods) as observer, Timeline(both.leader) as timeline:
        stolen_at = boottime()
        fleet.edit(spec={"holderIdentity": "intruder", "leaseDurationSeconds": 3})
        wait_for(lambda: both.leader.readyz() == 503, timeout=2, what="the end of the term")
        successor = wait_for_leader(both.pods, timeout=FOREIGN_FACTOR * 3 + SOON + FAST_DURATION)
    history = writes(fleet.plane, fleet.namespace)
    takeover = next(write for write in history if write.received > stolen_at and write.writer)
    # A stranger gets a fifth more; and the standby knows of no reason to shorten the old claim.
    assert takeover.writer == successor.identity
    assert takeover.received - stolen_at >= FOREIGN_FACTOR * 3 - SLACK
    ended = timeline.first(503).received
    assert 200 not in timeline.statuses(since=ended, until=takeover.received)
    observer.assert_exclusive()
    assert_backed(observer.answers(), history, duration=FAST_DURATION)


# ── no Lease, one name for all ──


@pytest.mark.long
@pytest.mark.slow
def test_replicas_with_one_and_the_same_identity_still_elect_one_leader(fleet: Fleet) -> None:
    both = pair(fleet, "--identity", "same")
    assert both.leader.identity != both.standby.identity
    with Observer(both.pods) as observer:
        for pod in both.pods:
            answer = pod.ask("/")
            assert answer is not None
            assert answer.body == b'{"name":"same"}'
        # Longer than a renewal: the other one has looked, and took nothing.
        time.sleep(2)
        assert [pod.is_leader() for pod in both.pods] == [True, False]
        both.leader.kill()
        # The same pod comes back under the same name, and is nobody's heir.
        both.leader.start()
        assert not both.leader.is_leader()
        wait_for_leader(both.pods, timeout=FAST_DURATION + SOON)
        time.sleep(1)
    observer.assert_exclusive()
    assert len(observer.tokens()) == 2


# ── reserved for coordinated leader election (KEP-4355) ──

STRATEGY = "example.com/by-hand"


@pytest.fixture(scope="module")
def coordinating_plane() -> Iterator[ControlPlane]:
    """spec.strategy is dropped by an API server without this feature gate."""
    for name in ("kube-apiserver", "etcd"):
        require_program(name)
    with ControlPlane(
        features=["CoordinatedLeaderElection"], apis=["coordination.k8s.io/v1beta1"]
    ) as plane:
        yield plane


@pytest.fixture
def coordinating_fleet(coordinating_plane: ControlPlane) -> Iterator[Fleet]:
    with Fleet(coordinating_plane, coordinating_plane.create_namespace()) as fleet:
        yield fleet


@pytest.mark.long
@pytest.mark.slow
def test_a_leader_whose_lease_is_reserved_goes_on_and_keeps_the_fields(
    coordinating_fleet: Fleet,
) -> None:
    fleet = coordinating_fleet
    both = pair(fleet)
    with Timeline(both.leader) as timeline:
        fleet.edit(spec={"strategy": STRATEGY, "preferredHolder": both.leader.identity})
        renewed(fleet, both.leader, 3)
    assert same_term(timeline.answers)
    assert fleet.spec()["strategy"] == STRATEGY
    assert fleet.spec()["preferredHolder"] == both.leader.identity
    assert both.standby.leader()["role"] == "pending"
    both.leader.kill()
    time.sleep(FAST_DURATION + 1)
    assert both.standby.readyz() == 503
    assert fleet.spec()["holderIdentity"] == both.leader.identity
