"""One candidate, step by step: what it does next, and what it says is true now.

Reads as the specification of `Election`; `test_model.py` proves it in combination.
"""

import math

import pytest

from elector_sidecar.core.election import Command, Election
from elector_sidecar.core.handover import Intent
from elector_sidecar.core.lease import HOLDER_ANNOTATION, Lease, parse_lease, wall_seconds
from elector_sidecar.core.lease_watch import (
    IDLE_PERIOD,
    SILENT_PERIODS,
    STANDBY_RETRY,
    ReadLease,
    WatchLease,
)
from elector_sidecar.core.lease_writes import Candidate, Purpose, WriteLease
from elector_sidecar.core.timing import HEDGE_DELAY, RETRY_DELAY, TAKEOVER_JITTER, Timing
from tests.unit.elector.core.records import WALL, ours, record

ME, OTHER = "me_1", "pod-2_1"
VALIDITY = 15 * 0.95 - 0.25


def candidate(*, take_missing: bool = False) -> Election:
    return Election(
        Candidate(
            identity=ME,
            namespace="default",
            name="controller",
            timing=Timing(),
            take_missing=take_missing,
        ),
        now=0.0,
    )


def due(election: Election, now: float, *, wall: float | None = None) -> list[Command]:
    return election.advance(now, wall=WALL + now if wall is None else wall, chance=0.0)


def due_write(election: Election, now: float) -> WriteLease:
    [write] = [command for command in due(election, now) if isinstance(command, WriteLease)]
    return write


def due_read(election: Election, now: float) -> ReadLease:
    [read] = [command for command in due(election, now) if isinstance(command, ReadLease)]
    return read


def is_quiet(election: Election, now: float) -> bool:
    return not due(election, now)


def stored(write: WriteLease, version: int) -> Lease:
    """The record as the API server answers it."""
    metadata = {"uid": "uid-1", **write.body["metadata"], "resourceVersion": str(version)}
    return parse_lease({"metadata": metadata, "spec": write.body["spec"]})


def standby(lease: Lease | None, *, take_missing: bool = False) -> tuple[Election, WatchLease]:
    """Has read `lease` at 0.0 and watches it; whatever it wrote at once is lost."""
    election = candidate(take_missing=take_missing)
    election.read_answered(due_read(election, 0.0).id, 0.0, lease)
    [watch] = [command for command in due(election, 0.0) if isinstance(command, WatchLease)]
    return election, watch


def leader() -> tuple[Election, WatchLease, Lease]:
    """Since 0.0, by version 2."""
    election = candidate()
    election.read_answered(due_read(election, 0.0).id, 0.0, record(1))
    write, watch = due(election, 0.0)
    assert isinstance(write, WriteLease)
    assert isinstance(watch, WatchLease)
    lease = stored(write, 2)
    election.write_answered(write.id, 0.0, lease)
    return election, watch, lease


# ── P2: true at the moment of the answer ──


def test_p2_validity_counts_from_the_sending_and_ends_without_anybodys_word() -> None:
    election = candidate()
    election.read_answered(due_read(election, 10).id, 10, record(1))
    write = due_write(election, 10.5)
    assert not election.view(11).is_leader
    election.write_answered(write.id, 12, stored(write, 2))
    assert election.view(12).valid_until == 10.5 + VALIDITY
    assert election.view(10.5 + VALIDITY - 0.001).is_leader
    assert not election.view(10.5 + VALIDITY).is_leader


def test_p2_an_answer_that_comes_after_its_validity_makes_no_leader() -> None:
    election = candidate()
    election.read_answered(due_read(election, 0).id, 0, record(1))
    write = due_write(election, 0)
    election.write_answered(write.id, VALIDITY, stored(write, 2))
    view = election.view(VALIDITY)
    assert not view.is_leader
    assert view.is_lapsed


def test_p2_after_a_lapse_a_renewal_begins_another_term_with_another_token() -> None:
    election, _, lease = leader()
    assert election.view(1).fencing_token == 2
    write = due_write(election, 30)
    election.write_answered(write.id, 30.1, stored(write, 9))
    assert election.view(30.1).fencing_token == 9
    assert election.view(30.1).started_at == 30.1
    assert election.view(30.1).lease_transitions == lease.spec.lease_transitions


def test_what_is_held_is_known_while_it_is_given_up_and_ends_with_another_holder() -> None:
    election, watch, _ = leader()
    assert election.held_until(1) == VALIDITY
    election.set_intent(1, Intent.HOLD)
    write = due_write(election, 2)
    election.write_answered(write.id, 2.1, stored(write, 3))
    assert election.view(2.1).valid_until is None
    assert election.held_until(2.1) == 2 + VALIDITY
    election.event_arrived(watch.id, 3, ours(4, OTHER))
    assert election.held_until(3) == -math.inf


def test_a_record_in_which_somebody_else_may_believe_is_not_held() -> None:
    """An edit put this candidate in the place of a holder that may lead on."""
    election, watch = standby(ours(1, OTHER))
    election.event_arrived(watch.id, 1, ours(2, ME))
    write = due_write(election, 40)
    assert election.held_until(40) == -math.inf
    election.write_answered(write.id, 40.1, stored(write, 3))
    assert election.held_until(40.1) == 40 + VALIDITY


# ── P3: acknowledged means renewed ──


def test_p3_an_answer_with_the_version_that_was_sent_extends_nothing() -> None:
    election, _, lease = leader()
    write = due_write(election, 2)
    election.write_answered(write.id, 2.1, lease)
    assert election.view(2.1).valid_until == VALIDITY
    assert due_write(election, 2.1 + RETRY_DELAY)


def test_p3_an_event_with_the_stamp_of_a_write_acknowledges_it_from_its_sending() -> None:
    election, watch, _ = leader()
    write = due_write(election, 2)
    election.event_arrived(watch.id, 4, stored(write, 3))
    assert election.view(4).valid_until == 2 + VALIDITY


def test_p3_a_write_whose_answer_was_lost_is_acknowledged_by_a_later_look() -> None:
    election, watch, _ = leader()
    write = due_write(election, 2)
    election.write_lost(write.id, 5)
    assert election.view(5).valid_until == VALIDITY
    election.event_arrived(watch.id, 6, stored(write, 3))
    assert election.view(6).valid_until == 2 + VALIDITY


def test_p3_a_stamp_that_is_none_of_ours_proves_nothing_though_the_holder_is_me() -> None:
    election, watch, _ = leader()
    election.event_arrived(watch.id, 6, ours(3, ME, renewed=500))
    assert election.view(6).valid_until == VALIDITY


def test_p3_a_conflict_is_no_loss_but_a_reason_to_read() -> None:
    election, _, lease = leader()
    write = due_write(election, 2)
    election.write_conflicted(write.id, 2.1)
    assert election.view(2.1).is_leader
    read = due_read(election, 2.1)
    labelled = record(3, ME, marked=ME, renewed=wall_seconds(lease.spec.renew_time) or 0 - WALL)
    election.read_answered(read.id, 2.2, labelled)
    assert election.view(2.2).is_leader
    assert due_write(election, 2.2).base_version == 3


@pytest.mark.parametrize("jump", [0.0, -3600.0, 3600.0, 0.3])
def test_p3_the_whole_second_of_renew_time_grows_whatever_the_wall_clock_does(jump: float) -> None:
    election, _, lease = leader()
    seconds = [int(wall_seconds(lease.spec.renew_time) or 0)]
    version = 2
    for now in (2.0, 4.0, 6.0):
        [write] = [c for c in due(election, now, wall=WALL + jump) if isinstance(c, WriteLease)]
        version += 1
        election.write_answered(write.id, now, stored(write, version))
        seconds.append(int(wall_seconds(write.stamp) or 0))
    assert seconds == sorted(set(seconds))


def test_p3_an_answer_that_comes_after_a_later_proof_changes_nothing() -> None:
    election, watch, _ = leader()
    first = due_write(election, 2)
    election.event_arrived(watch.id, 2.1, stored(first, 3))
    second = due_write(election, 4)
    election.event_arrived(watch.id, 4.1, stored(second, 4))
    election.write_answered(first.id, 4.5, stored(first, 3))
    assert election.view(4.5).valid_until == 4 + VALIDITY
    assert is_quiet(election, 5.9)


def test_p3_no_two_writes_bear_the_same_stamp_after_a_jump_of_the_wall_clock() -> None:
    """Else a write that was given up long ago could pass for a later one."""
    election, _, _ = leader()
    stamps = []
    for count in range(40):
        now = 2.0 + 6 * count
        [write] = [c for c in due(election, now, wall=WALL - 60) if isinstance(c, WriteLease)]
        stamps.append(write.stamp)
        election.write_lost(write.id, now + 3)
    assert stamps == sorted(set(stamps))


# ── P4: compare-and-swap, always ──


def test_p4_a_write_carries_uid_and_version_of_the_record_that_was_judged() -> None:
    election, watch = standby(ours(1, OTHER))
    election.event_arrived(watch.id, 3, ours(4, OTHER, renewed=3))
    write = due_write(election, 3 + 15 + TAKEOVER_JITTER)
    assert write.body["metadata"]["uid"] == "uid-1"
    assert write.body["metadata"]["resourceVersion"] == "4"
    assert not write.creates


def test_p4_it_steps_down_at_once_on_another_holder() -> None:
    for holder in (ours(3, OTHER), record(3, "thief", marked=ME)):
        election, watch, _ = leader()
        election.event_arrived(watch.id, 1, holder)
        assert not election.view(1).is_leader
        assert not any(isinstance(command, WriteLease) for command in due(election, 5))


def test_p4_a_living_leader_writes_itself_back_over_a_blanked_record_in_the_same_term() -> None:
    election, watch, lease = leader()
    election.event_arrived(watch.id, 1, record(3, "", marked=ME, duration=1, transitions=1))
    assert election.view(1).is_leader
    write = due_write(election, 1)
    assert write.base_version == 3
    assert write.body["spec"]["acquireTime"] == lease.spec.acquire_time
    assert write.body["spec"]["leaseTransitions"] == 1
    election.write_answered(write.id, 1.1, stored(write, 4))
    assert election.view(1.1).fencing_token == 2


def test_p4_a_living_leader_creates_a_deleted_lease_anew_in_the_same_term() -> None:
    election, watch, lease = leader()
    election.event_arrived(watch.id, 1, ours(3, ME), is_deleted=True)
    assert election.view(1).is_leader
    write = due_write(election, 1)
    assert write.creates
    assert write.body["spec"]["acquireTime"] == lease.spec.acquire_time
    assert write.body["spec"]["leaseTransitions"] == 0
    election.write_answered(write.id, 1.1, stored(write, 4))
    assert election.view(1.1).fencing_token == 2


def test_p4_a_lapsed_leader_does_not_write_over_a_blanked_or_deleted_record() -> None:
    for lease, is_deleted in ((record(3, marked=ME, duration=1), False), (ours(3, ME), True)):
        election, watch, _ = leader()
        election.event_arrived(watch.id, VALIDITY + 0.1, lease, is_deleted=is_deleted)
        held = [c for c in due(election, VALIDITY + 1) if isinstance(c, WriteLease)]
        assert all(write.purpose is Purpose.CREATE_VACANT for write in held)


def test_p4_a_creation_that_is_confirmed_too_late_makes_no_leader_for_one_duration() -> None:
    election = candidate(take_missing=True)
    election.read_answered(due_read(election, 0).id, 0, None)
    write = due_write(election, 0)
    assert write.creates
    election.write_lost(write.id, 3)
    late = VALIDITY + 1
    election.read_answered(due_read_after(election, late), late, stored(write, 2))
    assert not election.view(late).is_leader
    assert not any(isinstance(c, WriteLease) for c in due(election, late + 14.9))
    renewal = due_write(election, late + 15)
    election.write_answered(renewal.id, late + 15, stored(renewal, 3))
    assert election.view(late + 15).is_leader


def test_p4_a_lease_written_back_after_the_term_was_over_makes_no_leader_for_one_duration() -> None:
    election, watch, _ = leader()
    election.event_arrived(watch.id, 13.9, ours(3, ME), is_deleted=True)
    write = due_write(election, 13.9)
    assert write.creates
    election.write_answered(write.id, VALIDITY + 0.1, stored(write, 4))
    assert not election.view(VALIDITY + 0.1).is_leader
    renewal = due_write(election, VALIDITY + 0.1 + 15)
    election.write_answered(renewal.id, 30, stored(renewal, 5))
    assert election.view(30).is_leader


def test_p4_a_gap_in_the_watch_makes_the_claim_of_a_robbed_holder_count_from_the_read() -> None:
    election, watch = standby(ours(1, OTHER))
    election.watch_ended(watch.id, 8, is_orderly=False)
    read = due_read(election, 9)
    election.read_answered(read.id, 9, record(5, "thief", marked=OTHER, duration=1))
    assert election.view(9).free_at == 9 + 15


def due_read_after(election: Election, now: float) -> int:
    """Conflicts of the attempts that are under way, until one makes it read."""
    for write in [c for c in due(election, now) if isinstance(c, WriteLease)]:
        election.write_conflicted(write.id, now)
    return due_read(election, now + STANDBY_RETRY).id


# ── P5 and P7: takes what is free, when it is free ──


def test_p7_an_empty_lease_is_taken_at_once() -> None:
    election = candidate()
    election.read_answered(due_read(election, 0).id, 0, record(1, transitions=6))
    spec = due_write(election, 0).body["spec"]
    assert spec["holderIdentity"] == ME
    assert spec["leaseTransitions"] == 7


def test_p7_a_released_lease_is_taken_by_the_standby_that_its_watch_wakes() -> None:
    election, watch = standby(ours(1, OTHER))
    election.event_arrived(watch.id, 5, record(2, duration=1, renewed=5))
    assert due_write(election, 5).base_version == 2


@pytest.mark.parametrize(("lease", "wait"), [(ours(1, OTHER), 15), (record(1, "client-go"), 18)])
def test_p7_an_expired_lease_is_taken_within_the_jitter(lease: Lease, wait: float) -> None:
    election, _ = standby(lease)
    early = wait - 0.001
    assert not any(isinstance(c, WriteLease) for c in due(election, early))
    assert wait <= election.wake_at(early) <= wait + TAKEOVER_JITTER
    assert due_write(election, wait + TAKEOVER_JITTER)


def test_p5_a_lost_takeover_waits_for_the_winners_event_and_then_for_its_end() -> None:
    election, watch = standby(ours(1, OTHER))
    election.event_arrived(watch.id, 14, ours(2, OTHER))  # a label, no renewal
    write = due_write(election, 16)
    election.write_conflicted(write.id, 16.1)
    assert is_quiet(election, 16.1)
    election.event_arrived(watch.id, 16.2, ours(3, "pod-3_1", renewed=16))
    assert is_quiet(election, 17.2)
    assert due_write(election, 16.2 + 15 + TAKEOVER_JITTER).base_version == 3


def test_p5_a_lost_takeover_reads_if_the_winners_event_does_not_come() -> None:
    election, _ = standby(ours(1, OTHER))
    election.write_conflicted(due_write(election, 16).id, 16.1)
    assert due_read(election, 16.1 + STANDBY_RETRY)


@pytest.mark.parametrize("retry_after", [None, 0.0, 0.2, 60.0])
def test_p5_a_failed_renewal_is_tried_again_soon_whatever_retry_after_says(
    retry_after: float | None,
) -> None:
    for fails in (Election.write_refused, Election.write_lost):
        election, _, _ = leader()
        fails(election, due_write(election, 2).id, 2.5, retry_after=retry_after)
        delay = RETRY_DELAY if retry_after is None else min(max(retry_after, RETRY_DELAY), 1.0)
        assert due_write(election, 2.5 + delay).base_version == 2
        assert election.view(3).is_leader


def test_p5_a_failed_read_is_tried_again() -> None:
    election = candidate()
    election.read_failed(due_read(election, 0).id, 0.1)
    assert is_quiet(election, 0.2)
    assert due_read(election, 0.1 + STANDBY_RETRY)


def test_p5_a_renewal_without_an_answer_gets_a_second_attempt_and_no_third() -> None:
    election, _, _ = leader()
    first = due_write(election, 2)
    second = due_write(election, 2 + HEDGE_DELAY)
    assert second.stamp != first.stamp
    assert not any(isinstance(c, WriteLease) for c in due(election, 2 + 2 * HEDGE_DELAY))


@pytest.mark.parametrize(
    "restored",
    [record(3), record(3, "", marked=None, transitions=7), ours(3, ME)],
    ids=["never held", "released", "held by this one"],
)
def test_p1_whatever_a_restored_record_says_the_leader_of_the_lost_history_is_waited_out(
    restored: Lease,
) -> None:
    """Seen from here or not: the last that this standby knows is version 9, held by itself once."""
    for known in (ours(9, OTHER), ours(9, ME), record(9)):
        election, watch = standby(known)
        election.watch_ended(watch.id, 20, is_orderly=False)
        election.read_answered(due_read(election, 20 + STANDBY_RETRY).id, 22, restored)
        for now in range(23, 37):
            assert not [it for it in due(election, now) if isinstance(it, WriteLease)]
        assert due_write(election, 37 + TAKEOVER_JITTER).base_version == 3


def test_p7_a_leader_writes_itself_back_at_once_after_a_restore() -> None:
    election, watch, _ = leader()
    election.watch_ended(watch.id, 3, is_orderly=False)
    write = due_write(election, 3)
    election.write_conflicted(write.id, 3)
    election.read_answered(due_read(election, 3).id, 3.1, record(1))
    assert due_write(election, 3.1).base_version == 1
    assert election.view(3.1).is_leader


@pytest.mark.parametrize("retry_after", [None, 0.0, 1.0])
@pytest.mark.parametrize("has_led", [True, False])
def test_p8_a_server_that_answers_nothing_but_errors_is_asked_ever_more_seldom(
    has_led: bool, retry_after: float | None
) -> None:
    """Of each kind of request once in two seconds at most, once the term is over, also where a
    busy server asks for less."""
    election, watch = leader()[:2] if has_led else standby(ours(2, OTHER))
    election.watch_ended(watch.id, 0.0, is_orderly=False)
    asked = {ReadLease: 0, WriteLease: 0, WatchLease: 0}
    for tenth in range(1400):
        now = tenth / 10
        for command in due(election, now):
            if now >= 20:
                asked[type(command)] += 1
            match command:
                case ReadLease():
                    election.read_failed(command.id, now, retry_after=retry_after)
                case WriteLease():
                    election.write_lost(command.id, now, retry_after=retry_after)
                case WatchLease():
                    election.watch_ended(command.id, now, is_orderly=False)
    assert all(count <= 120 / 2 + 1 for count in asked.values())
    assert sum(asked.values()) >= 120 / 2  # it never stops trying (P5)


def test_p5_after_errors_it_leads_within_two_seconds_of_an_answer() -> None:
    election, _, _ = leader()
    for tenth in range(600):
        now = tenth / 10
        for command in due(election, now):
            if isinstance(command, WriteLease):
                election.write_lost(command.id, now)
    now, write = next(
        (now, command)
        for now in (60 + tenth / 10 for tenth in range(21))
        for command in due(election, now)
        if isinstance(command, WriteLease)
    )
    election.write_answered(write.id, now, stored(write, 9))
    assert election.view(62).is_leader


def test_a_missing_lease_is_created_without_a_holder_and_taken_after_one_duration() -> None:
    election, _ = standby(None)
    reservation = due_write(election, 1)
    assert reservation.creates
    assert reservation.purpose is Purpose.CREATE_VACANT
    assert "holderIdentity" not in reservation.body["spec"]
    assert reservation.body["metadata"]["annotations"][HOLDER_ANNOTATION] == ME
    election.write_answered(reservation.id, 1.1, stored(reservation, 2))
    assert not any(isinstance(c, WriteLease) for c in due(election, 16))
    write = due_write(election, 1.1 + 15 + TAKEOVER_JITTER)
    assert write.base_version == 2
    assert not write.creates


def test_on_missing_take_creates_the_lease_as_its_own_at_once() -> None:
    election = candidate(take_missing=True)
    election.read_answered(due_read(election, 0).id, 0, None)
    write = due_write(election, 0)
    assert write.creates
    assert write.body["spec"]["holderIdentity"] == ME
    assert write.body["spec"]["leaseTransitions"] == 0


# ── P6: gives up in order ──


@pytest.mark.parametrize("intent", [Intent.HOLD, Intent.RELEASE, Intent.ABSTAIN])
def test_p6_whoever_does_not_contend_says_so_at_once_and_for_good(intent: Intent) -> None:
    election, _, _ = leader()
    election.set_intent(1, intent)
    assert not election.view(1).is_leader
    election.set_intent(2, Intent.CONTEND)
    assert not election.view(2).is_leader, "the term is over, whatever its validity was"


def test_p6_while_the_main_drains_the_lease_is_renewed_but_the_answer_is_503() -> None:
    election, _, _ = leader()
    election.set_intent(1, Intent.HOLD)
    write = due_write(election, 2)
    election.write_answered(write.id, 2.1, stored(write, 3))
    assert not election.view(2.1).is_leader
    assert election.holds_record


def test_p6_a_release_follows_a_fresh_read_and_only_of_our_own_record() -> None:
    election, _, lease = leader()
    election.set_intent(1, Intent.RELEASE)
    read, *others = due(election, 1)
    assert isinstance(read, ReadLease)
    assert others == []
    election.read_answered(read.id, 1.1, lease)
    write = due_write(election, 1.1)
    assert write.purpose is Purpose.RELEASE
    assert write.body["spec"]["holderIdentity"] == ""
    assert write.body["spec"]["leaseDurationSeconds"] == 1
    before = election.is_released
    election.write_answered(write.id, 1.2, stored(write, 3))
    assert (before, election.is_released) == (False, True)
    later = [command for now in (1.3, 20, 60) for command in due(election, now)]
    assert not any(isinstance(c, WriteLease) for c in later), "it does not take the Lease again"


def test_p6_a_foreign_holder_is_never_blanked() -> None:
    election, _, _ = leader()
    election.set_intent(1, Intent.RELEASE)
    election.read_answered(due_read(election, 1).id, 1.1, ours(3, OTHER))
    assert election.is_released
    assert not any(isinstance(c, WriteLease) for now in (2, 20, 60) for c in due(election, now))


def test_p6_a_release_without_an_answer_is_verified_by_another_read() -> None:
    election, _, lease = leader()
    election.set_intent(1, Intent.RELEASE)
    election.read_answered(due_read(election, 1).id, 1.1, lease)
    write = due_write(election, 1.1)
    election.write_lost(write.id, 4.1)
    before = election.is_released
    election.read_answered(due_read(election, 4.1).id, 4.2, stored(write, 3))
    assert (before, election.is_released) == (False, True)


def test_p6_a_takeover_that_may_still_be_applied_is_no_release() -> None:
    election, _ = standby(ours(1, OTHER))
    write = due_write(election, 16)
    election.set_intent(16.5, Intent.RELEASE)
    election.write_lost(write.id, 19)
    election.read_answered(due_read(election, 19).id, 19.1, ours(1, OTHER))
    in_doubt = (election.is_released, election.may_hold)
    election.read_answered(due_read(election, 20).id, 20.1, ours(2, OTHER, renewed=20))
    assert (in_doubt, election.is_released, election.may_hold) == ((False, True), True, False)


def test_p6_who_abstains_lets_its_lease_expire() -> None:
    election, _, _ = leader()
    election.set_intent(1, Intent.ABSTAIN)
    assert not any(isinstance(c, WriteLease) for now in (2, 10, 60) for c in due(election, now))


# ── P8: quiet ──


def test_p8_the_echo_of_an_answered_renewal_asks_for_nothing() -> None:
    election, watch, lease = leader()
    planned = election.wake_at(0.1)
    assert election.event_arrived(watch.id, 0.1, lease) is False
    assert is_quiet(election, 0.1)
    assert election.wake_at(0.1) == planned
    write = due_write(election, 2)
    assert election.event_arrived(watch.id, 2.1, stored(write, 3)), "before its answer it is news"


def test_p8_a_standby_whose_watch_works_neither_reads_nor_writes() -> None:
    election, watch = standby(ours(1, OTHER))
    for count in range(1, 50):
        now = 2.0 * count
        election.event_arrived(watch.id, now, ours(1 + count, OTHER, renewed=now))
        assert is_quiet(election, now)
        assert election.wake_at(now) > now + 2.0


def test_p8_no_event_for_2_5_periods_is_one_read_and_a_new_watch() -> None:
    election, watch = standby(ours(1, OTHER))
    election.event_arrived(watch.id, 2, ours(2, OTHER, renewed=2))
    silent = 2 + SILENT_PERIODS * 2.0
    assert is_quiet(election, silent - 0.01)
    read = due_read(election, silent)
    election.read_answered(read.id, silent + 0.1, ours(3, OTHER, renewed=5))
    [again] = due(election, silent + 0.1)
    assert isinstance(again, WatchLease)
    assert again.resource_version == 3


def test_p8_a_free_lease_is_watched_with_patience() -> None:
    election, _ = standby(record(1))
    election.set_intent(0, Intent.ABSTAIN)
    assert is_quiet(election, IDLE_PERIOD - 1)
    assert due_read(election, IDLE_PERIOD)


def test_p8_the_leader_writes_once_per_renew_interval() -> None:
    election, watch, _ = leader()
    version, writes = 2, 0
    for tenth in range(1, 301):
        for command in due(election, tenth / 10):
            assert isinstance(command, WriteLease)
            version, writes = version + 1, writes + 1
            election.write_answered(command.id, tenth / 10, stored(command, version))
            election.event_arrived(watch.id, tenth / 10, stored(command, version))
    assert writes == 15


def test_a_damaged_record_of_ours_is_restored_before_the_next_renewal() -> None:
    election, watch, _ = leader()
    election.event_arrived(watch.id, 0.6, ours(3, ME, duration=1, renewed=0))
    assert due_write(election, 0.6).body["spec"]["leaseDurationSeconds"] == 15


# ── news that is none ──


def test_events_at_or_below_the_newest_known_version_are_ignored() -> None:
    election, watch, lease = leader()
    write = due_write(election, 2)
    election.write_answered(write.id, 2.1, stored(write, 5))
    for late in (ours(4, OTHER), ours(5, OTHER), lease):
        election.event_arrived(watch.id, 2.2, late)
    election.event_arrived(watch.id, 2.2, ours(4, ME), is_deleted=True)
    assert election.view(2.2).is_leader


def test_an_answer_that_was_overtaken_by_an_event_is_asked_for_again() -> None:
    election, watch, _ = leader()
    election.write_conflicted(due_write(election, 2).id, 2.1)
    read = due_read(election, 2.1)
    election.event_arrived(watch.id, 2.2, ours(6, ME, renewed=1))
    for stale in (ours(4, OTHER), None):
        election.read_answered(read.id, 2.3, stale)
        assert election.view(2.3).is_leader


def test_reports_of_an_ended_watch_are_ignored() -> None:
    election, watch = standby(ours(1, OTHER))
    election.watch_ended(watch.id, 2, is_orderly=True)
    election.event_arrived(watch.id, 2.5, record(9))
    assert election.view(2.5).holder == OTHER


def test_a_watch_that_ends_in_order_goes_on_from_the_newest_version_without_a_read() -> None:
    election, watch = standby(ours(1, OTHER))
    election.event_arrived(watch.id, 2, ours(7, OTHER, renewed=2))
    election.watch_ended(watch.id, 4, is_orderly=True)
    [again] = due(election, 4)
    assert isinstance(again, WatchLease)
    assert again.resource_version == 7


def test_a_watch_that_fails_costs_a_standby_a_read_first() -> None:
    """410, a cut connection: versions may have been missed."""
    election, watch = standby(ours(1, OTHER))
    election.watch_ended(watch.id, 2, is_orderly=False)
    [read] = due(election, 2)
    assert isinstance(read, ReadLease)


def test_a_watch_that_ends_at_once_is_not_opened_again_at_once() -> None:
    election, watch = standby(ours(1, OTHER))
    election.watch_ended(watch.id, 0.01, is_orderly=True)
    assert is_quiet(election, 0.5)
    [again] = due(election, 0.01 + STANDBY_RETRY)
    assert isinstance(again, WatchLease)


# ── coordinated leader election ──


def test_a_standby_of_a_coordinated_lease_is_not_contending() -> None:
    election, _ = standby(record(1, strategy="OldestEmulationVersion"))
    assert not election.view(1).is_contending
    assert not any(isinstance(c, WriteLease) for now in (1, 60) for c in due(election, now))


def test_a_leader_goes_on_under_a_strategy_and_keeps_its_fields() -> None:
    election, watch, _ = leader()
    fields = {"strategy": "OldestEmulationVersion", "preferredHolder": ME}
    election.event_arrived(watch.id, 1, ours(3, ME, renewed=0, **fields))
    assert election.view(1).is_leader
    spec = due_write(election, 2).body["spec"]
    assert (spec["strategy"], spec["preferredHolder"]) == ("OldestEmulationVersion", ME)


# ── found by review: edits, gaps and odd servers ──

CLIENT_GO = "client-go_1"


@pytest.mark.parametrize("saw_its_release", [False, True])
def test_p4_a_left_over_annotation_after_a_gap_is_no_release(saw_its_release: bool) -> None:
    """One of ours may have taken the Lease unseen, and been blanked: its annotation is the same."""
    election, watch = standby(record(5, CLIENT_GO, marked="pod-a_1", transitions=3))
    election.set_intent(0.5, Intent.ABSTAIN)
    if saw_its_release:
        blank = record(6, marked="pod-a_1", duration=1, renewed=1, transitions=3)
        election.event_arrived(watch.id, 1.0, blank)
    election.watch_ended(watch.id, 40, is_orderly=False)
    election.set_intent(40, Intent.CONTEND)
    [read, attempt] = due(election, 40)
    assert isinstance(read, ReadLease)
    assert isinstance(attempt, WriteLease)
    election.write_conflicted(attempt.id, 40)
    blanked = record(9, marked="pod-a_1", duration=15, renewed=39, transitions=4)
    election.read_answered(read.id, 40, blanked)
    assert not [command for command in due(election, 40) if isinstance(command, WriteLease)]
    assert [command for command in due(election, 40 + 18.1) if isinstance(command, WriteLease)]


@pytest.mark.parametrize("year", [2200, 3000, 9999])
def test_p5_a_renew_time_edited_into_the_far_future_stops_nothing(year: int) -> None:
    election, watch, _ = leader()
    stamp = f"{year}-12-31T23:59:59.000000Z"
    election.event_arrived(watch.id, 1.0, record(3, ME, marked=ME, renewTime=stamp))
    stamps = []
    for now in (2.0, 3.0, 4.0):
        write = due_write(election, now)
        stamps.append(write.stamp)
        election.write_lost(write.id, now + 0.1)
    assert len(set(stamps)) == 3
    assert all(stamp.startswith("2023-") for stamp in stamps), "by our own wall clock"


def test_p8_a_watch_whose_cursor_is_too_old_begins_again_from_the_present_state() -> None:
    election, watch = standby(ours(5, OTHER))
    election.watch_ended(watch.id, 10, is_orderly=False)
    election.read_answered(due_read(election, 10).id, 10, ours(5, OTHER))
    [again] = [command for command in due(election, 10) if isinstance(command, WatchLease)]
    assert again.resource_version is None
    election.watch_ended(again.id, 3600, is_orderly=True)
    [resumed] = [command for command in due(election, 3600) if isinstance(command, WatchLease)]
    assert resumed.resource_version == 5


def test_p4_the_first_event_of_a_watch_from_the_present_state_may_follow_a_gap() -> None:
    """The overwritten holder may have renewed unseen: its claim counts from now."""
    election, watch = standby(ours(5, OTHER))
    election.watch_ended(watch.id, 10, is_orderly=False)
    election.read_answered(due_read(election, 10).id, 10, ours(5, OTHER))
    [again] = [command for command in due(election, 10) if isinstance(command, WatchLease)]
    election.event_arrived(again.id, 14, record(9, "thief_1", duration=1, renewed=14))
    assert election.view(14).free_at == 14 + 15


def test_an_expired_lease_of_our_own_is_free_too() -> None:
    election, _, _ = leader()
    election.set_intent(1, Intent.ABSTAIN)
    assert election.free_since(1) is None
    assert election.free_since(20) == 15


def test_p4_a_lease_that_an_edit_hands_to_us_waits_for_the_robbed_holder() -> None:
    election, watch, _ = leader()
    robbing = record(3, CLIENT_GO, marked=ME, renewed=1, transitions=2)
    election.event_arrived(watch.id, 1.0, robbing)
    renewed = record(4, CLIENT_GO, marked=ME, renewed=21, transitions=2)
    election.event_arrived(watch.id, 21.0, renewed)
    handed = record(5, ME, marked=ME, renewed=21, transitions=2)
    election.event_arrived(watch.id, 22.0, handed)
    assert not [command for command in due(election, 22.0) if isinstance(command, WriteLease)]
    assert not election.view(22.1).is_leader
    assert [command for command in due(election, 22.0 + 18.1) if isinstance(command, WriteLease)]


def test_lease_transitions_stop_at_what_the_api_server_can_store() -> None:
    election = candidate()
    election.read_answered(due_read(election, 0).id, 0, record(1, transitions=2**31 - 1))
    assert due_write(election, 0).body["spec"]["leaseTransitions"] == 2**31 - 1


def test_a_server_that_says_404_and_409_is_not_asked_as_fast_as_it_answers() -> None:
    election, watch, _ = leader()
    election.event_arrived(watch.id, 1.0, record(3, ME, marked=ME), is_deleted=True)
    requests, now = 0, 1.0
    while now < 11:
        for command in due(election, now):
            requests += 1
            if isinstance(command, ReadLease):
                election.read_answered(command.id, now + 0.002, None)
            elif isinstance(command, WriteLease):
                election.write_conflicted(command.id, now + 0.004)
        now += 0.005
    assert requests < 100


def test_each_term_is_counted_also_one_that_nobody_asked_about() -> None:
    election, _, _ = leader()
    assert election.terms == 1
    write = due_write(election, 30)
    election.write_answered(write.id, 30.1, stored(write, 9))
    assert election.terms == 2


def test_p4_a_gap_does_not_make_a_replaced_lease_a_released_one() -> None:
    """Deleted and created empty under a leader that cannot hear of it, then edited once more."""
    election, watch = standby(ours(5, OTHER))
    election.watch_ended(watch.id, 10, is_orderly=False)
    election.read_answered(due_read(election, 10).id, 10, record(8, uid="uid-2"))
    [again] = [command for command in due(election, 10) if isinstance(command, WatchLease)]
    election.event_arrived(again.id, 11, record(9, uid="uid-2", duration=1))
    assert not [command for command in due(election, 11.1) if isinstance(command, WriteLease)]
    assert election.view(11).free_at >= 10 + 15
