"""Switchovers, holds and priorities, step by step: what is asked by annotations of the Lease.

None of them frees a Lease or shortens a wait: most of these tests say what does not happen.
"""

import json
import math
from dataclasses import replace
from typing import Any

import pytest

from elector_sidecar.core.election import Election
from elector_sidecar.core.handover import SUCCESSION, Cause, HandoverCause, Intent, SwitchoverTo
from elector_sidecar.core.lease import HOLDER_ANNOTATION, Lease, micro_time, parse_lease
from elector_sidecar.core.lease_watch import WatchLease
from elector_sidecar.core.lease_writes import Candidate, Purpose, WriteLease
from elector_sidecar.core.moves.annotations import (
    HOLD_ANNOTATION,
    MAX_TEXT,
    PRIORITY_ANNOTATION,
    SWITCHOVER_ANNOTATION,
    Hold,
    Switchover,
)
from elector_sidecar.core.moves.moves import ASK_AGAIN, LONGEST_HOLD, MOVE_INTERVAL, MovePolicy
from elector_sidecar.core.timing import Timing
from tests.unit.elector.core.records import WALL

ME, OTHER, THIRD = "pod-1_a", "pod-2_b", "pod-3_c"
DRAINS = MovePolicy(can_drain=True)
SETTLE = 30.0
HIGH = MovePolicy(can_drain=True, priority=7, settle=SETTLE)
TO_OTHER = Switchover("pod-2", "id-1", WALL + 60)


def record(version: int, holder: str = "", **said: Any) -> Lease:
    """`said`: annotations by their last words; those of a holder mark it as ours."""
    renewed, acquired = said.pop("renewed", 0.0), said.pop("acquired", 0.0)
    marked = {HOLDER_ANNOTATION: holder} if holder else {}
    named = {f"edge-sidecars.io/{name}": text for name, text in said.items()}
    return parse_lease(
        {
            "metadata": {
                "name": "controller",
                "namespace": "default",
                "uid": "uid-1",
                "resourceVersion": str(version),
                "annotations": marked | named,
            },
            "spec": {
                "holderIdentity": holder,
                "leaseDurationSeconds": 15 if holder else 1,
                "acquireTime": micro_time(WALL + acquired),
                "renewTime": micro_time(WALL + renewed),
                "leaseTransitions": 1,
            },
        }
    )


def released(version: int, *, to: str = "pod-2", at: float = 0.0, **said: Any) -> Lease:
    """In order, for a successor."""
    text = replace(TO_OTHER, to=to).released_at(micro_time(WALL + at)).text()
    return record(version, renewed=at, switchover=text, **said)


def stored(write: WriteLease, version: int) -> Lease:
    metadata = {**write.body["metadata"], "resourceVersion": str(version)}
    return parse_lease({"metadata": metadata, "spec": write.body["spec"]})


def annotations(write: WriteLease) -> dict[str, str]:
    found: dict[str, str] = write.body["metadata"]["annotations"]
    return found


class Driven:
    """One candidate, which has read `lease` at 0 and watches it."""

    def __init__(self, lease: Lease, policy: MovePolicy | None = DRAINS, identity: str = ME):
        candidate = Candidate(identity, "default", "controller", Timing(), moves=policy)
        self.core = Election(candidate, now=0.0)
        [read] = self.core.advance(0.0, wall=WALL, chance=0.0)
        self.core.read_answered(read.id, 0.0, lease)
        commands = self.core.advance(0.0, wall=WALL, chance=0.0)
        [self.watch] = [it for it in commands if isinstance(it, WatchLease)]
        self.written = [it for it in commands if isinstance(it, WriteLease)]

    def writes(self, now: float) -> list[WriteLease]:
        commands = self.core.advance(now, wall=WALL + now, chance=0.0)
        return [it for it in commands if isinstance(it, WriteLease)]

    def sees(self, now: float, lease: Lease) -> None:
        self.core.event_arrived(self.watch.id, now, lease)

    def next_write(self, now: float, *, until: float) -> float:
        """When it is due next, without a further event; +inf if not before `until`."""
        while (at := self.core.wake_at(now)) <= until:
            now = max(at, now)
            if self.writes(now):
                return now
        return math.inf


def leader(policy: MovePolicy | None = DRAINS) -> Driven:
    """By version 2."""
    it = Driven(record(1), policy)
    [write] = it.written
    it.core.write_answered(write.id, 0.0, stored(write, 2))
    assert it.core.view(0.0).is_leader
    return it


def led(version: int, **said: Any) -> Lease:
    """The leader's record, edited."""
    return record(version, ME, **said)


# ── the holder ──


def test_the_holder_is_asked_for_a_switchover_by_its_lease() -> None:
    it = leader()
    it.sees(0.1, led(3, switchover=TO_OTHER.text()))
    assert it.core.asked(0.1) == SwitchoverTo("pod-2")
    assert it.core.problem(0.1) == ""
    assert it.core.view(0.1).is_leader  # it ends the term itself, in order


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (replace(TO_OTHER, until=WALL - 1).text(), "too late"),
        (replace(TO_OTHER, to="pod-1").text(), "to the holder itself"),
        (TO_OTHER.released_at(micro_time(WALL)).text(), "begun before"),
        ("x" * 1_000_000, "more than"),
        ("[" * MAX_TEXT, "not JSON"),
        ("7", "not a JSON object"),
        ('{"to":"pod-2","id":"","until":"2033-01-01T00:00:00Z"}', "id ''"),
        ('{"to":"Pod 2","id":"1","until":"2033-01-01T00:00:00Z"}', "not a pod's name"),
        ('{"to":"pod-2","id":"1","until":"soon"}', "not a time"),
        ('{"to":"pod-2","id":"1","until":"9999-12-31T23:59:59-12:00"}', "not a time"),
        ('{"to":"pod-2","id":"1","until":"2033-01-01T00:00:00Z","released":1}', "not a time"),
    ],
)
def test_what_is_no_switchover_is_told_and_goes_with_the_next_renewal(text: str, why: str) -> None:
    it = leader()
    it.sees(0.1, led(3, switchover=text))
    assert it.core.asked(0.1) is None
    assert why in it.core.problem(0.1)
    [renewal] = it.writes(2.0)
    assert SWITCHOVER_ANNOTATION not in annotations(renewal)
    assert renewal.sent_at == 2.0  # no request more


def test_without_a_drain_url_no_switchover_is_begun() -> None:
    it = leader(MovePolicy(can_drain=False))
    it.sees(0.1, led(3, switchover=TO_OTHER.text()))
    assert it.core.asked(0.1) is None
    assert "--drain-url" in it.core.problem(0.1)


def test_the_lease_of_one_of_many_members_is_not_moved() -> None:
    it = leader(None)
    it.sees(0.1, led(3, switchover=TO_OTHER.text(), hold=Hold("h", WALL + 60).text()))
    assert it.core.asked(0.1) is None
    [renewal] = it.writes(2.0)
    assert {SWITCHOVER_ANNOTATION, HOLD_ANNOTATION} <= set(annotations(renewal))


def give_up(it: Driven, now: float, version: int) -> WriteLease:
    """In order, at one moment; the release."""
    it.core.set_intent(now, Intent.HOLD)
    it.core.set_intent(now, Intent.RELEASE)
    [read, *_] = it.core.advance(now, wall=WALL + now, chance=0.0)
    record = it.core.record
    assert record is not None
    it.core.read_answered(read.id, now, record)
    [write] = it.writes(now)
    assert write.purpose is Purpose.RELEASE
    it.core.write_answered(write.id, now, stored(write, version))
    return write


def test_the_release_names_the_successor_and_itself() -> None:
    it = leader()
    it.sees(0.1, led(3, switchover=TO_OTHER.text(), priority="7"))
    release = give_up(it, 1.0, 4)
    said = json.loads(annotations(release)[SWITCHOVER_ANNOTATION])
    assert said["to"] == "pod-2"
    assert said["id"] == "id-1"
    assert said["released"] == release.body["spec"]["renewTime"]
    assert release.body["spec"]["holderIdentity"] == ""
    assert PRIORITY_ANNOTATION not in annotations(release)


def test_what_is_asked_stays_while_the_main_drains() -> None:
    it = leader()
    it.sees(0.1, led(3, switchover=TO_OTHER.text()))
    it.core.set_intent(0.1, Intent.HOLD)
    [renewal] = it.writes(2.0)
    assert annotations(renewal)[SWITCHOVER_ANNOTATION] == TO_OTHER.text()
    assert not it.core.view(2.0).is_leader


@pytest.mark.parametrize("to", ["", "pod-1"])
def test_a_release_for_any_other_names_none(to: str) -> None:
    it = leader()
    it.sees(0.1, led(3, switchover=replace(TO_OTHER, to=to).text()))
    assert SWITCHOVER_ANNOTATION not in annotations(give_up(it, 1.0, 4))


def test_a_resignation_may_name_the_successor_without_the_lease() -> None:
    it = leader()
    it.core.name_successor(TO_OTHER)
    assert '"pod-2"' in annotations(give_up(it, 1.0, 3))[SWITCHOVER_ANNOTATION]


def test_a_resignation_that_names_none_is_not_for_the_successor_of_the_one_before() -> None:
    it = leader()
    it.core.name_successor(TO_OTHER)
    it.core.set_intent(1.0, Intent.ABSTAIN)
    it.core.set_intent(1.0, Intent.CONTEND)
    assert SWITCHOVER_ANNOTATION not in annotations(give_up(it, 2.0, 3))


def test_a_switchover_is_begun_once() -> None:
    it = leader()
    it.sees(0.1, led(3, switchover=TO_OTHER.text()))
    it.core.set_intent(0.1, Intent.HOLD)
    it.core.set_intent(5.0, Intent.ABSTAIN)  # its main did not stop in time
    it.core.set_intent(5.0, Intent.CONTEND)
    assert it.core.asked(5.0) is None
    [renewal] = it.writes(5.0)
    assert SWITCHOVER_ANNOTATION not in annotations(renewal)


def test_a_takeover_answers_no_switchover_that_was_asked_of_the_one_before() -> None:
    it = Driven(record(1, OTHER, switchover=replace(TO_OTHER, to="pod-3").text()))
    [write] = it.writes(20.0)
    assert SWITCHOVER_ANNOTATION not in annotations(write)


# ── the successor, and the others ──


def test_the_successor_takes_a_release_at_once_and_the_others_three_seconds_after_they_saw_it() -> (
    None
):
    it = Driven(released(1), identity=OTHER)
    assert it.written
    it = Driven(released(1))
    assert not it.written
    assert it.core.view(0.0).free_at == SUCCESSION
    assert it.next_write(0.0, until=10.0) == SUCCESSION


def test_a_release_is_left_to_its_successor_by_the_own_clock_since_it_was_seen() -> None:
    it = Driven(record(1, OTHER))
    it.sees(7.0, released(2, to="pod-3", at=1.0))
    assert it.next_write(7.0, until=20.0) == 7.0 + SUCCESSION


def test_no_edit_of_a_release_makes_the_others_wait_longer_or_less() -> None:
    it = Driven(released(1, to="pod-3"))
    it.sees(1.0, released(2, to="pod-9"))
    it.sees(1.5, released(3, to="pod-1"))
    it.sees(2.0, record(4))
    assert it.next_write(2.0, until=10.0) == SUCCESSION


def test_a_later_release_that_keeps_the_annotation_is_for_everybody() -> None:
    """As client-go's: the annotation names another release."""
    text = TO_OTHER.released_at(micro_time(WALL - 100)).text()
    assert Driven(record(1, switchover=text)).written


def test_the_next_release_for_everybody_does_not_wait_for_the_successor_of_the_one_before() -> None:
    it = Driven(released(1, to="pod-3"))
    it.sees(0.5, record(2, THIRD))
    it.sees(1.0, record(3))
    assert it.writes(1.0)


def test_a_switchover_in_a_record_of_a_holder_frees_nothing() -> None:
    text = TO_OTHER.released_at(micro_time(WALL)).text()
    it = Driven(record(1, THIRD, switchover=text), identity=OTHER)
    assert it.next_write(0.0, until=30.0) == 15.0


# ── hold ──


def held(version: int, holder: str = "", *, until: float = 100.0, **said: Any) -> Lease:
    return record(version, holder, hold=Hold("hold-1", WALL + until).text(), **said)


def test_a_hold_makes_the_holder_give_up_and_goes_on_after_it() -> None:
    it = leader()
    it.sees(0.1, held(3, ME))
    assert it.core.asked(0.1) is HandoverCause.HOLD
    release = give_up(it, 1.0, 4)
    assert HOLD_ANNOTATION in annotations(release)
    it.core.set_intent(1.0, Intent.CONTEND)
    assert it.next_write(1.0, until=90.0) == math.inf
    view = it.core.view(50.0)
    assert not view.is_contending
    assert view.held_back_until == pytest.approx(100.0)


def test_a_hold_ends_when_it_says_so() -> None:
    it = Driven(held(1))
    assert not it.written
    assert it.next_write(0.0, until=200.0) == pytest.approx(100.0)


def test_a_hold_ends_when_it_is_taken_off() -> None:
    it = Driven(held(1))
    it.sees(5.0, record(2))
    assert it.writes(5.0)


def test_a_hold_without_a_sensible_end_ends_a_week_after_it_was_seen() -> None:
    it = Driven(held(1, until=1e10))
    assert it.next_write(0.0, until=2 * LONGEST_HOLD) == LONGEST_HOLD


@pytest.mark.parametrize("text", ["", "{}", "x" * 1_000_000, '{"id":"1","until":"never"}'])
def test_what_is_no_hold_keeps_nobody_out_and_is_told(text: str) -> None:
    it = Driven(record(1, hold=text))
    [write] = it.written
    assert HOLD_ANNOTATION in it.core.problem(0.0)
    assert HOLD_ANNOTATION not in annotations(write)


def test_a_hold_frees_no_lease_and_shortens_no_wait() -> None:
    it = Driven(held(1, OTHER, until=3.0))
    assert it.next_write(0.0, until=30.0) == 15.0


def test_under_a_hold_a_term_that_lapsed_is_not_begun_again() -> None:
    """Its main could not stop: the Lease expires, and its own holder leaves it so."""
    it = leader()
    it.sees(0.1, held(3, ME))
    it.core.set_intent(0.1, Intent.HOLD)
    it.core.set_intent(10.0, Intent.ABSTAIN)
    it.core.set_intent(10.0, Intent.CONTEND)
    assert it.next_write(10.0, until=90.0) == math.inf


# ── priority ──


def renewed(lease: Lease, version: int, now: float) -> Lease:
    metadata = {**lease.raw["metadata"], "resourceVersion": str(version)}
    spec = {**lease.raw["spec"], "renewTime": micro_time(WALL + now)}
    return replace(
        parse_lease({"metadata": metadata, "spec": spec}), marked_holder=lease.marked_holder
    )


def ask_by(it: Driven, now: float, *, until: float) -> WriteLease | None:
    """What is written first, while the holder renews each second."""
    while now <= until:
        for write in it.writes(now):
            return write
        assert it.core.record is not None
        it.sees(now, renewed(it.core.record, it.core.record.resource_version + 1, now))
        now += 1.0
    return None


def ask_of(it: Driven, now: float, *, until: float) -> WriteLease:
    found = ask_by(it, now, until=until)
    assert found is not None
    assert found.purpose is Purpose.ASK
    return found


def test_a_higher_priority_asks_for_the_lead_when_it_has_settled() -> None:
    it = Driven(record(1, OTHER, acquired=-300, priority="3"), HIGH)
    ask = ask_of(it, 0.0, until=100.0)
    assert ask.sent_at == pytest.approx(SETTLE, abs=3)
    said = json.loads(annotations(ask)[SWITCHOVER_ANNOTATION])
    assert said["to"] == "pod-1"
    # The record is changed in nothing else, and by compare-and-swap.
    assert ask.body["spec"]["holderIdentity"] == OTHER
    assert it.core.record is not None
    assert ask.body["spec"] == it.core.record.raw["spec"]
    assert annotations(ask)[PRIORITY_ANNOTATION] == "3"
    assert ask.body["metadata"]["resourceVersion"]
    assert ask.body["metadata"]["uid"] == "uid-1"


@pytest.mark.parametrize(
    "lease",
    [
        record(1, OTHER, acquired=-300, priority="7"),
        record(1, OTHER, acquired=-300, priority="8"),
        # Asked already; a hold comes first; a candidate of client-go answers none.
        record(1, OTHER, acquired=-300, switchover=TO_OTHER.text()),
        record(1, OTHER, acquired=-300, hold=Hold("h", WALL + 1e6).text()),
        replace(record(1, OTHER, acquired=-300), marked_holder=None),
    ],
)
def test_an_equal_priority_or_a_holder_that_does_not_answer_is_not_asked(lease: Lease) -> None:
    it = Driven(lease, HIGH)
    assert ask_by(it, 0.0, until=200.0) is None


def test_without_a_priority_nothing_is_asked_and_nothing_said_of_it() -> None:
    it = Driven(record(1, OTHER, acquired=-300), DRAINS)
    assert ask_by(it, 0.0, until=200.0) is None
    [write] = Driven(record(1), DRAINS).written
    assert PRIORITY_ANNOTATION not in annotations(write)


def test_the_holder_says_its_priority() -> None:
    [write] = Driven(record(1), HIGH).written
    assert annotations(write)[PRIORITY_ANNOTATION] == "7"


def test_nobody_is_asked_within_a_minute_of_the_last_change_of_holder() -> None:
    it = Driven(record(1, OTHER, acquired=-300, priority="3"), HIGH)
    it.sees(10.0, record(2, THIRD, acquired=10.0))
    assert ask_of(it, 10.0, until=200.0).sent_at >= 10.0 + MOVE_INTERVAL


def test_a_holder_that_was_away_in_between_is_as_good_as_another() -> None:
    it = Driven(record(1, OTHER, acquired=-300, priority="3"), HIGH)
    it.sees(10.0, released(2, to="pod-3", at=10.0))
    it.sees(11.0, record(3, OTHER, acquired=11.0, renewed=11.0, priority="3"))
    assert ask_of(it, 11.0, until=200.0).sent_at >= 11.0 + MOVE_INTERVAL


def test_a_priority_that_was_taken_off_by_hand_is_put_back_before_it_counts() -> None:
    it = Driven(record(1, OTHER, acquired=-300, priority="7"), HIGH)
    assert ask_by(it, 0.0, until=100.0) is None
    it.sees(101.0, record(1000, OTHER, acquired=-300))
    assert ask_by(it, 101.0, until=103.0) is None
    it.sees(104.0, record(2000, OTHER, acquired=-300, priority="7"))
    assert ask_by(it, 104.0, until=300.0) is None


def test_a_holder_that_declines_is_not_asked_again_for_long() -> None:
    it = Driven(record(1, OTHER, acquired=-300, priority="3"), HIGH)
    first = ask_of(it, 0.0, until=100.0)
    it.core.write_answered(first.id, first.sent_at, stored(first, 1000))
    it.sees(first.sent_at + 2, record(1001, OTHER, acquired=-300, priority="3"))
    again = ask_of(it, first.sent_at + 2, until=2000.0)
    assert again.sent_at >= first.sent_at + ASK_AGAIN


def test_a_conflict_with_a_renewal_is_no_answer() -> None:
    it = Driven(record(1, OTHER, acquired=-300, priority="3"), HIGH)
    first = ask_of(it, 0.0, until=100.0)
    it.core.write_conflicted(first.id, first.sent_at)
    it.sees(first.sent_at + 0.1, record(1000, OTHER, acquired=-300, priority="3"))
    assert it.writes(first.sent_at + 0.1)


def test_what_it_asked_for_it_takes_at_once() -> None:
    it = Driven(record(1, OTHER, acquired=-300, priority="3"), HIGH)
    ask = ask_of(it, 0.0, until=100.0)
    now = ask.sent_at + 0.01
    it.core.write_answered(ask.id, now, stored(ask, 1000))
    it.sees(now + 0.02, released(1001, to="pod-1", at=now + 0.02))
    [write] = it.writes(now + 0.02)
    assert write.purpose is Purpose.ACQUIRE_OR_RENEW


def test_a_cause_is_told_in_words() -> None:
    causes: list[Cause] = [SwitchoverTo("pod-2"), SwitchoverTo("")]
    assert [it.value for it in causes] == ["switchover to pod-2", "switchover to any other pod"]
