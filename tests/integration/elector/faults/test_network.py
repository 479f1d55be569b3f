"""P1-P3 where the network breaks: cut, black-holed, late, one-sided, or the API server away.

Orders and invariants are asserted, not milliseconds: an observer outside polls all along.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from tests.integration.elector.timeline import Timeline
from tools.harness.controlplane.clients.answer import boottime
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.fault_proxy.proxy import FaultProxy
from tools.harness.pods.elector import ElectorPod
from tools.harness.pods.fleet import FAST_DURATION, STEADY, Fleet
from tools.harness.pods.observers.observer import Observer, wait_for, wait_for_leader

VALIDITY = FAST_DURATION * 0.95 - 0.25
RENEW_INTERVAL = 1.0
REQUEST_TIMEOUT = 2.0
# Outlasts a request without an answer also where this machine stands still for seconds.
PATIENT = ("--lease-duration", "10s", "--renew-interval", "1s", "--request-timeout", "2s")
# Seconds for what needs some round trips and a busy machine.
SOON = 10.0

Cut = Callable[[FaultProxy], None]
CUTS: dict[str, Cut] = {
    "refuse": FaultProxy.refuse,
    "reset": FaultProxy.reset,
    "black-hole": FaultProxy.black_hole,
    "delay-beyond-the-time-out": lambda link: link.delay(REQUEST_TIMEOUT + 0.5),
}


def leading(fleet: Fleet, *, timing: tuple[str, ...]) -> ElectorPod:
    """On an empty Lease, before a standby."""
    fleet.create_empty_lease()
    pod = fleet.add(timing=timing)
    wait_for(pod.is_leader, timeout=2 * SOON, what="the lead")
    fleet.add(timing=timing)
    return pod


def pause(seconds: float) -> None:
    """While observers poll."""
    time.sleep(seconds)


@dataclass
class Scene:
    """One of several Leases, whose pods are cut off in one way each."""

    cut: Cut
    fleet: Fleet
    leader: ElectorPod
    standby: ElectorPod
    observer: Observer
    token: int


@pytest.fixture
def scenes(control_plane: ControlPlane, namespace: str) -> Iterator[list[Scene]]:
    """A leader and a standby for every way to cut, all at once: each test takes a lease's time."""
    with ExitStack() as stack:
        fleets = [stack.enter_context(Fleet(control_plane, namespace, lease=name)) for name in CUTS]
        for fleet in fleets:
            fleet.create_empty_lease()
            for _ in range(2):
                fleet.add(start=False).start(wait=False)
        made = []
        for cut, fleet in zip(CUTS.values(), fleets, strict=True):
            for pod in fleet.pods:
                pod.wait_listening()
            leader = wait_for_leader(fleet.pods, timeout=SOON + FAST_DURATION)
            (standby,) = (pod for pod in fleet.pods if pod is not leader)
            wait_for(
                lambda standby=standby, leader=leader: (  # type: ignore[misc]
                    standby.leader()["holder"] == leader.identity
                ),
                timeout=SOON,
                what="a standby that knows the leader",
            )
            observer = stack.enter_context(Observer(fleet.pods, interval=0.05))
            token = leader.leader()["fencingToken"]
            made.append(Scene(cut, fleet, leader, standby, observer, token))
        yield made


@pytest.mark.slow
def test_a_leader_that_is_cut_off_answers_503_in_time_and_is_followed(scenes: list[Scene]) -> None:
    ends = []
    for scene in scenes:
        scene.cut(scene.fleet.link(scene.leader))
        # A renewal of before may still be on its way back: what it proves was sent before.
        ends.append(boottime() + VALIDITY)
    for scene in scenes:
        wait_for(scene.standby.is_leader, timeout=FAST_DURATION + SOON, what="a successor")
        assert scene.leader.readyz() == 503
        scene.fleet.link(scene.leader).heal()
    for scene, end in zip(scenes, ends, strict=True):
        wait_for(
            lambda scene=scene: (  # type: ignore[misc]
                scene.leader.leader()["holder"] == scene.standby.identity
            ),
            timeout=REQUEST_TIMEOUT * 2 + SOON,
            what="the old leader to know the new one",
        )
        assert scene.standby.leader()["fencingToken"] > scene.token
        scene.observer.assert_exclusive()
        answers = scene.observer.answers()
        assert all(ready.sent < ready.valid_until for ready in answers)
        assert all(ready.sent < end for ready in answers if ready.token == scene.token)


@pytest.mark.slow
def test_when_all_are_cut_off_nobody_leads_and_then_one_does(scenes: list[Scene]) -> None:
    ends = []
    for scene in scenes:
        for pod in scene.fleet.pods:
            scene.cut(scene.fleet.link(pod))
        ends.append(boottime() + VALIDITY)
    for scene in scenes:
        wait_for(
            lambda scene=scene: (  # type: ignore[misc]
                {pod.readyz() for pod in scene.fleet.pods} == {503}
            ),
            timeout=VALIDITY + SOON,
            what="nobody to lead",
        )
    for scene in scenes:
        for pod in scene.fleet.pods:
            scene.fleet.link(pod).heal()
    for scene, end in zip(scenes, ends, strict=True):
        leader = wait_for_leader(scene.fleet.pods, timeout=FAST_DURATION + SOON)
        assert leader.leader()["fencingToken"] > scene.token
        scene.observer.assert_exclusive()
        answers = scene.observer.answers()
        assert all(ready.sent < end for ready in answers if ready.token == scene.token)


def test_p3_a_lost_response_is_no_loss(fleet: Fleet) -> None:
    """The renewal was applied: the event that shows it acknowledges it, whatever was not said."""
    leader = leading(fleet, timing=PATIENT)
    link, transitions = fleet.link(leader), fleet.spec()["leaseTransitions"]
    token, lost_before = leader.leader()["fencingToken"], link.traffic().lost_responses
    with Observer(fleet.pods) as observer, Timeline(leader) as timeline:
        for reset in (False, True):
            lost = link.traffic().lost_responses
            link.lose_response(connections=1, reset=reset)
            wait_for(
                lambda lost=lost: link.traffic().lost_responses > lost,  # type: ignore[misc]
                timeout=RENEW_INTERVAL + SOON,
                what="a lost response",
            )
            renewed = fleet.spec()["renewTime"]
            wait_for(
                lambda renewed=renewed: fleet.spec()["renewTime"] != renewed,  # type: ignore[misc]
                timeout=RENEW_INTERVAL + SOON,
                what="the next renewal",
            )
    assert link.traffic().lost_responses >= lost_before + 2
    assert set(timeline.statuses()) == {200}
    assert leader.leader()["fencingToken"] == token
    assert fleet.spec()["leaseTransitions"] == transitions
    observer.assert_exclusive()


def test_a_leader_whose_watch_is_dead_steps_down_when_its_write_meets_another_holder(
    fleet: Fleet,
) -> None:
    leader = leading(fleet, timing=STEADY)
    fleet.link(leader).silence()
    fleet.edit(spec={"holderIdentity": "thief", "leaseDurationSeconds": 60})
    wait_for(lambda: leader.readyz() == 503, timeout=RENEW_INTERVAL + SOON, what="the leader to go")
    assert fleet.spec()["holderIdentity"] == "thief"


@pytest.mark.long
@pytest.mark.slow
def test_p5_over_a_slow_link_a_leader_is_found_and_kept_at_the_defaults(fleet: Fleet) -> None:
    """A handshake and a request, each 2.5 s late, are more than --request-timeout together."""
    fleet.create_empty_lease()
    pod = fleet.add(timing=(), start=False)
    fleet.link(pod).delay_response(2.5)
    pod.start()
    wait_for(pod.is_leader, timeout=15 + SOON, what="the lead")
    token = pod.leader()["fencingToken"]
    with Timeline(pod) as timeline:
        pause(16)  # longer than a proof of the lead lasts
    assert set(timeline.statuses()) == {200}
    assert pod.leader()["fencingToken"] == token
