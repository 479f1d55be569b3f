"""When the node's own Lease is looked at, and when it is written."""

import pytest

from edge_sidecars.runtime.formats.rfc3339 import stamp_of_micros
from pool_sidecar.core.heartbeat import (
    FOLLOW_UP,
    LOOK_EVERY,
    MICRO,
    RETRY,
    Heartbeat,
    LeaseSeen,
    UnusableLease,
    seen,
)

WALL = 1_700_000_000 * MICRO


def lease(age: float, *, wall: int = WALL) -> LeaseSeen:
    return LeaseSeen("7", wall - int(age * MICRO))


def test_n7_all_well_the_lease_is_not_even_read() -> None:
    it = Heartbeat()
    assert not it.is_due(0.0)
    for now in range(100):
        it.link_observed(is_up=True, now=float(now))
        assert not it.is_due(float(now))


def test_it_is_looked_at_while_the_link_is_down_and_a_minute_longer() -> None:
    it = Heartbeat()
    it.link_observed(is_up=True, now=0.0)
    it.link_observed(is_up=False, now=1.0)
    assert it.is_due(1.0)
    it.began(1.0)
    assert not it.is_due(1.0 + LOOK_EVERY - 0.1)
    assert it.is_due(1.0 + LOOK_EVERY)
    it.link_observed(is_up=True, now=20.0)
    assert it.is_due(20.0)
    assert it.is_active(20.0 + FOLLOW_UP)
    assert not it.is_active(20.1 + FOLLOW_UP)


def test_a_start_while_cut_looks_at_once() -> None:
    it = Heartbeat()
    it.link_observed(is_up=False, now=5.0)
    assert it.is_due(5.0)


def test_a_look_that_failed_is_repeated_sooner() -> None:
    it = Heartbeat()
    it.link_observed(is_up=False, now=0.0)
    it.began(0.0)
    it.failed(0.5, is_refused=False)
    assert it.is_due(2.5)


@pytest.mark.parametrize(("age", "again"), [(0.0, LOOK_EVERY), (7.5, 3.5), (-0.9, LOOK_EVERY)])
def test_a_lease_that_is_not_stale_yet_is_looked_at_when_kubelet_would_have_renewed_it(
    age: float, again: float
) -> None:
    it = Heartbeat()
    it.link_observed(is_up=False, now=0.0)
    it.began(0.0)
    assert it.renewal(lease(age), wall=WALL, now=0.0, healthy_at=0.0) is None
    assert not it.is_due(again - 0.1)
    assert it.is_due(again)


def looks(it: Heartbeat, seconds: int, *, is_refused: bool) -> int:
    """How many there are, each of which fails."""
    count = 0
    for half in range(2 * seconds):
        now = half / 2
        if it.is_due(now):
            it.began(now)
            it.failed(now, is_refused=is_refused)
            count += 1
    return count


def test_an_api_server_that_refuses_is_asked_no_more_often_than_one_that_answers() -> None:
    it = Heartbeat()
    it.link_observed(is_up=False, now=0.0)
    assert looks(it, 600, is_refused=True) <= 600 / LOOK_EVERY + 3


def test_after_one_refusal_the_next_look_comes_soon_and_again_after_a_look_that_succeeded() -> None:
    it = Heartbeat()
    it.link_observed(is_up=False, now=0.0)
    for at in (0.0, 10.0, 20.0):
        it.began(at)
        it.failed(at, is_refused=True)
        assert it.is_due(at + RETRY)
        it.succeeded()


def test_a_link_that_flaps_does_not_make_looks() -> None:
    it = Heartbeat()
    count = 0
    for half in range(600):
        now = half / 2
        it.link_observed(is_up=half % 2 == 0, now=now)
        if it.is_due(now):
            it.began(now)
            it.succeeded()
            count += 1
    assert count <= 300 / RETRY + 1


@pytest.mark.parametrize(("age", "writes"), [(7.9, False), (8.1, True), (3600.0, True)])
def test_what_kubelet_keeps_fresh_is_only_read(age: float, writes: bool) -> None:
    found = Heartbeat().renewal(lease(age), wall=WALL, now=50.0, healthy_at=49.0)
    assert found == (WALL if writes else None)


@pytest.mark.parametrize("healthy_at", [None, 47.9, 50.1])
def test_nothing_is_written_unless_kubelet_just_answered(healthy_at: float | None) -> None:
    it = Heartbeat()
    assert it.renewal(lease(60.0), wall=WALL, now=50.0, healthy_at=healthy_at) is None


def test_a_clock_that_went_back_an_hour_makes_it_grow_at_once() -> None:
    """Its age cannot be told, and the promise is 20 s."""
    future = lease(-3600.0)
    renewed = Heartbeat().renewal(future, wall=WALL, now=50.0, healthy_at=50.0)
    assert renewed == future.renewed + 1


def test_a_clock_that_is_slewed_is_no_reason_to_write() -> None:
    it = Heartbeat()
    assert it.renewal(lease(-0.5), wall=WALL, now=50.0, healthy_at=50.0) is None


def test_who_renews_meanwhile_is_not_raced() -> None:
    it = Heartbeat()
    assert it.renewal(lease(3.0), wall=WALL, now=50.0, healthy_at=50.0) is None
    later = WALL + 10 * MICRO
    assert it.renewal(lease(3.0, wall=later), wall=later, now=60.0, healthy_at=60.0) is None


def test_a_lease_that_kubelet_keeps_fresh_is_not_written_however_often_it_is_looked_at() -> None:
    """As where the link flaps: kubelet renews each ten seconds, and is looked at each two."""
    it = Heartbeat()
    for now in range(0, 60, 2):
        wall = WALL + now * MICRO
        renewed = WALL + now // 10 * 10 * MICRO
        found = it.renewal(
            LeaseSeen("7", renewed), wall=wall, now=float(now), healthy_at=float(now)
        )
        assert found is None


@pytest.mark.parametrize(
    "text", ["2026-11-24T17:00:00.123456Z", "2026-11-24T17:00:00Z", "2026-11-24T18:00:00+01:00"]
)
def test_a_lease_is_read_as_it_is_written(text: str) -> None:
    found = seen({"metadata": {"resourceVersion": "7"}, "spec": {"renewTime": text}})
    again = {
        "metadata": {"resourceVersion": "7"},
        "spec": {"renewTime": stamp_of_micros(found.renewed)},
    }
    assert seen(again) == found
    assert stamp_of_micros(found.renewed).endswith("Z")


@pytest.mark.parametrize("renewed", ["yesterday", "2026-11-24T17:00:00", 7, None])
def test_a_lease_that_kubelet_did_not_write_is_refused(renewed: object) -> None:
    with pytest.raises(UnusableLease):
        seen({"metadata": {"resourceVersion": "7"}, "spec": {"renewTime": renewed}})
