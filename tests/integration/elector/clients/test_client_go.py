"""P10, interoperates: real client-go candidates and electors share a Lease, both directions.

client-go's own terms are read from its callbacks; who wrote what and when, from the audit log.
"""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Protocol

import pytest

from tests.integration.elector.timeline import Timeline
from tools.harness.controlplane.clients.answer import boottime
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.peers.candidate import FAST as PEER_FAST
from tools.harness.peers.candidate import ClientGoCandidate
from tools.harness.pods.elector import ElectorPod
from tools.harness.pods.fleet import FAST_DURATION, Fleet, kubeconfig
from tools.harness.pods.observers.history import FOREIGN_FACTOR
from tools.harness.pods.observers.observer import Observer, wait_for
from tools.nemesis.elector.history import History, Version
from tools.nemesis.elector.verdict import Rules, judge

VERSIONS = ("0.26", "0.30", "0.36", "0.37")
REFERENCE = "0.37"
RULES = Rules(FAST_DURATION)
# client-go tries again after its retry period, stretched by up to its JitterFactor of 1.2
# (leaderelection.go) on top: 2.2 s at 1 s, and a busy machine.
PEER_RETRY = 2.2
SOON = 15.0
# What is done at once is told from what waits for a lease's end, or for a watch that is silent for
# too long, also where this machine stands still for seconds.
LONG = ("--lease-duration", "30s", "--renew-interval", "3s", "--request-timeout", "8s")
LONG_PEER = ("--lease-duration=30s", "--renew-deadline=20s", "--retry-period=1s")
LONG_SILENCE = 2.5 * 3.0
MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
METADATA = {"labels": {"team": "edge"}, "annotations": {"example.com/note": "kept"}}


class Candidate(Protocol):
    identity: str

    def is_leader(self) -> bool: ...


class Stage:
    """One Lease that is shared; peers named peer-0, peer-1, …"""

    def __init__(self, stack: ExitStack, plane: ControlPlane, namespace: str, lease: str) -> None:
        self._stack = stack
        self._plane = plane
        self.fleet = stack.enter_context(Fleet(plane, namespace, lease=lease))
        self.fleet.create_empty_lease()
        self.fleet.edit(metadata=METADATA)
        self.peers: list[ClientGoCandidate] = []
        self.transitions = 0

    def peer(
        self, version: str, *, releases: bool = False, timing: tuple[str, ...] = PEER_FAST
    ) -> ClientGoCandidate:
        peer = ClientGoCandidate(
            f"peer-{len(self.peers)}",
            version=version,
            kubeconfig=kubeconfig(self._plane, self.fleet.namespace),
            namespace=self.fleet.namespace,
            lease=self.fleet.lease,
            releases=releases,
            timing=timing,
        )
        self.peers.append(self._stack.enter_context(peer))
        return peer.start()

    def history(self) -> History:
        events = self._plane.audit(stage=None, resource="leases", namespace=self.fleet.namespace)
        return History([each for each in events if each.name == self.fleet.lease])

    def takeover(self, candidate: Candidate) -> tuple[Version, Version]:
        """Its newest acquiring write, and what that overwrote; the audit log may say so only after
        the candidate does."""
        found: list[tuple[Version, Version]] = []

        def is_found() -> bool:
            history = self.history()
            for version in reversed(history.in_order()):
                before = history.before(version)
                if before and version.holder == candidate.identity != before.holder:
                    found.append((version, before))
                    return True
            return False

        wait_for(is_found, timeout=10, what=f"{candidate.identity} in the audit log")
        return found[0]

    def waited(self, candidate: Candidate) -> float:
        """Seconds from the last change that its newest takeover had to wait for."""
        version, before = self.takeover(candidate)
        return version.received_at - self.history().first_alike(before).received_at

    def assert_kept(self, transitions: int) -> None:
        """The record is as both sides want it, and other people's metadata is still there."""
        lease = self.fleet.get_lease()
        assert lease is not None
        assert lease["spec"]["leaseTransitions"] == transitions
        for field in ("acquireTime", "renewTime"):
            assert MICRO_TIME.fullmatch(lease["spec"][field])
        assert lease["metadata"]["labels"] == METADATA["labels"]
        assert lease["metadata"]["annotations"]["example.com/note"] == "kept"

    def assert_obedient(self, observer: Observer | None = None) -> None:
        answers = observer.answers() if observer else []
        offset = time.time() - boottime()
        assert not judge(self.history(), answers, RULES, offset=offset).findings


StageMaker = Callable[[str], Stage]


@pytest.fixture
def stage(control_plane: ControlPlane, namespace: str) -> Iterator[StageMaker]:
    """Makes Leases by name, each with its own candidates."""
    with ExitStack() as stack:
        yield lambda lease: Stage(stack, control_plane, namespace, lease)


def wait_to_lead(candidate: Candidate, *, timeout: float) -> None:
    wait_for(candidate.is_leader, timeout=timeout, what=f"{candidate.identity} to lead")


def wait_to_know(pod: ElectorPod, holder: str) -> None:
    wait_for(lambda: pod.leader()["holder"] == holder, timeout=SOON, what=f"{pod.name} to follow")


@pytest.mark.slow
def test_p10_killed_leaders_are_followed_in_both_directions(stage: StageMaker) -> None:
    stages = {version: stage(f"controller-{version}") for version in VERSIONS}
    pairs = []
    for version, it in stages.items():
        peer = it.peer(version)
        wait_to_lead(peer, timeout=PEER_RETRY + SOON)
        pairs.append((it, peer, it.fleet.add()))
    for it, peer, pod in pairs:
        wait_to_know(pod, peer.identity)
        it.transitions = it.fleet.spec()["leaseTransitions"]
        peer.kill()
    for it, _, pod in pairs:
        wait_to_lead(pod, timeout=FAST_DURATION * FOREIGN_FACTOR + SOON)
        assert it.waited(pod) >= FAST_DURATION * FOREIGN_FACTOR - 0.02
    for it, peer, pod in pairs:
        it.assert_kept(it.transitions + 1)
        peer.start()
        pod.kill()
    for it, peer, _ in pairs:
        wait_to_lead(peer, timeout=FAST_DURATION + PEER_RETRY + SOON)
        it.assert_kept(it.transitions + 2)
        it.assert_obedient()


@pytest.mark.slow
def test_p10_released_leases_are_taken_at_once_in_both_directions(stage: StageMaker) -> None:
    stages = {version: stage(f"controller-{version}") for version in VERSIONS}
    pairs = []
    for version, it in stages.items():
        peer = it.peer(version, releases=True, timing=LONG_PEER)
        wait_to_lead(peer, timeout=PEER_RETRY + SOON)
        pairs.append((it, peer, it.fleet.add("--release-on-term", timing=LONG)))
    for it, peer, pod in pairs:
        wait_to_know(pod, peer.identity)
        peer.terminate()
        assert peer.wait() == 0
        # Without a lease's wait, and before a silent watch is doubted: it tells of the release.
        wait_to_lead(pod, timeout=SOON)
        assert it.waited(pod) < LONG_SILENCE
    for _, peer, pod in pairs:
        peer.start()
        pod.terminate()
        assert pod.wait() == 0
    for it, peer, _ in pairs:
        wait_to_lead(peer, timeout=PEER_RETRY + SOON)
        it.assert_obedient()


@pytest.mark.slow
def test_p10_a_blanking_ex_leader_does_not_take_the_lead_from_a_living_one(
    stage: StageMaker,
) -> None:
    """Hazard H4: frozen, replaced, told to end and woken, client-go blanks the Lease of another."""
    it = stage("controller")
    peer = it.peer(REFERENCE, releases=True)
    wait_to_lead(peer, timeout=PEER_RETRY + SOON)
    pod = it.fleet.add()
    wait_to_know(pod, peer.identity)
    peer.freeze()
    wait_to_lead(pod, timeout=FAST_DURATION * FOREIGN_FACTOR + SOON)
    token = pod.leader()["fencingToken"]
    with Timeline(pod) as timeline:
        peer.terminate()
        peer.thaw()
        peer.wait()
        wait_for(
            lambda: it.fleet.spec()["holderIdentity"] == pod.identity,
            timeout=SOON,
            what="the leader to stand in the Lease",
        )
        # And as any stranger could do it at any time.
        it.fleet.blank()
        wait_for(
            lambda: it.fleet.spec()["holderIdentity"] == pod.identity,
            timeout=SOON,
            what="the leader to write itself back",
        )
    assert set(timeline.statuses()) == {200}
    assert pod.leader()["fencingToken"] == token
    it.assert_obedient()


@pytest.mark.slow
def test_p10_ours_and_theirs_never_lead_at_once_while_nothing_fails(stage: StageMaker) -> None:
    it = stage("controller")
    pods = [it.fleet.add("--release-on-term") for _ in range(2)]
    peers = [it.peer(REFERENCE, releases=True) for _ in range(2)]
    everybody: list[ElectorPod | ClientGoCandidate] = [*pods, *peers]
    with Observer(pods) as observer:
        for _ in range(5):
            leaders: list[ElectorPod | ClientGoCandidate] = []

            def found(leaders: list[ElectorPod | ClientGoCandidate] = leaders) -> bool:
                leaders[:] = [each for each in everybody if each.is_leader()]
                return len(leaders) == 1

            wait_for(found, timeout=FAST_DURATION + PEER_RETRY + SOON, what="one leader")
            leaders[0].terminate()
            leaders[0].wait()
            leaders[0].start()
    terms = [term for peer in peers for term in peer.terms()]
    assert terms or len(observer.tokens()) > 1
    for term in terms:
        end = term.ended_at or boottime()
        both = [
            ready
            for ready in observer.answers()
            if term.started_at < ready.sent and ready.received < end
        ]
        assert not both, f"{term} beside {both[0]}"
    observer.assert_exclusive()
    it.assert_obedient(observer)


@pytest.mark.long
@pytest.mark.slow
def test_p10_the_duration_that_counts_is_the_holders(stage: StageMaker) -> None:
    long = ("--lease-duration", "7s", "--renew-interval", "1s", "--request-timeout", "2s")
    ours, theirs = stage("ours"), stage("theirs")
    patient = ours.fleet.add(timing=long)
    wait_to_lead(patient, timeout=SOON)
    quick = ours.fleet.add()
    peer = theirs.peer(
        REFERENCE, timing=("--lease-duration=6s", "--renew-deadline=4s", "--retry-period=1s")
    )
    wait_to_lead(peer, timeout=PEER_RETRY + SOON)
    follower = theirs.fleet.add()
    wait_to_know(quick, patient.identity)
    wait_to_know(follower, peer.identity)
    patient.kill()
    peer.kill()
    patient.start()
    wait_to_lead(quick, timeout=7.0 + SOON)
    assert ours.waited(quick) >= 7.0 - 0.02
    wait_to_know(patient, quick.identity)
    # Only a renewal proves that a shorter duration is the holder's own, and no edit.
    renewed = ours.fleet.spec()["renewTime"]
    wait_for(lambda: ours.fleet.spec()["renewTime"] != renewed, timeout=SOON, what="a renewal")
    wait_for(
        lambda: patient.leader()["renewTime"] != renewed, timeout=SOON, what="it to be noticed"
    )
    quick.kill()
    wait_to_lead(follower, timeout=6.0 * FOREIGN_FACTOR + SOON)
    assert theirs.waited(follower) >= 6.0 * FOREIGN_FACTOR - 0.02
    wait_to_lead(patient, timeout=FAST_DURATION + SOON)
    assert FAST_DURATION - 0.02 <= ours.waited(patient) < 7.0
