"""P7, fast: a released Lease is taken at once, an expired one when it expires."""

import pytest

from tests.integration.elector.api_servers import ON_BOTH
from tests.pods.fleet import FAST_DURATION, Fleet
from tests.pods.observer import Observer, wait_for, wait_for_leader


@ON_BOTH
def test_p7_fast_a_released_lease_is_taken_at_once(fleet: Fleet) -> None:
    fleet.create_empty_lease()
    pods = [fleet.add("--release-on-term") for _ in range(3)]
    with Observer(pods) as observer:
        leader = wait_for_leader(pods, timeout=5)
        wait_for(lambda: observer.tokens() != [], timeout=5, what="the observer sees the leader")
        leader.terminate()
        others = [pod for pod in pods if pod is not leader]
        successor = wait_for_leader(others, timeout=FAST_DURATION / 2)
        assert leader.wait() == 0
        assert fleet.spec()["holderIdentity"] == successor.identity
        wait_for(
            lambda: len(observer.tokens()) > 1, timeout=5, what="the observer sees the successor"
        )
    observer.assert_exclusive()
    assert observer.tokens() == sorted(observer.tokens())
    assert len(observer.tokens()) == 2


@ON_BOTH
@pytest.mark.slow
def test_a_killed_leader_is_followed_when_its_lease_expires_and_not_before(fleet: Fleet) -> None:
    fleet.create_empty_lease()
    pods = [fleet.add() for _ in range(3)]
    with Observer(pods) as observer:
        leader = wait_for_leader(pods, timeout=5)
        last_token = leader.leader()["fencingToken"]
        leader.kill()
        others = [pod for pod in pods if pod is not leader]
        took = wait_for(
            lambda: any(pod.is_leader() for pod in others),
            timeout=FAST_DURATION + 2,
            what="a successor",
        )
        wait_for(
            lambda: max(observer.tokens(), default=0) > last_token,
            timeout=2,
            what="the observer sees the successor's newer token",
        )
    # The last renewal was at most a renew interval before the kill.
    assert took > FAST_DURATION - 1.5
    observer.assert_exclusive()
