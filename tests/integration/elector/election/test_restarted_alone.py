"""P6 with --release-on-term, which says that the main has ended: kubelet also restarts the sidecar
alone, when its image is replaced or its liveness probe fails. Then nothing is released, and the
next process of the pod goes on."""

import http.client
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager

import pytest

from elector_sidecar.promised_clients import BRIEF
from tests.integration.elector.election.test_resume import AT_ONCE, RESTART
from tests.integration.elector.election.test_shutdown import (
    EXIT_SLACK,
    RELEASE_TIMEOUT,
    assert_not_released,
    assert_released,
)
from tools.harness.controlplane.reservation import Reservation
from tools.harness.pods.elector import ElectorPod
from tools.harness.pods.fleet import STEADY, Fleet
from tools.harness.pods.observers.observer import Observer, wait_for
from tools.harness.pods.wire.http_client import Stream

# Seconds between two questions of a main that connects for each.
INTERVAL = 0.5

Main = Callable[[ElectorPod], AbstractContextManager[object]]


@contextmanager
def kept(pod: ElectorPod) -> Iterator[None]:
    with closing(http.client.HTTPConnection("127.0.0.1", pod.port, timeout=10)) as connection:
        connection.request("GET", "/readyz?min_remaining=1s")
        assert connection.getresponse().read() == b"ok\n"
        yield


@contextmanager
def polling(pod: ElectorPod, path: str = "/leader") -> Iterator[None]:
    is_over = threading.Event()

    def poll() -> None:
        while not is_over.wait(INTERVAL):
            pod.ask(path)

    thread = threading.Thread(target=poll)
    thread.start()
    time.sleep(4 * INTERVAL)
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def polling_contrib(pod: ElectorPod) -> AbstractContextManager[None]:
    return polling(pod, "/")


@pytest.fixture
def leader(fleet: Fleet) -> Iterator[ElectorPod]:
    reserved = Reservation()
    fleet.create_empty_lease()
    port = ("--listen", f"127.0.0.1:{reserved.port}", "--release-on-term")
    pod = fleet.add(*port, timing=STEADY, environ={"POD_UID": "b6d2"})
    wait_for(pod.is_leader, timeout=20, what="the lead")
    yield pod
    reserved.release()


@pytest.mark.parametrize("main", [Stream, kept, polling, polling_contrib])
def test_p6_beside_a_main_nothing_is_released_and_the_next_process_goes_on(
    fleet: Fleet, leader: ElectorPod, main: Main
) -> None:
    standby = fleet.add(timing=STEADY)
    with Observer([leader, standby]) as observer:
        with main(leader):
            leader.terminate()
            assert leader.wait(RELEASE_TIMEOUT + EXIT_SLACK) == 0
        assert_not_released(fleet, leader)
        time.sleep(RESTART)
        leader.start()
        wait_for(leader.is_leader, timeout=AT_ONCE, what="it goes on")
        assert not standby.is_leader()
    observer.assert_exclusive()
    assert {it.pod for it in observer.answers()} == {leader.name}


@pytest.mark.parametrize("main", [Stream, kept, polling])
def test_p6_once_the_main_has_ended_the_lease_is_released(
    fleet: Fleet, leader: ElectorPod, main: Main
) -> None:
    with main(leader):
        time.sleep(2 * BRIEF)
    terminated_at = time.monotonic()
    leader.terminate()
    assert leader.wait(RELEASE_TIMEOUT + EXIT_SLACK) == 0
    assert_released(fleet)
    # Far below the 10 s for which the last answer was valid.
    assert time.monotonic() - terminated_at < RELEASE_TIMEOUT


def test_p6_who_only_looks_is_no_main(fleet: Fleet, leader: ElectorPod) -> None:
    with (
        Stream(leader, path="/leader?watch=true&promise=false"),
        polling(leader, "/readyz?promise=false"),
        polling(leader, "/metrics"),
    ):
        leader.terminate()
        assert leader.wait(RELEASE_TIMEOUT + EXIT_SLACK) == 0
    assert_released(fleet)
