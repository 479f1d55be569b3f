"""P1 and P2 where clocks are wrong: wall clocks off and set, rates that differ, a suspended node.

Debian's package `faketime` (libfaketime) fakes the clocks of one process, here of one pod. What
it cannot do, and the model test in virtual time does: CLOCK_BOOTTIME running on while
CLOCK_MONOTONIC stands still; here both jump. Times of such pods are their own: nothing but P1,
the log and statuses are compared.
"""

import datetime
import time
from pathlib import Path

import pytest

from tests.integration.elector.timeline import Timeline
from tools.harness.pods.elector import ElectorPod
from tools.harness.pods.fleet import FAST_DURATION, STEADY, Fleet
from tools.harness.pods.observers.history import assert_polite, writes
from tools.harness.pods.observers.observer import Observer, wait_for, wait_for_leader
from tools.harness.pods.wire.http_client import answered
from tools.harness.processes.faketime import faketime_library

# One hour, less a minute: the test CA's certificates are valid from an hour ago.
OFF = "59m"
HALF_AN_HOUR = 1800.0


@pytest.fixture(scope="module")
def library() -> str:
    return faketime_library()


def all_clocks(library: str, faketime: str) -> dict[str, str]:
    """The environment of a pod whose clocks are all off or run at another rate."""
    return {"LD_PRELOAD": library, "FAKETIME": faketime}


def set_clock(file: Path, offset: str) -> None:
    temporary = file.with_suffix(".new")
    temporary.write_text(offset + "\n")
    temporary.rename(file)


def settable(library: str, file: Path, *, only_wall_clock: bool) -> dict[str, str]:
    """The environment of a pod whose clocks follow `set_clock` while it runs."""
    set_clock(file, "+0")
    environ = {
        "LD_PRELOAD": library,
        "FAKETIME_TIMESTAMP_FILE": str(file),
        "FAKETIME_NO_CACHE": "1",
    }
    return {**environ, "FAKETIME_DONT_FAKE_MONOTONIC": "1"} if only_wall_clock else environ


def ahead(stamp: str) -> float:
    """Seconds by which a renewTime is ahead of the wall clock."""
    return datetime.datetime.fromisoformat(stamp).timestamp() - time.time()


def rate(pod: ElectorPod) -> float:
    """How fast the pod's clock runs, within 1 %: measured over two seconds of a leader's term or
    more, until that is a hundred times as long as the answers took."""
    first = answered(pod, "/leader")
    while True:
        time.sleep(0.2)
        last = answered(pod, "/leader")
        passed = last.json()["termSeconds"] - first.json()["termSeconds"]
        least, most = last.sent - first.received, last.received - first.sent
        if passed < 0:
            first = last  # of another term
        elif least > 2 and most - least < 0.01 * least:
            return float(passed) / ((least + most) / 2)


def judge(fleet: Fleet, observer: Observer) -> None:
    observer.assert_exclusive()
    assert observer.tokens() == sorted(observer.tokens())
    assert_polite(writes(fleet.plane, fleet.namespace))


def takeover_after_kill(fleet: Fleet, pods: list[ElectorPod]) -> None:
    """The leader is killed; `judge` sees whether the other waits for the end of the lease."""
    leader = wait_for_leader(pods, timeout=20)
    other = pods[1 - pods.index(leader)]
    wait_for(lambda: other.leader()["holder"] == leader.identity, timeout=20, what="a standby")
    leader.kill()
    wait_for(other.is_leader, timeout=FAST_DURATION + 12, what="a takeover")


@pytest.mark.slow
@pytest.mark.parametrize(
    "offsets",
    [(f"+{OFF}", f"-{OFF}"), pytest.param((f"-{OFF}", f"+{OFF}"), marks=pytest.mark.long)],
)
def test_p1_exclusive_with_wall_clocks_that_are_off_by_an_hour(
    fleet: Fleet, library: str, offsets: tuple[str, str]
) -> None:
    fleet.create_empty_lease()
    pods = [fleet.add(environ=all_clocks(library, offsets[0]))]
    wait_for(pods[0].is_leader, timeout=20, what="the lead")
    assert abs(ahead(fleet.spec()["renewTime"])) > HALF_AN_HOUR
    pods.append(fleet.add(environ=all_clocks(library, offsets[1])))
    with Observer(pods) as observer:
        takeover_after_kill(fleet, pods)
    assert abs(ahead(fleet.spec()["renewTime"])) > HALF_AN_HOUR
    judge(fleet, observer)


@pytest.mark.slow
def test_p2_a_wall_clock_that_is_set_changes_nothing(
    fleet: Fleet, library: str, tmp_path: Path
) -> None:
    fleet.create_empty_lease()
    clock = tmp_path / "clock"
    pod = fleet.add(environ=settable(library, clock, only_wall_clock=True), timing=STEADY)
    wait_for(pod.is_leader, timeout=20, what="the lead")
    standby = fleet.add(timing=STEADY)

    def renewals() -> list[str]:
        return [
            write.spec["renewTime"]
            for write in writes(fleet.plane, fleet.namespace)
            if write.writer == pod.identity
        ]

    token = pod.leader()["fencingToken"]
    with Observer([pod, standby]) as observer, Timeline(pod) as timeline:
        for offset in (f"+{OFF}", f"-{OFF}", "+0"):
            set_clock(clock, offset)
            enough = len(renewals()) + 3
            wait_for(lambda it=enough: len(renewals()) >= it, timeout=30, what="renewals")  # type: ignore[misc]
    assert set(timeline.statuses()) == {200}
    assert pod.leader()["fencingToken"] == token
    judge(fleet, observer)
    # client-go followers need a renewTime that grows from second to second (H9).
    stamps = renewals()
    assert len(stamps) > 6
    assert ahead(stamps[-1]) > HALF_AN_HOUR
    assert stamps == sorted(stamps)
    seconds = [stamp.partition(".")[0] for stamp in stamps]
    assert len(set(seconds)) == len(seconds)


@pytest.mark.slow
@pytest.mark.parametrize(
    "rates", [("x0.975", "x1.025"), pytest.param(("x1.025", "x0.975"), marks=pytest.mark.long)]
)
def test_p1_exclusive_with_clocks_that_run_at_different_rates(
    fleet: Fleet, library: str, rates: tuple[str, str]
) -> None:
    """A slow clock leads longer, a fast one takes sooner: the ratio is that of assumption 1."""
    fleet.create_empty_lease()
    pods = [fleet.add(environ=all_clocks(library, f"+0 {rates[0]}"))]
    wait_for(pods[0].is_leader, timeout=20, what="the lead")
    pods.append(fleet.add(environ=all_clocks(library, f"+0 {rates[1]}")))
    assert abs(rate(pods[0]) - float(rates[0].removeprefix("x"))) < 0.015
    with Observer(pods) as observer:
        leader, other = pods
        wait_for(lambda: other.leader()["holder"] == leader.identity, timeout=20, what="a standby")
        fleet.link(leader).black_hole()
        wait_for(other.is_leader, timeout=FAST_DURATION + 12, what="a takeover")
        fleet.link(leader).heal()
        time.sleep(1)
        assert not leader.is_leader()
    observer.assert_exclusive()


def test_p2_a_node_that_was_suspended_answers_503_when_it_wakes(
    fleet: Fleet, library: str, tmp_path: Path
) -> None:
    fleet.create_empty_lease()
    clock = tmp_path / "clock"
    pod = fleet.add(environ=settable(library, clock, only_wall_clock=False))
    wait_for(pod.is_leader, timeout=20, what="the lead")
    token = pod.leader()["fencingToken"]
    # It wakes before its network does.
    fleet.link(pod).black_hole()
    assert pod.is_leader()
    set_clock(clock, f"+{FAST_DURATION:g}")
    assert pod.readyz() == 503
    fleet.link(pod).heal()
    wait_for(pod.is_leader, timeout=FAST_DURATION + 10, what="the lead again")
    assert pod.leader()["fencingToken"] > token
