"""P1 and P2 while a process can open no file and no connection any more: descriptors exhausted.

It neither renews nor accepts, answers 503 in time on connections that it has, and recovers.
"""

import http.client
import resource
import time
from contextlib import closing

import pytest

from tools.harness.controlplane.clients.answer import Answer, boottime
from tools.harness.controlplane.fault_proxy.proxy import FaultProxy
from tools.harness.pods.elector import ElectorPod
from tools.harness.pods.fleet import FAST_DURATION, Fleet
from tools.harness.pods.observers.history import assert_backed, assert_polite, writes
from tools.harness.pods.observers.observer import Observer, Ready, wait_for


def exhaust(pod: ElectorPod, way: FaultProxy) -> tuple[int, int]:
    """No new descriptor for the pod, while it keeps those it has, but for connections to the API
    server, over which it could renew for minutes; returns its limits of before."""
    _, hard = limits = resource.prlimit(pod.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pod.pid, resource.RLIMIT_NOFILE, (0, hard))
    way.reset()
    way.heal()
    return limits


@pytest.mark.slow
def test_p2_a_leader_without_descriptors_says_503_in_time_and_recovers(fleet: Fleet) -> None:
    fleet.create_empty_lease()
    pod = fleet.add()
    wait_for(pod.is_leader, timeout=20, what="the lead")
    other = fleet.add()
    kept = http.client.HTTPConnection("127.0.0.1", pod.port, timeout=5)

    heard: list[Ready] = []

    def readyz() -> int:
        sent = boottime()
        kept.request("GET", "/readyz")
        with kept.getresponse() as response:
            answer = Answer(response.status, response.headers, response.read(), sent, boottime())
        ready = Ready.found(answer, pod=pod.name, identity=pod.identity)
        heard.extend([ready] if ready is not None else [])
        return answer.status

    with closing(kept), Observer([pod, other]) as observer:
        assert readyz() == 200
        limits = exhaust(pod, fleet.link(pod))
        wait_for(lambda: readyz() == 503, timeout=FAST_DURATION + 12, what="the end of the term")
        wait_for(other.is_leader, timeout=FAST_DURATION + 12, what="a successor")
        time.sleep(1)
        assert readyz() == 503
        resource.prlimit(pod.pid, resource.RLIMIT_NOFILE, limits)
        wait_for(
            lambda: pod.ask("/leader") is not None and pod.leader()["holder"] == other.identity,
            timeout=30,
            what="news and new connections",
        )
        other.kill()
        wait_for(pod.is_leader, timeout=FAST_DURATION + 12, what="the lead again")
    observer.assert_exclusive()
    history = writes(fleet.plane, fleet.namespace)
    assert_polite(history)
    assert_backed([*observer.answers(), *heard], history, duration=FAST_DURATION)
