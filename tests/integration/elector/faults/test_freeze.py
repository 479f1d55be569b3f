"""P1, P2, P4, P5 while processes freeze: SIGSTOP, a blocked event loop, signals that queue up.

What waited for a frozen process (requests in its socket, answers of the API server, a SIGTERM)
meets it when it wakes; the observer and the API server's audit log judge what it does then.
"""

import os
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.integration.elector.timeline import Timeline
from tools.harness.controlplane.clients.answer import boottime
from tools.harness.pods.elector import ELECTOR_RULES, ElectorPod
from tools.harness.pods.fleet import FAST_DURATION, STEADY, STEADY_DURATION, Fleet
from tools.harness.pods.observers.history import (
    CLOCK_TOLERANCE,
    assert_backed,
    assert_polite,
    writes,
)
from tools.harness.pods.observers.observer import Observer, wait_for, wait_for_leader

# Validity of either after the last renewal's sending: its duration x 0.95 - 0.25 s.
FAST_VALIDITY = 3.55
STEADY_VALIDITY = 18.75
KEPT_ALIVE = 4
NEW_CONNECTIONS = 8
REQUEST = b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n"


class RawClient:
    """One connection that stays open, so that requests can wait in the pod's socket."""

    def __init__(self, pod: ElectorPod) -> None:
        self._socket = socket.create_connection(("127.0.0.1", pod.port), timeout=10)

    def send(self) -> None:
        self._socket.sendall(REQUEST)

    def status(self) -> int:
        """Of the next answer."""
        answer = b""
        while b"\r\n\r\n" not in answer:
            chunk = self._socket.recv(1)
            assert chunk, f"the connection was closed: {answer!r}"
            answer += chunk
        head, _, _ = answer.partition(b"\r\n\r\n")
        length = next(
            int(line.partition(b":")[2])
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"content-length")
        )
        while length:
            length -= len(self._socket.recv(length))
        return int(head.split()[1])

    def close(self) -> None:
        self._socket.close()


def clients(stack: ExitStack, pod: ElectorPod, count: int) -> list[RawClient]:
    made = [RawClient(pod) for _ in range(count)]
    for client in made:
        stack.callback(client.close)
    return made


def judge(fleet: Fleet, observer: Observer, *, duration: float = FAST_DURATION) -> None:
    """All that an outside observer can hold against the pods, whose leases are that long."""
    history = writes(fleet.plane, fleet.namespace)
    observer.assert_exclusive()
    assert observer.tokens() == sorted(observer.tokens())
    assert_polite(history)
    assert_backed(observer.answers(), history, duration=duration)


def renewal(fleet: Fleet, pod: ElectorPod) -> Callable[[], bool]:
    """Whether the API server has applied another write of the pod since now."""
    before = len(writes_of(fleet, pod))
    return lambda: len(writes_of(fleet, pod)) > before


def writes_of(fleet: Fleet, pod: ElectorPod) -> list[float]:
    history = writes(fleet.plane, fleet.namespace)
    return [write.received for write in history if write.writer == pod.identity]


def test_p2_true_at_the_moment_of_the_answer_also_for_requests_that_waited_in_the_socket(
    fleet: Fleet,
) -> None:
    fleet.create_empty_lease()
    pod = fleet.add()
    wait_for(pod.is_leader, timeout=20, what="the lead")
    token = pod.leader()["fencingToken"]
    with ExitStack() as stack:
        waiting = clients(stack, pod, KEPT_ALIVE)
        for client in waiting:
            client.send()
            assert client.status() == 200
        pod.freeze()
        frozen_at = boottime()
        # In the sockets of open connections, and in the backlog of the listener.
        waiting += clients(stack, pod, NEW_CONNECTIONS)
        for client in waiting:
            client.send()
        # It wakes before it has talked to anybody, and cannot talk to anybody.
        fleet.link(pod).black_hole()
        time.sleep(max(frozen_at + FAST_VALIDITY - boottime(), 0.0) + 0.1)
        pod.thaw()
        assert [client.status() for client in waiting] == [503] * len(waiting)
        fleet.link(pod).heal()
        wait_for(pod.is_leader, timeout=FAST_DURATION + 10, what="the lead again")
    assert pod.leader()["fencingToken"] > token


def test_requests_that_waited_for_a_short_freeze_are_answered_200_by_a_leader_that_still_is(
    fleet: Fleet,
) -> None:
    fleet.create_empty_lease()
    pod = fleet.add(timing=STEADY)
    wait_for(pod.is_leader, timeout=20, what="the lead")
    token = pod.leader()["fencingToken"]
    with ExitStack() as stack:
        pod.freeze()
        waiting = clients(stack, pod, NEW_CONNECTIONS)
        for client in waiting:
            client.send()
        time.sleep(1)
        pod.thaw()
        assert [client.status() for client in waiting] == [200] * len(waiting)
    assert pod.leader()["fencingToken"] == token


@pytest.mark.slow
def test_p3_an_answer_that_waited_in_the_socket_renews_from_its_sending(fleet: Fleet) -> None:
    """Frozen between a PUT's sending and its response, shorter than the lease."""
    fleet.create_empty_lease()
    pods = [fleet.add(timing=STEADY) for _ in range(2)]
    with Observer(pods) as observer:
        leader = wait_for_leader(pods, timeout=20)
        token = leader.leader()["fencingToken"]
        fleet.link(leader).delay_response(0.4)
        wait_for(renewal(fleet, leader), timeout=20, what="a renewal under way", interval=0.005)
        leader.freeze()
        # The answer comes through to the frozen process's socket; nothing else will.
        fleet.link(leader).heal()
        time.sleep(1.0)
        fleet.link(leader).black_hole()
        *_, earlier, waited = writes_of(fleet, leader)
        leader.thaw()

        def until() -> float:
            answer = leader.ask("/readyz")
            assert answer is not None
            assert answer.status == 200
            return float(answer.headers["X-Leader-Valid-Until"])

        # Later than any earlier write can make it, for it was sent when that had been answered.
        wait_for(
            lambda: until() > earlier + STEADY_VALIDITY, timeout=12, what="the renewal to count"
        )
        assert until() <= waited + STEADY_VALIDITY + CLOCK_TOLERANCE
        fleet.link(leader).heal()
        assert leader.leader()["fencingToken"] == token
    judge(fleet, observer, duration=STEADY_DURATION)


@pytest.mark.slow
def test_p4_compare_and_swap_a_sigterm_that_queued_up_never_blanks_the_new_leader(
    fleet: Fleet,
) -> None:
    """client-go with ReleaseOnCancel blanks the new leader's Lease in 9 of 10 runs (H4)."""
    fleet.create_empty_lease()
    pods = [fleet.add("--release-on-term") for _ in range(2)]
    with Observer(pods) as observer:
        for _ in range(3):
            leader = wait_for_leader(pods, timeout=20)
            leader.freeze()
            leader.terminate()
            others = [pod for pod in pods if pod is not leader]
            successor = wait_for_leader(others, timeout=FAST_DURATION + 10)
            token = successor.leader()["fencingToken"]
            leader.thaw()
            assert leader.wait() == 0
            assert fleet.spec()["holderIdentity"] == successor.identity
            assert successor.leader()["fencingToken"] == token
            assert successor.is_leader()
            leader.start()
    judge(fleet, observer)


@pytest.mark.slow
def test_a_blocked_event_loop_stops_leading_though_the_process_runs(fleet: Fleet) -> None:
    """A file system that hangs (kubelet's token volume as a FIFO) blocks the loop in read(2)."""
    fleet.create_empty_lease()
    account = fleet.plane.service_account_dir(fleet.namespace, "elector", ELECTOR_RULES)
    blocked = fleet.add(credentials=account)
    wait_for(blocked.is_leader, timeout=20, what="the lead")
    other = fleet.add()
    token_file = account.path / "token"
    token = token_file.read_text()
    with Observer([blocked, other]) as observer, ExitStack() as stack:
        waiting = clients(stack, blocked, KEPT_ALIVE)
        release = hang(token_file)
        # The next renewal reads the token, and the loop stands still.
        wait_for(lambda: blocked.readyz() is None, timeout=8, what="a blocked loop")
        # Nothing waits in its sockets that could tell it of the other.
        fleet.link(blocked).black_hole()
        waiting += clients(stack, blocked, NEW_CONNECTIONS)
        for client in waiting:
            client.send()
        wait_for(other.is_leader, timeout=FAST_DURATION + 10, what="the other's lead")
        release(token)
        assert [client.status() for client in waiting] == [503] * len(waiting)
        fleet.link(blocked).heal()
        wait_for(lambda: blocked.leader()["holder"] == other.identity, timeout=20, what="the news")
    judge(fleet, observer)


def hang(path: Path) -> Callable[[str], None]:
    """Makes every reader of the file block, until the returned function supplies its content."""
    fifo, content = path.with_name("hanging"), path.with_name("content")
    os.mkfifo(fifo)
    kept = path.with_name("kept")
    os.link(fifo, kept)
    fifo.rename(path)

    def release(text: str) -> None:
        content.write_text(text)
        content.rename(path)
        kept.write_text(text)

    return release


def test_p9_honest_liveness_is_not_lost_with_the_api_server(fleet: Fleet) -> None:
    fleet.create_empty_lease()
    pod = fleet.add()
    wait_for(pod.is_leader, timeout=20, what="the lead")
    with Timeline(pod, "/livez") as liveness:
        fleet.link(pod).refuse()
        time.sleep(FAST_DURATION + 2)
        assert pod.readyz() == 503
        fleet.link(pod).heal()
        wait_for(pod.is_leader, timeout=FAST_DURATION + 10, what="the lead again")
    assert set(liveness.statuses()) == {200}
