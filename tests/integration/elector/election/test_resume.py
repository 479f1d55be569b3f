"""P11: a crash of the elector's process alone is no change of leader.

The process that starts in the same pod, on the same port, goes on at once; every other one waits
like any candidate. The observer judges P1 all the time.
"""

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tools.harness.controlplane.reservation import Reservation
from tools.harness.pods.elector import ElectorPod
from tools.harness.pods.fleet import FAST, FAST_DURATION, STEADY, Fleet
from tools.harness.pods.observers.observer import Observer, wait_for, wait_for_leader

# Seconds: of a restart by kubelet.
RESTART = 1.0
# From the start of the process until it leads, on a busy machine; far below a lease.
AT_ONCE = 3.0


def pod_of(
    fleet: Fleet, port: int, *, uid: str, timing: tuple[str, ...] = STEADY, start: bool = True
) -> ElectorPod:
    listen = ("--listen", f"127.0.0.1:{port}")
    return fleet.add(*listen, timing=timing, environ={"POD_UID": uid}, start=start)


def kill(pod: ElectorPod) -> None:
    pod.kill()


class Crashing:
    """A leader on a port of its own, and a standby in another pod."""

    def __init__(self, fleet: Fleet, *, timing: tuple[str, ...] = STEADY) -> None:
        self.fleet = fleet
        self.reserved = Reservation()
        self.uid = str(uuid.uuid4())
        fleet.create_empty_lease()
        self.leader = pod_of(fleet, self.reserved.port, uid=self.uid, timing=timing)
        wait_for_leader([self.leader], timeout=20)
        self.standby = fleet.add(timing=timing, environ={"POD_UID": str(uuid.uuid4())})
        self.before = self.leader.leader()

    def restart(self) -> float:
        """Seconds from the start of the process until it leads."""
        kill(self.leader)
        time.sleep(RESTART)
        self.leader.start()
        return wait_for(self.leader.is_leader, timeout=AT_ONCE, what="it goes on")


@pytest.fixture
def crashing(fleet: Fleet) -> Iterator[Crashing]:
    it = Crashing(fleet)
    with Observer([it.leader, it.standby]) as observer:
        yield it
    observer.assert_exclusive()
    assert observer.tokens() == sorted(observer.tokens())
    it.reserved.release()


def test_p11_a_killed_elector_goes_on_with_a_new_identity_and_a_new_token(
    crashing: Crashing,
) -> None:
    crashing.restart()
    now = crashing.leader.leader()
    assert now["holder"] != crashing.before["holder"]
    assert now["holderPod"] == crashing.before["holderPod"]
    assert now["leaseTransitions"] == crashing.before["leaseTransitions"] + 1
    assert now["fencingToken"] > crashing.before["fencingToken"]
    assert not crashing.standby.is_leader()


def test_p11_a_process_that_crashes_again_within_a_minute_waits_and_says_why(
    crashing: Crashing,
) -> None:
    crashing.restart()
    kill(crashing.leader)
    crashing.leader.start()
    wait_for(
        lambda: "not resumed: this pod resumed" in crashing.leader.leader()["reason"],
        timeout=AT_ONCE,
        what="the reason is told",
    )
    assert not crashing.leader.is_leader()


def test_p11_what_the_dead_process_has_sent_late_makes_no_second_leader(
    crashing: Crashing,
) -> None:
    link = crashing.fleet.link(crashing.leader)
    link.delay_request(2.0)
    time.sleep(1.5)  # a renewal is under way
    kill(crashing.leader)
    link.heal()
    crashing.leader.start()
    wait_for(crashing.leader.is_leader, timeout=2 * AT_ONCE, what="it goes on")
    assert not crashing.standby.is_leader()


def test_p11_the_main_of_the_dead_process_may_be_at_work(fleet: Fleet) -> None:
    """By what that one said, though this one was not asked yet: nothing is released at once."""
    reserved, uid = Reservation(), str(uuid.uuid4())
    fleet.create_empty_lease()
    pod = pod_of(fleet, reserved.port, uid=uid)
    wait_for_leader([pod], timeout=20)
    kill(pod)
    pod.start()
    wait_for(lambda: "became leader" in pod.log_text(), timeout=AT_ONCE, what="it goes on")
    pod.terminate()
    wait_for(lambda: not pod.is_running, timeout=20, what="it ends")
    assert "the Lease is left to expire" in pod.log_text()
    reserved.release()


@contextmanager
def frozen(pod: ElectorPod) -> Iterator[None]:
    os.kill(pod.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pod.pid, signal.SIGCONT)


def test_p11_beside_a_frozen_process_nothing_starts_and_another_pod_leads(fleet: Fleet) -> None:
    it = Crashing(fleet, timing=FAST)
    with Observer([it.leader, it.standby]) as observer, frozen(it.leader):
        second = subprocess.run(
            [
                *(sys.executable, "-m", "elector_sidecar", "--lease", fleet.lease),
                *("--listen", f"127.0.0.1:{it.reserved.port}", *it.leader.flags),
            ],
            capture_output=True,
            check=False,
            env={"POD_UID": it.uid},
            text=True,
            timeout=20,
        )
        assert second.returncode != 0
        wait_for(it.standby.is_leader, timeout=FAST_DURATION + 3, what="the other pod leads")
    time.sleep(1.0)
    observer.assert_exclusive()
    it.reserved.release()


@pytest.mark.parametrize("other", ["another uid", "another port", "a free port", "no uid"])
def test_p11_another_process_than_that_of_the_same_pod_and_port_waits(
    fleet: Fleet, other: str
) -> None:
    """A namesake on another node, a second elector in the pod, one whose port proves nothing."""
    it = Crashing(fleet, timing=STEADY)
    kill(it.standby)
    kill(it.leader)
    elsewhere = Reservation()
    port = {"another port": elsewhere.port, "a free port": 0}.get(other, it.reserved.port)
    uid = {"another uid": str(uuid.uuid4()), "no uid": ""}.get(other, it.uid)
    second = pod_of(fleet, port, uid=uid)
    deadline = time.monotonic() + 2 * AT_ONCE
    while time.monotonic() < deadline:
        assert not second.is_leader()
        time.sleep(0.1)
    said = second.leader()["reason"]
    assert ("not resumed: the one before answered at" in said) == (other == "another port"), said
    it.reserved.release()
    elsewhere.release()


def test_p11_on_a_unix_socket_the_lock_beside_it_is_the_proof(fleet: Fleet, tmp_path: Path) -> None:
    fleet.create_empty_lease()
    flags = ("--listen", f"unix:{tmp_path}/e.sock", "--probe-listen", "127.0.0.1:0")
    pod = fleet.add(*flags, timing=STEADY, environ={"POD_UID": str(uuid.uuid4())})

    def transitions() -> int:
        return int(fleet.spec().get("leaseTransitions") or 0)

    wait_for(lambda: bool(fleet.spec().get("holderIdentity")), timeout=20, what="a leader")
    holder, count = fleet.spec()["holderIdentity"], transitions()
    kill(pod)
    pod.start()
    wait_for(lambda: fleet.spec()["holderIdentity"] != holder, timeout=AT_ONCE, what="it goes on")
    assert transitions() == count + 1
    assert (tmp_path / "e.sock.lock").exists()
