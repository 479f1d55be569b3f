"""P7, fast: a released Lease is taken at once, an expired one when it expires."""

import pytest

from tools.harness.pods.fleet import FAST_DURATION, STEADY, STEADY_DURATION, Fleet
from tools.harness.pods.observers.history import assert_polite, writes
from tools.harness.pods.observers.observer import Observer, wait_for, wait_for_leader


def test_p7_fast_a_released_lease_is_taken_at_once(fleet: Fleet) -> None:
    fleet.create_empty_lease()
    pods = [fleet.add("--release-on-term", timing=STEADY) for _ in range(3)]
    with Observer(pods) as observer:
        leader = wait_for_leader(pods, timeout=20)
        wait_for(lambda: observer.tokens() != [], timeout=20, what="the observer sees the leader")
        leader.terminate()
        others = [pod for pod in pods if pod is not leader]
        successor = wait_for_leader(others, timeout=STEADY_DURATION / 2)
        assert leader.wait() == 0
        assert fleet.spec()["holderIdentity"] == successor.identity
        wait_for(
            lambda: len(observer.tokens()) > 1, timeout=20, what="the observer sees the successor"
        )
    observer.assert_exclusive()
    assert observer.tokens() == sorted(observer.tokens())
    assert len(observer.tokens()) == 2


@pytest.mark.slow
def test_a_killed_leader_is_followed_when_its_lease_expires_and_not_before(fleet: Fleet) -> None:
    fleet.create_empty_lease()
    pods = [fleet.add() for _ in range(3)]
    with Observer(pods) as observer:
        leader = wait_for_leader(pods, timeout=20)
        last_token = leader.leader()["fencingToken"]
        leader.kill()
        others = [pod for pod in pods if pod is not leader]
        wait_for(
            lambda: any(pod.is_leader() for pod in others),
            timeout=FAST_DURATION + 10,
            what="a successor",
        )
        wait_for(
            lambda: max(observer.tokens(), default=0) > last_token,
            timeout=10,
            what="the observer sees the successor's newer token",
        )
    history = writes(fleet.plane, fleet.namespace)
    assert history[-1].writer in {pod.identity for pod in others}
    assert_polite(history)
    observer.assert_exclusive()
