"""P5 and P6: who stops leading says so at once, goes on renewing while its main drains, and
releases only when the main has surely stopped; otherwise the Lease expires by itself.
"""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

import pytest

from tests.integration.elector.timeline import Timeline
from tools.harness.controlplane.clients.answer import Answer, boottime
from tools.harness.pods.elector import ElectorPod
from tools.harness.pods.fleet import FAST, FAST_DURATION, Fleet
from tools.harness.pods.main import MainServer
from tools.harness.pods.observers.history import ANNOTATION, Write, assert_polite, writes
from tools.harness.pods.observers.observer import Observer, wait_for, wait_for_leader
from tools.harness.pods.wire.raw_server import RawServer, hold

# P6: a release is given up after two requests' time (2 s each with FAST).
RELEASE_TIMEOUT = 4.0
# All that is told at the end, together.
FAREWELLS = 2.0
# A process that ends, on a busy machine.
EXIT_SLACK = 10.0


def leading(fleet: Fleet, *flags: str, timing: tuple[str, ...] = FAST) -> ElectorPod:
    fleet.create_empty_lease()
    pod = fleet.add(*flags, timing=timing)
    wait_for(pod.is_leader, timeout=20, what="the lead")
    return pod


def history(fleet: Fleet) -> list[Write]:
    return writes(fleet.plane, fleet.namespace)


def exits(pod: ElectorPod, *, within: float) -> None:
    start = boottime()
    assert pod.wait(within + EXIT_SLACK) == 0
    assert boottime() - start < within + EXIT_SLACK


def assert_released(fleet: Fleet, *, transitions: int = 1) -> None:
    lease = fleet.get_lease()
    assert lease is not None
    assert lease["spec"].get("holderIdentity", "") == ""
    assert lease["spec"]["leaseDurationSeconds"] == 1
    assert lease["spec"]["leaseTransitions"] == transitions
    assert ANNOTATION not in lease["metadata"].get("annotations", {})


def assert_not_released(fleet: Fleet, pod: ElectorPod) -> None:
    assert fleet.spec()["holderIdentity"] == pod.identity
    assert all(write.holder for write in history(fleet)[1:])


def resign(pod: ElectorPod, cooldown: str, *, timeout: float = 20.0) -> Answer:
    answer = pod.ask(f"/resign?cooldown={cooldown}", method="POST", timeout=timeout)
    assert answer is not None
    return answer


def test_p5_the_first_sigterm_of_an_idle_standby_ends_it_with_0(fleet: Fleet) -> None:
    leader = leading(fleet)
    token = leader.leader()["fencingToken"]
    standby = fleet.add("--release-on-term")
    standby.terminate()
    exits(standby, within=1)
    assert leader.leader()["fencingToken"] == token
    assert {write.writer for write in history(fleet)} == {"", leader.identity}


def test_p5_a_second_sigterm_ends_it_at_once_and_non_zero(fleet: Fleet) -> None:
    with MainServer(drain=0) as main:
        pod = leading(fleet, "--drain-url", main.url + "/drain", "--drain-timeout", "60s")
        pod.terminate()
        wait_for(lambda: main.asked("/drain") == 1, timeout=10, what="the drain")
        pod.terminate()
        assert pod.wait(EXIT_SLACK) == 1
        assert_not_released(fleet, pod)


def test_p6_release_on_term_releases_as_client_go_does(fleet: Fleet) -> None:
    pod = leading(fleet, "--release-on-term")
    with Timeline(pod) as timeline:
        pod.terminate()
        exits(pod, within=RELEASE_TIMEOUT)
    assert_released(fleet)
    released = history(fleet)[-1]
    assert released.writer == pod.identity
    # Nobody was told 200 when the Lease was free already.
    assert 200 not in timeline.statuses(since=released.received)


def test_p6_gives_up_in_order_503_then_the_drain_then_the_release(fleet: Fleet) -> None:
    """The lease goes on being renewed for as long as the main drains."""
    with MainServer(drain=503) as main:
        pod = leading(fleet, "--drain-url", main.url + "/drain", "--drain-timeout", "20s")
        other = fleet.add()
        with Timeline(pod) as timeline, Observer([pod, other]) as observer:
            terminated_at = boottime()
            pod.terminate()
            wait_for(lambda: main.asked("/drain") >= 1, timeout=10, what="the drain")
            asked_at, method, _, _ = next(each for each in main.requests if each[2] == "/drain")
            # Longer than the lease: it lives only because it is renewed.
            time.sleep(FAST_DURATION + 1)
            assert fleet.spec()["holderIdentity"] == pod.identity
            assert not other.is_leader()
            drained_at = boottime()
            main.drain = 200
            exits(pod, within=RELEASE_TIMEOUT)
            wait_for(other.is_leader, timeout=10, what="a successor")
    assert method == "POST"
    assert 200 not in timeline.statuses(since=asked_at)
    # At once, and not with the end of the drain.
    assert timeline.first(503).sent - terminated_at < FAST_DURATION
    mine = [write for write in history(fleet) if write.writer == pod.identity]
    renewals = [write for write in mine if write.holder and write.received > asked_at]
    assert len(renewals) >= FAST_DURATION - 1
    assert mine[-1].holder == ""
    assert mine[-1].received > drained_at
    observer.assert_exclusive()
    assert_polite(history(fleet))


# ── SIGTERM meets the API ──


def test_a_sigterm_in_the_middle_of_a_write_releases_after_it(fleet: Fleet) -> None:
    pod = leading(fleet, "--release-on-term")
    fleet.link(pod).delay_response(0.3)
    before = len(history(fleet))
    wait_for(lambda: len(history(fleet)) > before, timeout=10, what="a write", interval=0.005)
    pod.terminate()
    exits(pod, within=RELEASE_TIMEOUT)
    assert_released(fleet)


def test_a_release_whose_answer_is_lost_ends_within_bounds(fleet: Fleet) -> None:
    pod = leading(fleet, "--release-on-term")
    fleet.link(pod).delay_response(0.3)
    pod.terminate()
    wait_for(lambda: history(fleet)[-1].holder == "", timeout=10, what="a release", interval=0.005)
    fleet.link(pod).black_hole()
    exits(pod, within=RELEASE_TIMEOUT)
    assert_released(fleet)


@pytest.mark.parametrize("outage", ["refuse", "black_hole", "lose_response"])
def test_a_sigterm_without_an_api_server_ends_within_bounds(fleet: Fleet, outage: str) -> None:
    pod = leading(fleet, "--release-on-term")
    getattr(fleet.link(pod), outage)()
    pod.terminate()
    exits(pod, within=RELEASE_TIMEOUT)
    assert_not_released(fleet, pod)


# ── SIGTERM, and nobody who listens to the last words ──


@contextmanager
def silent() -> Iterator[str]:
    """Takes each request and never answers."""
    with RawServer(hold) as server:
        yield server.url


@contextmanager
def black_hole() -> Iterator[str]:
    """Connections to it are never made: its queue is full, and the kernel drops what comes."""
    with ExitStack() as stack:
        server = stack.enter_context(socket.socket())
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        for _ in range(4):
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(server.getsockname())
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("nowhere", [silent, black_hole])
def test_all_farewells_together_end_in_time(
    fleet: Fleet, nowhere: Callable[[], AbstractContextManager[str]]
) -> None:
    """Span, metrics and notification wait for somebody who does not answer, side by side."""
    with nowhere() as url:
        fleet.create_empty_lease()
        environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_METRIC_EXPORT_INTERVAL": "500"}
        flags = ("--release-on-term", "--notify-url", f"{url}/notify")
        pod = fleet.add(*flags, environ=environ)
        wait_for_leader([pod], timeout=10)
        pod.terminate()
        exits(pod, within=FAREWELLS)
    assert_released(fleet)


# ── POST /resign ──


def test_a_resignation_is_a_release_and_stays_out_for_its_cooldown(fleet: Fleet) -> None:
    pod = leading(fleet)
    token = pod.leader()["fencingToken"]
    with Timeline(pod) as timeline:
        sent_at = boottime()
        answer = resign(pod, "3s")
        assert answer.status == 200
        assert_released(fleet)
        assert pod.leader()["role"] == "pending"
        wait_for(pod.is_leader, timeout=20, what="the lead again")
    again = timeline.first(200, since=answer.received)
    assert again.received - sent_at >= 3
    assert 200 not in timeline.statuses(since=answer.received, until=sent_at + 3)
    assert pod.leader()["fencingToken"] > token


def test_a_resignation_with_a_drain_url_waits_for_the_drain(fleet: Fleet) -> None:
    with MainServer(drain=503) as main:
        pod = leading(fleet, "--drain-url", main.url + "/drain", "--drain-timeout", "20s")
        with socket.create_connection(("127.0.0.1", pod.port)) as client:
            client.sendall(b"POST /resign?cooldown=60s HTTP/1.1\r\nHost: localhost\r\n\r\n")
            wait_for(lambda: main.asked("/drain") >= 1, timeout=10, what="the drain")
            client.settimeout(0.5)
            with pytest.raises(TimeoutError):
                client.recv(1)
        assert pod.readyz() == 503
        assert fleet.spec()["holderIdentity"] == pod.identity
        drained_at = boottime()
        main.drain = 200
        wait_for(
            lambda: not fleet.spec().get("holderIdentity"), timeout=RELEASE_TIMEOUT, what="release"
        )
    assert history(fleet)[-1].received > drained_at
    assert_released(fleet)
