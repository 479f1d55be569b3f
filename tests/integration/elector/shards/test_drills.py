"""Drills upon electors with shards, judged from outside all the time: client-go candidates beside
members that join, leave and freeze, and etcd restored from a backup.

`make test-long` plays the short ones; `make drill-shards` those of ten minutes.
"""

import random
import time
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from edge_sidecars.runtime.clock import boottime
from tests.integration.elector.shards.judged import assert_never_beside_an_owner
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.peers.candidate import ClientGoCandidate
from tools.harness.peers.shard_observer import ShardObserver, together
from tools.harness.pods.elector import ElectorPod
from tools.harness.pods.fleet import FAST, FAST_DURATION, kubeconfig
from tools.harness.pods.shards.sharded import ShardedFleet, owned

FEWEST, MOST = 2, 5
# Seconds between two changes: members settle and take their shares in most of them.
PAUSES = (0.5, 6.0)
# Seconds that a candidate may lead where a restore left no owner, before it makes room.
LED_LONG_ENOUGH = 8.0
# A busy machine starts processes slowly.
EVEN_TIMEOUT = 60.0
TEN_MINUTES = 600.0
LENGTHS = [
    pytest.param(30.0, marks=pytest.mark.long),
    pytest.param(TEN_MINUTES, marks=pytest.mark.manual),
]
AGES = [
    pytest.param(30.0, marks=pytest.mark.long),
    pytest.param(TEN_MINUTES, marks=pytest.mark.manual),
]


class Drill:
    """Members that come, go and freeze beside one candidate, while etcd is restored."""

    def __init__(self, plane: ControlPlane, fleet: ShardedFleet, peer: ClientGoCandidate) -> None:
        self._plane = plane
        self._fleet = fleet
        self._peer = peer
        self._random = random.Random(peer.name)
        self.members = fleet.spread(FEWEST, timing=FAST)
        # Each change with the time on CLOCK_BOOTTIME when it began.
        self.changes: list[tuple[str, float]] = []

    def join(self) -> None:
        """A new member, or a process of one that was killed or terminated before."""
        if len(self.members) < MOST:
            absent = [it for it in self._fleet.pods if it not in self.members]
            self.members.append(self._random.choice(absent).start())

    def kill(self) -> None:
        if len(self.members) > FEWEST:
            self._leaving().kill()

    def terminate(self) -> None:
        if len(self.members) > FEWEST:
            leaving = self._leaving()
            leaving.terminate()
            leaving.wait()

    def freeze(self) -> None:
        member = self._random.choice(self.members)
        member.freeze()
        time.sleep(2 * FAST_DURATION)
        member.thaw()

    def restore(self) -> None:
        """From the backup that was made after the restore before."""
        self._plane.restore()
        time.sleep(2 * FAST_DURATION)
        self._plane.back_up()

    def restart_candidate(self) -> None:
        if self._peer.is_running:
            if self._random.random() < 0.5:
                self._peer.kill()
            else:
                self._peer.terminate()
                self._peer.wait()
        self._peer.start()

    def run(self, seconds: float) -> None:
        """Each change at least once."""
        changes: list[Callable[[], None]] = [
            *(self.join, self.join, self.kill, self.terminate, self.freeze),
            *(self.restart_candidate, self.restore),
        ]
        end = time.monotonic() + seconds
        while not self.changes or time.monotonic() < end:
            for change in self._random.sample(changes, len(changes)):
                self.changes.append((change.__name__, boottime()))
                change()
                self._rest()

    def _rest(self) -> None:
        time.sleep(self._random.uniform(*PAUSES))
        if not self._peer.is_running:  # it ends with its lead, as programs with client-go do
            self._peer.start()
        if self._peer.is_leader():
            # No member had a valid term: the candidate may lead, and members wait for it.
            time.sleep(LED_LONG_ENOUGH)
            if self._peer.is_running:
                self._peer.terminate()
                self._peer.wait()
            self._fleet.wait_even(self.members, timeout=EVEN_TIMEOUT)
            self._peer.start()

    def _leaving(self) -> ElectorPod:
        return self.members.pop(self._random.randrange(len(self.members)))


@pytest.mark.slow
@pytest.mark.timeout(TEN_MINUTES + 300)
@pytest.mark.parametrize("seconds", LENGTHS)
@pytest.mark.parametrize("version", ["0.26", "0.30", "0.37"])
def test_s1_a_candidate_of_client_go_never_works_beside_an_owner_whatever_befalls_members(
    version: str, seconds: float
) -> None:
    with ExitStack() as stack:
        plane = stack.enter_context(ControlPlane())
        ring = stack.enter_context(ShardedFleet(plane, plane.create_namespace()))
        ring.create_empty_lease()
        peer = stack.enter_context(
            ClientGoCandidate(
                f"peer-{version}",
                version=version,
                kubeconfig=kubeconfig(plane, ring.namespace),
                namespace=ring.namespace,
                lease=ring.lease,
                releases=True,
                # One that kept its identity would lead at once wherever a restored record names it.
                keeps_identity=False,
            )
        )
        drill = Drill(plane, ring, peer)
        for _ in range(MOST - FEWEST):
            ring.join(timing=FAST, start=False)
        plane.back_up()
        with ShardObserver(ring.pods, asked=(0,)) as observer:
            peer.start()
            drill.run(seconds)
            ring.wait_even(drill.members, timeout=EVEN_TIMEOUT)
            spans = observer.spans()
        print(f"{version}: {drill.changes}, {observer.answers} answers, {peer.terms()}")
        assert together(spans) == []
        assert_never_beside_an_owner(spans, peer)
        assert all("Traceback" not in pod.log_text() for pod in drill.members)


@pytest.mark.slow
@pytest.mark.timeout(TEN_MINUTES + 300)
@pytest.mark.parametrize("age", AGES)
def test_s1_and_s2_members_go_by_a_history_that_was_restored_from_an_old_backup(age: float) -> None:
    """Two elections: after the backup one was only renewed; in the other one a member left and one
    joined, of which the restored history knows nothing."""
    with ControlPlane() as plane, ExitStack() as stack:
        rings = [
            stack.enter_context(ShardedFleet(plane, plane.create_namespace())) for _ in range(2)
        ]
        for ring in rings:
            ring.create_empty_lease()
            ring.spread(3, timing=FAST)
        unchanged, changed = (list(ring.pods) for ring in rings)
        joining = rings[1].join(timing=FAST, start=False)
        plane.back_up()
        backed_up_at = time.monotonic()
        observers = [stack.enter_context(ShardObserver(ring.pods, asked=(0,))) for ring in rings]
        changed.append(joining.start())
        changed.pop(0).terminate()
        rings[1].wait_even(changed)
        time.sleep(max(backed_up_at + age - time.monotonic(), 0))
        plane.restore()
        restored_at = time.monotonic()
        wait_owned(rings[0], unchanged)
        wait_owned(rings[1], changed)
        seconds = time.monotonic() - restored_at
        time.sleep(2 * FAST_DURATION)
        print(f"backup of {age:g} s ago: every shard owned after {seconds:.1f} s")
        for observer in observers:
            assert observer.spans()
            assert together(observer.spans()) == []
        assert seconds <= FAST_DURATION + 5
        assert all(pod.is_running for pod in (*unchanged, *changed))


def wait_owned(ring: ShardedFleet, pods: list[ElectorPod]) -> None:
    deadline = time.monotonic() + EVEN_TIMEOUT
    while sum(len(owned(pod)) for pod in pods) != ring.shards:
        assert time.monotonic() < deadline, "a shard has no owner"
        time.sleep(0.05)
