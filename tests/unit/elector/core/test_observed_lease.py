"""Section 4 of the contract, rule by rule: from when on may a Lease be taken?"""

import math

import pytest

from elector_sidecar.core.lease import Lease
from elector_sidecar.core.observed_lease import MISSING_WAIT_LIMIT, ObservedLease
from tests.unit.elector.core.records import ours, record

ME, OURS, FOREIGN = "me_1", "pod-2_1", "client-go"


def observed(*, take_missing: bool = False) -> ObservedLease:
    return ObservedLease(ME, own_duration=15, take_missing=take_missing)


def judged(*versions: tuple[float, Lease | None], is_continuous: bool = True) -> ObservedLease:
    """After a first look and then events, each at its time; None is a deletion."""
    seen = observed()
    for count, (now, lease) in enumerate(versions):
        if lease is None:
            seen.adopt_missing(now)
        else:
            seen.adopt(now, lease, is_continuous=is_continuous and count > 0)
    return seen


# ── a holder that goes on ──


def test_before_anything_was_seen_nothing_is_free() -> None:
    assert observed().free_at() == math.inf
    assert observed().free_since(1e9) is None


def test_one_of_ours_is_alive_for_its_duration_after_the_last_change() -> None:
    seen = judged((100, ours(1, OURS, renewed=0)), (102, ours(2, OURS, renewed=2)))
    assert seen.free_at() == 102 + 15


def test_a_holder_that_is_not_marked_as_ours_is_alive_for_1_2_durations() -> None:
    seen = judged((100, record(1, FOREIGN, renewed=0)), (102, record(2, FOREIGN, renewed=2)))
    assert seen.free_at() == pytest.approx(102 + 18)


def test_an_annotation_that_names_another_does_not_mark_a_holder() -> None:
    seen = judged((100, ours(1, OURS)), (115, record(2, FOREIGN, marked=OURS, renewed=15)))
    assert seen.free_at() == pytest.approx(115 + 18)


@pytest.mark.parametrize("nothing", [None, 0])
def test_a_duration_of_null_or_0_counts_as_our_own(nothing: float | None) -> None:
    assert judged((100, ours(1, OURS, duration=nothing))).free_at() == 100 + 15
    assert judged((100, record(1, FOREIGN, duration=nothing))).free_at() == pytest.approx(118)


@pytest.mark.parametrize(
    ("durations", "longest"), [((15, 1), 15), ((15, 60), 60), ((60, 15), 60), ((15, None), 15)]
)
def test_the_largest_duration_seen_in_a_term_counts(
    durations: list[float | None], longest: float
) -> None:
    first, second = durations
    seen = judged(
        (100, ours(1, OURS, duration=first)), (101, ours(2, OURS, duration=second, renewed=1))
    )
    assert seen.free_at() == 101 + longest


def test_a_shorter_duration_is_believed_of_one_of_ours_only_after_a_renewal() -> None:
    first = (100.0, ours(1, OURS, duration=4))
    assert judged(first).free_at() == 100 + 15, "an edit may have shortened it"
    assert judged(first, (101, ours(2, OURS, duration=4, renewed=1))).free_at() == 101 + 4


def test_a_metadata_edit_changes_the_version_to_use_and_is_no_sign_of_life() -> None:
    seen = judged((100, ours(1, OURS)))
    assert not seen.adopt(110, ours(2, OURS), is_continuous=True)
    assert seen.free_at() == 100 + 15
    assert seen.lease is not None
    assert seen.lease.resource_version == 2


def test_any_spec_field_is_a_sign_of_life() -> None:
    for change in ({"transitions": 9}, {"strategy": "x"}, {"renewed": 1}, {"duration": 14}):
        seen = judged((100, ours(1, OURS)), (110, ours(2, OURS, **change)))
        assert seen.free_at() == 110 + 15, change


def test_another_holder_begins_anew() -> None:
    seen = judged((100, ours(1, OURS, duration=60)), (170, ours(2, "pod-3_1", renewed=70)))
    assert seen.free_at() == 170 + 15


# ── a record without a holder ──


def test_an_empty_lease_at_first_sight_is_free_at_once() -> None:
    assert judged((100, record(1))).free_at() == -math.inf


def test_an_orderly_release_of_ours_is_free_at_once() -> None:
    seen = judged((100, ours(1, OURS)), (101, record(2, duration=1, renewed=1)))
    assert seen.free_at() == -math.inf
    assert seen.free_since(105) == 101


def test_a_release_by_client_go_that_took_over_from_ours_is_free_at_once() -> None:
    """It keeps our annotation, which names neither it nor a later holder."""
    seen = judged(
        (100, ours(1, OURS)),
        (115, record(2, FOREIGN, marked=OURS, renewed=15)),
        (116, record(3, marked=OURS, duration=1, renewed=16)),
    )
    assert seen.free_at() <= 115, "no longer than what the taking itself made us wait"


def test_a_blanked_holder_of_ours_is_waited_out() -> None:
    seen = judged((100, ours(1, OURS)), (101, record(2, marked=OURS, duration=1, renewed=1)))
    assert seen.free_at() == 101 + 15


def test_a_blanked_lease_at_first_sight_is_waited_out_for_our_own_duration() -> None:
    assert judged((100, record(1, marked=OURS, duration=1))).free_at() == 100 + 15
    assert judged((100, record(1, marked=OURS, duration=60))).free_at() == 100 + 60


def test_a_blanked_holder_that_nobody_saw_is_waited_out_though_an_earlier_one_released() -> None:
    seen = judged(
        (100, ours(1, OURS)),
        (101, record(2, duration=1, renewed=1)),
        (150, record(9, marked="pod-3_1", duration=1, renewed=50)),
    )
    assert seen.free_at() == 150 + 15


def test_a_blanked_holder_that_writes_itself_back_is_alive() -> None:
    seen = judged(
        (100, ours(1, OURS)),
        (101, record(2, marked=OURS)),
        (102, ours(3, OURS, renewed=2)),
    )
    assert seen.free_at() == 102 + 15


# ── a record that does not exist ──


def test_a_lease_that_never_existed_is_waited_out_for_our_own_duration() -> None:
    assert judged((100, None)).free_at() == 100 + 15
    assert judged((100, None), (110, None)).free_at() == 100 + 15


def test_on_missing_take_makes_it_free_at_once_if_no_holder_was_ever_seen() -> None:
    seen = observed(take_missing=True)
    seen.adopt_missing(100)
    assert seen.free_at() <= 100
    assert not seen.must_create_vacant


def test_on_missing_take_does_not_hurry_after_a_holder_was_seen() -> None:
    seen = observed(take_missing=True)
    seen.adopt(100, ours(1, OURS), is_continuous=False)
    seen.adopt_missing(101)
    assert seen.free_at() == 101 + 15
    assert seen.must_create_vacant


@pytest.mark.parametrize(
    ("lease", "wait"),
    [(ours(1, OURS), 15), (record(1, FOREIGN), 18), (ours(1, OURS, duration=60), 60)],
)
def test_a_deleted_holder_is_waited_out_from_when_we_learned_of_it(
    lease: Lease, wait: float
) -> None:
    assert judged((100, lease), (110, None)).free_at() == pytest.approx(110 + wait)


def test_a_deleted_holder_is_waited_out_for_10_minutes_at_most() -> None:
    seen = judged((100, ours(1, OURS, duration=10**6)), (110, None))
    assert seen.free_at() == 110 + MISSING_WAIT_LIMIT


def test_a_reservation_is_waited_out_by_all_from_when_they_learned_of_it() -> None:
    reservation = record(2, marked="pod-3_1", uid="uid-2")
    assert judged((100, None), (101, reservation)).free_at() == 101 + 15
    assert judged((101, reservation)).free_at() == 101 + 15
    assert judged((90, ours(1, OURS)), (100, None), (101, reservation)).free_at() == 101 + 15


@pytest.mark.parametrize("before", [ours(1, OURS), record(1), record(1, duration=1)])
def test_an_empty_lease_that_replaced_another_releases_nobody(before: Lease) -> None:
    """Who held it between, nobody can know."""
    assert judged((100, before), (101, record(5, uid="uid-2"))).free_at() == 101 + 15


def test_an_edit_of_a_replaced_lease_does_not_free_it() -> None:
    seen = judged(
        (100, record(1)),
        (101, record(5, uid="uid-2")),
        (102, record(6, uid="uid-2", duration=1)),
    )
    assert seen.free_at() == 102 + 15


# ── theft: a record that was overwritten before its time ──


def test_a_thief_does_not_end_the_claim_of_the_holder_before_it() -> None:
    """`kubectl edit` while the leader is cut off, with a duration of one second."""
    seen = judged((100, ours(1, OURS)), (101, record(2, "thief", marked=OURS, duration=1)))
    assert seen.free_at() == 100 + 15


def test_after_a_gap_the_claim_of_the_holder_before_counts_from_now() -> None:
    seen = judged(
        (100, ours(1, OURS)),
        (109, record(9, "thief", marked=OURS, duration=1)),
        is_continuous=False,
    )
    assert seen.free_at() == 109 + 15


def test_a_thief_at_first_sight_is_not_alone_if_the_annotation_names_another() -> None:
    seen = judged((100, record(1, "thief", marked=OURS, duration=1)))
    assert seen.free_at() == 100 + 15


def test_the_same_thief_again_may_have_robbed_another_one_between() -> None:
    seen = judged(
        (100, record(1, "thief", duration=1)),
        (150, record(9, "thief", marked=OURS, duration=1, renewed=50)),
    )
    assert seen.free_at() == 150 + 15


def test_the_same_thief_after_a_gap_may_have_robbed_the_same_one_again() -> None:
    seen = judged(
        (100, ours(1, OURS)),
        (101, record(2, "thief", marked=OURS, duration=1, renewed=1)),
        (150, record(9, "thief", marked=OURS, duration=1, renewed=50)),
        is_continuous=False,
    )
    assert seen.free_at() == 150 + 15


def test_one_of_ours_has_waited_for_the_holder_before_it_so_that_it_counts_alone() -> None:
    seen = judged((100, ours(1, OURS, duration=60)), (161, ours(2, "pod-3_1", duration=15)))
    assert seen.free_at() == 161 + 15


def test_a_thief_of_our_own_lease_is_waited_out_alone() -> None:
    """Our own claim ends by our own clock."""
    seen = judged((100, ours(1, ME)), (101, record(2, "thief", marked=ME, duration=1)))
    assert seen.free_at() == pytest.approx(101 + 1.2)


# ── our own record ──


def test_our_own_record_is_free_to_us_by_the_whole_string() -> None:
    assert judged((100, ours(1, ME))).free_at() == -math.inf
    assert judged((100, ours(1, ME))).is_mine(100)
    assert judged((100, ours(1, "me_2"))).free_at() == 100 + 15
    assert not judged((100, ours(1, "me_2"))).is_mine(1e9)


def test_nothing_is_taken_before_the_end_of_a_hold_off() -> None:
    for lease in (record(1), ours(1, ME), None):
        seen = judged((100, lease))
        seen.not_before(130)
        assert seen.free_at() == 130
        seen.not_before(120)
        assert seen.free_at() == 130, "a shorter one does not shorten it"


def test_our_record_is_not_ours_during_a_hold_off() -> None:
    seen = judged((100, ours(1, ME)))
    seen.not_before(130)
    assert not seen.is_mine(129.9)
    assert seen.is_mine(130)
