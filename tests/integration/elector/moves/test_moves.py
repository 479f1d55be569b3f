"""Switchovers, holds and priorities between real processes; the observer judges P1 all the time.

The administrator writes the annotations as `kubectl annotate` would.
"""

import os
import signal
import statistics
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.elector import ELECTOR_RULES, ElectorPod
from tools.harness.pods.fleet import FAST, FAST_DURATION, STEADY, Fleet
from tools.harness.pods.main import MainServer
from tools.harness.pods.observers.history import assert_polite, writes
from tools.harness.pods.observers.observer import Observer, Ready, wait_for, wait_for_leader

SWITCHOVER, HOLD = "edge-sidecars.io/switchover", "edge-sidecars.io/hold"
# The contract's numbers in seconds, written down a second time; and a busy machine's share.
SUCCESSION = 3.0
SLACK = 1.5
SOON = 20.0


class Moving:
    """Pods that share one main, which drains at once."""

    def __init__(self, fleet: Fleet, main: MainServer, *, timing: tuple[str, ...] = STEADY) -> None:
        self.fleet = fleet
        self.main = main
        self.timing = timing
        fleet.create_empty_lease()

    def add(self, *flags: str, timing: tuple[str, ...] | None = None) -> ElectorPod:
        drain = ("--drain-url", f"{self.main.url}/drain")
        return self.fleet.add(*drain, *flags, timing=timing or self.timing)

    def elect(self, count: int = 3) -> tuple[ElectorPod, list[ElectorPod]]:
        pods = [self.add() for _ in range(count)]
        leader = wait_for_leader(pods, timeout=SOON)
        others = [pod for pod in pods if pod is not leader]
        wait_for(
            lambda: all(it.leader()["holder"] == leader.identity for it in others),
            timeout=SOON,
            what="standbys that know the leader",
        )
        return leader, others

    def annotate(self, name: str, text: str | None) -> None:
        self.fleet.edit(metadata={"annotations": {name: text}})

    def annotations(self) -> dict[str, str]:
        lease = self.fleet.get_lease()
        assert lease is not None
        found: dict[str, str] = lease["metadata"].get("annotations") or {}
        return found


def in_seconds(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def switchover(to: str, *, seconds: float = 60.0, number: int = 1) -> str:
    return f'{{"to":"{to}","id":"ask-{number}","until":"{in_seconds(seconds)}"}}'


def hold(seconds: float = 600.0) -> str:
    return f'{{"id":"hold-1","until":"{in_seconds(seconds)}"}}'


def gaps(answers: Sequence[Ready]) -> list[float]:
    """Seconds between the last 200 of each term and the first of the next."""
    first: dict[int, float] = {}
    last: dict[int, float] = {}
    for ready in answers:
        first.setdefault(ready.token, ready.received)
        last[ready.token] = ready.received
    tokens = list(first)
    return [first[new] - last[old] for old, new in pairwise(tokens)]


@pytest.fixture
def moving(fleet: Fleet) -> Iterator[Moving]:
    with MainServer() as main:
        yield Moving(fleet, main)
    assert_polite(writes(fleet.plane, fleet.namespace))


def test_a_switchover_moves_the_lead_to_the_named_pod_at_once(moving: Moving) -> None:
    leader, others = moving.elect()
    with Observer([leader, *others]) as observer:
        wait_for(lambda: observer.tokens() != [], timeout=SOON, what="the observer sees the leader")
        for number, pod in enumerate([others[1], others[0], leader, others[1]]):
            moving.annotate(SWITCHOVER, switchover(pod.name, number=number))
            wait_for(pod.is_leader, timeout=SOON, what=f"{pod.name} leads")
            assert SWITCHOVER not in moving.annotations()
            # Until the one before contends again, and is a candidate.
            time.sleep(SUCCESSION + 0.2)
    observer.assert_exclusive()
    found = gaps(observer.answers())
    assert len(found) == 4
    assert statistics.median(found) < SUCCESSION / 2
    assert moving.main.asked("/drain") == 4


def test_a_switchover_to_a_pod_that_is_gone_is_for_all_after_three_seconds(moving: Moving) -> None:
    leader, others = moving.elect()
    with Observer([leader, *others]) as observer:
        wait_for(lambda: observer.tokens() != [], timeout=SOON, what="the observer sees the leader")
        moving.annotate(SWITCHOVER, switchover("pod-9"))
        wait_for(lambda: len(observer.tokens()) > 1, timeout=SOON, what="another term")
    observer.assert_exclusive()
    [gap] = gaps(observer.answers())
    assert SUCCESSION - 0.1 < gap < SUCCESSION + 0.5 + SLACK


def test_the_only_candidate_takes_its_own_lease_again_after_three_seconds(moving: Moving) -> None:
    leader, _ = moving.elect(1)
    moving.annotate(SWITCHOVER, switchover(""))
    wait_for(lambda: not leader.is_leader(), timeout=SOON, what="it gives up")
    took = wait_for(leader.is_leader, timeout=SOON, what="it leads again")
    assert SUCCESSION - 0.5 < took < SUCCESSION + SLACK


def test_resign_names_its_successor_or_says_why_it_cannot(
    control_plane: ControlPlane, moving: Moving
) -> None:
    rules = [*ELECTOR_RULES, {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    account = control_plane.service_account_dir(moving.fleet.namespace, "reader", rules)
    reader = moving.add("--service-account-dir", str(account.path))
    wait_for(reader.is_leader, timeout=SOON, what="the lead")
    other = moving.add()
    wait_for(lambda: other.leader()["holder"] == reader.identity, timeout=SOON, what="it is known")

    def resign(pod: ElectorPod, to: str) -> tuple[int, str]:
        answer = pod.ask(f"/resign?to={to}", method="POST", timeout=SOON)
        assert answer is not None
        return answer.status, answer.body.decode()

    assert resign(other, "pod-0") == (409, f"not leader: held by {reader.identity}\n")
    assert resign(reader, "pod-0") == (409, "pod-0 is this pod itself\n")
    status, why = resign(reader, other.name)
    assert (status, "there is no pod pod-1" in why) == (409, True)
    assert resign(reader, "Pod%201")[0] == 400
    assert reader.is_leader()


def test_resign_without_the_right_to_see_pods_accepts_the_successor(moving: Moving) -> None:
    leader, others = moving.elect()
    with Observer([leader, *others]) as observer:
        answer = leader.ask(f"/resign?to={others[1].name}", method="POST", timeout=SOON)
        assert answer is not None
        assert answer.status == 200
        wait_for(others[1].is_leader, timeout=SUCCESSION - 0.5, what="the successor leads")
    observer.assert_exclusive()


def test_a_hold_keeps_all_out_until_it_is_taken_off(moving: Moving) -> None:
    leader, others = moving.elect()
    pods = [leader, *others]
    with Observer(pods) as observer:
        moving.annotate(HOLD, hold())
        held = wait_for(lambda: not any(it.is_leader() for it in pods), timeout=SOON, what="free")
        time.sleep(SUCCESSION + 2.0)
        assert not any(it.is_leader() for it in pods)
        assert moving.fleet.spec().get("holderIdentity", "") == ""
        for pod in pods:
            answer = pod.ask("/readyz")
            assert answer is not None
            assert b"a hold keeps every elector out for another" in answer.body
            assert pod.leader()["role"] == "pending"
        moving.annotate(HOLD, None)
        resumed = wait_for(lambda: any(it.is_leader() for it in pods), timeout=SOON, what="a lead")
    observer.assert_exclusive()
    assert held < SLACK
    assert resumed < SLACK
    assert moving.main.asked("/drain") == 1


def test_a_hold_ends_by_itself(moving: Moving) -> None:
    leader, others = moving.elect()
    moving.annotate(HOLD, hold(6))
    began = time.monotonic()
    wait_for(lambda: not leader.is_leader(), timeout=SOON, what="it gives up")
    wait_for(lambda: any(it.is_leader() for it in [leader, *others]), timeout=SOON, what="a lead")
    # `until` has whole seconds.
    assert 4.9 < time.monotonic() - began < 6 + SLACK
    assert HOLD not in moving.annotations()


def test_a_hold_without_a_drain_url_lets_the_lease_expire_and_stay_free(fleet: Fleet) -> None:
    leader, others = fleet.elect(2)
    pods = [leader, *others]
    with Observer(pods) as observer:
        fleet.edit(metadata={"annotations": {HOLD: hold()}})
        wait_for(lambda: not leader.is_leader(), timeout=SLACK, what="it answers 503 at once")
        deadline = time.monotonic() + FAST_DURATION + 3.0
        while time.monotonic() < deadline:
            assert not any(it.is_leader() for it in pods)
            time.sleep(0.05)
        fleet.edit(metadata={"annotations": {HOLD: None}})
        wait_for(lambda: any(it.is_leader() for it in pods), timeout=SOON, what="a lead")
    observer.assert_exclusive()


def test_a_frozen_leader_with_a_switchover_pending_is_followed_when_its_lease_expires(
    fleet: Fleet,
) -> None:
    with MainServer() as main:
        moving = Moving(fleet, main, timing=FAST)
        leader, others = moving.elect()
        with Observer([leader, *others]) as observer:
            os.kill(leader.pid, signal.SIGSTOP)
            moving.annotate(SWITCHOVER, switchover(others[1].name))
            began = time.monotonic()
            wait_for(lambda: any(it.is_leader() for it in others), timeout=SOON, what="a lead")
            # The freeze may come just before a renewal.
            assert time.monotonic() - began > FAST_DURATION - 1.5
            os.kill(leader.pid, signal.SIGCONT)
            time.sleep(SUCCESSION)
            assert SWITCHOVER not in moving.annotations()
            assert not leader.is_leader()
        observer.assert_exclusive()
        assert len(observer.tokens()) <= 2
        assert main.asked("/drain") == 0
    assert_polite(writes(fleet.plane, fleet.namespace))


def test_annotations_that_are_garbled_or_removed_move_nothing(moving: Moving) -> None:
    leader, others = moving.elect(2)
    token = leader.leader()["fencingToken"]
    with Observer([leader, *others]) as observer:
        # The API server takes 256 KiB of annotations.
        for text in ("x" * 100_000, "[" * 600, '{"to":1}'):
            moving.annotate(SWITCHOVER, text)
            moving.annotate(HOLD, text)
            wait_for(
                lambda: {SWITCHOVER, HOLD}.isdisjoint(moving.annotations()),
                timeout=SOON,
                what="both are taken off",
            )
        moving.annotate(SWITCHOVER, switchover(leader.name))
        wait_for(
            lambda: SWITCHOVER not in moving.annotations(), timeout=SOON, what="it is taken off"
        )
        moving.annotate("edge-sidecars.io/holder", None)
        moving.annotate("edge-sidecars.io/priority", "-x")
        time.sleep(2.5)
    observer.assert_exclusive()
    assert leader.leader()["fencingToken"] == token
    assert "what the Lease asks is not done" in leader.log_text()
    assert moving.main.asked("/drain") == 0


@pytest.mark.slow
def test_a_hold_costs_no_request_at_rest(control_plane: ControlPlane, moving: Moving) -> None:
    leader, others = moving.elect(2)
    moving.annotate(HOLD, hold())
    wait_for(lambda: not leader.is_leader(), timeout=SOON, what="it gives up")
    time.sleep(3.0)
    since = time.time()
    time.sleep(12.0)
    events = control_plane.audit(
        stage=None, namespace=moving.fleet.namespace, since=since, until=time.time()
    )
    asked = {it.audit_id for it in events for pod in (leader, *others) if pod.name in it.user_agent}
    assert not asked


@pytest.mark.slow
def test_a_higher_priority_takes_the_lead_a_minute_after_the_last_change_and_keeps_it(
    moving: Moving,
) -> None:
    low = moving.add("--priority", "3")
    wait_for(low.is_leader, timeout=SOON, what="the lead")
    began = time.monotonic()
    settle = ("--priority-settle", "1s")
    high, equal = moving.add("--priority", "7", *settle), moving.add("--priority", "7", *settle)
    with Observer([low, high, equal]) as observer:
        wait_for(lambda: not low.is_leader(), timeout=60 + SOON, what="it is asked")
        assert time.monotonic() - began > 58
        wait_for(lambda: high.is_leader() or equal.is_leader(), timeout=SOON, what="another leads")
        assert moving.annotations()["edge-sidecars.io/priority"] == "7"
        time.sleep(65.0)
    observer.assert_exclusive()
    assert len(observer.tokens()) == 2
    assert max(gaps(observer.answers())) < SUCCESSION / 2
