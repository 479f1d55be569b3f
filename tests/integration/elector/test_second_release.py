"""One process may lead, give up and lead again: each giving up is a release of its own."""

import time

from tests.controlplane.answer import boottime
from tests.integration.elector.api_servers import ON_BOTH
from tests.pods.fleet import Fleet
from tests.pods.observer import wait_for_leader

# Seconds for the end of a leader that has released: far below the farewell to companions.
QUICK = 1.5


@ON_BOTH
def test_a_second_release_by_the_same_process_is_a_release_too(fleet: Fleet) -> None:
    fleet.create_empty_lease()
    pod = fleet.add("--release-on-term")
    wait_for_leader([pod], timeout=5)
    resigned = pod.ask("/resign?cooldown=1s", method="POST", timeout=5)
    assert resigned is not None
    assert resigned.status == 200
    assert fleet.spec()["holderIdentity"] == ""
    wait_for_leader([pod], timeout=10)
    pod.terminate()
    assert pod.wait() == 0
    assert fleet.spec()["holderIdentity"] == ""


def test_a_leader_that_may_not_record_events_does_not_wait_for_them(fleet: Fleet) -> None:
    fleet.create_empty_lease()
    pod = fleet.add("--release-on-term")
    wait_for_leader([pod], timeout=5)
    deadline = boottime() + 5
    while "events are forbidden" not in pod.log_text() and boottime() < deadline:
        time.sleep(0.02)
    assert "events are forbidden" in pod.log_text()
    started = boottime()
    pod.terminate()
    assert pod.wait() == 0
    assert boottime() - started < QUICK
