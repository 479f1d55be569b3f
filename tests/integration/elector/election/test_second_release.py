"""One process may lead, give up and lead again: each giving up is a release of its own."""

from tools.harness.controlplane.clients.answer import boottime
from tools.harness.pods.elector import ElectorPod
from tools.harness.pods.fleet import Fleet
from tools.harness.pods.observers.observer import wait_for, wait_for_leader

# Seconds for the end of a leader that has released: far below the farewell to companions.
QUICK = 1.5
# One of so many ends is quick also where this machine stands still now and then.
ATTEMPTS = 4


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
    pod = fleet.add("--release-on-term", start=False)
    assert any(_end(pod.start()) < QUICK for _ in range(ATTEMPTS))


def _end(pod: ElectorPod) -> float:
    """Seconds from the SIGTERM of a leader to its end."""
    wait_for_leader([pod], timeout=20)
    wait_for(lambda: "events are forbidden" in pod.log_text(), timeout=20, what="a refusal")
    started = boottime()
    pod.terminate()
    assert pod.wait() == 0
    return boottime() - started
