"""The rules of giving up in order (P6) and of the gate on the main's health, in virtual time."""

from dataclasses import replace

import pytest

from elector_sidecar.core.election import Stance
from elector_sidecar.core.lifecycle import (
    UNCLAIMED_LIMIT,
    Cause,
    Facts,
    Health,
    Phase,
    Policy,
    Tenure,
)

BARE = Policy(
    has_health=False,
    health_failures=3,
    health_grace=30.0,
    health_backoff=10.0,
    has_drain=False,
    drain_timeout=10.0,
    release_on_term=False,
    release_timeout=6.0,
)
GATED = replace(BARE, has_health=True)
DRAINED = replace(BARE, has_drain=True)

STANDBY = Facts(
    is_leader=False,
    holds_record=False,
    may_hold=False,
    is_released=False,
    free_since=None,
    is_unpreferred=False,
)
LEADER = replace(STANDBY, is_leader=True, holds_record=True, may_hold=True)
LAPSED = replace(LEADER, is_leader=False)
RELEASED = replace(STANDBY, is_released=True)


def free(since: float) -> Facts:
    return replace(STANDBY, free_since=since)


def leading(policy: Policy) -> Tenure:
    """Since 0, with a main that was healthy then."""
    tenure = Tenure(policy, now=0)
    if policy.has_health:
        tenure.health_checked(0, Health.OK)
    assert tenure.plan(0, LEADER).stance is Stance.CONTEND
    return tenure


def fail(tenure: Tenure, now: float, health: Health, times: int = 3) -> None:
    for _ in range(times):
        tenure.health_checked(now, health)


# ── SIGTERM ──


def test_a_standby_that_is_terminated_is_over_at_once() -> None:
    tenure = Tenure(BARE, now=0)
    tenure.plan(0, STANDBY)
    tenure.terminate(1, STANDBY)
    plan = tenure.plan(1, STANDBY)
    assert plan.is_over
    assert plan.stance is Stance.ABSTAIN


@pytest.mark.parametrize("policy", [BARE, DRAINED, GATED, replace(DRAINED, has_health=True)])
def test_release_on_term_vouches_for_the_main(policy: Policy) -> None:
    tenure = leading(replace(policy, release_on_term=True))
    tenure.terminate(1, LEADER)
    plan = tenure.plan(1, LEADER)
    assert plan.stance is Stance.RELEASE
    assert not plan.drains
    assert tenure.plan(1.1, RELEASED).is_over
    assert tenure.outcome.was_released
    assert tenure.outcome.cause is Cause.TERMINATION


def test_without_any_word_of_the_main_a_terminated_leader_lets_the_lease_expire() -> None:
    tenure = leading(BARE)
    tenure.terminate(1, LEADER)
    plan = tenure.plan(1, LEADER)
    assert plan.is_over
    assert plan.stance is Stance.ABSTAIN, "no release"
    assert not tenure.outcome.was_released


def test_a_terminated_leader_renews_while_its_main_drains_and_then_releases() -> None:
    tenure = leading(DRAINED)
    tenure.terminate(1, LEADER)
    plan = tenure.plan(1, LEADER)
    assert (plan.stance, plan.drains, plan.is_over) == (Stance.HOLD, True, False)
    assert tenure.wake_at() == 11
    tenure.main_stopped()
    assert tenure.plan(2, LEADER).stance is Stance.RELEASE
    assert tenure.plan(2.1, RELEASED).is_over


def test_a_term_that_began_since_the_last_plan_is_drained_too() -> None:
    tenure = Tenure(DRAINED, now=0)
    tenure.plan(0, STANDBY)
    tenure.terminate(1, LEADER)
    assert tenure.plan(1, LEADER).drains


def test_a_drain_that_times_out_lets_the_lease_expire() -> None:
    tenure = leading(DRAINED)
    tenure.terminate(1, LEADER)
    assert tenure.plan(10.9, LEADER).stance is Stance.HOLD
    plan = tenure.plan(11, LEADER)
    assert plan.is_over
    assert not tenure.outcome.was_released


def test_a_main_that_is_gone_while_it_drains_counts_as_stopped() -> None:
    tenure = leading(replace(GATED, has_drain=True))
    tenure.terminate(1, LEADER)
    tenure.plan(1, LEADER)
    tenure.health_checked(1.1, Health.REFUSED)
    assert tenure.plan(1.1, LEADER).stance is Stance.HOLD, "one refusal may be a restart"
    tenure.health_checked(1.2, Health.REFUSED)
    assert tenure.plan(1.2, LEADER).stance is Stance.RELEASE


def test_who_never_led_may_release_at_once() -> None:
    """An acquiring write is under way: the main has not been told to work yet."""
    tenure = Tenure(DRAINED, now=0)
    under_way = replace(STANDBY, may_hold=True)
    tenure.plan(0, under_way)
    tenure.terminate(1, under_way)
    assert tenure.plan(1, under_way).stance is Stance.RELEASE


def test_a_lease_lost_while_draining_needs_no_release() -> None:
    tenure = leading(DRAINED)
    tenure.terminate(1, LEADER)
    tenure.plan(1, LEADER)
    plan = tenure.plan(2, STANDBY)
    assert plan.is_over
    assert not tenure.outcome.was_released


def test_a_lapsed_leader_still_drains_before_it_releases() -> None:
    tenure = leading(DRAINED)
    tenure.plan(5, LAPSED)
    tenure.terminate(6, LAPSED)
    assert tenure.plan(6, LAPSED).stance is Stance.HOLD


def test_a_release_that_is_not_confirmed_in_time_is_given_up() -> None:
    tenure = leading(replace(BARE, release_on_term=True))
    tenure.terminate(1, LEADER)
    assert tenure.plan(6.9, LEADER).stance is Stance.RELEASE
    assert tenure.plan(7, LEADER).is_over
    assert not tenure.outcome.was_released


def test_sigterm_during_a_resignation_ends_after_it() -> None:
    tenure = leading(DRAINED)
    assert tenure.resign(1, LEADER, cooldown=5)
    tenure.plan(1, LEADER)
    tenure.terminate(2, LEADER)
    assert tenure.plan(2, LEADER).stance is Stance.HOLD
    tenure.main_stopped()
    assert tenure.plan(3, LEADER).stance is Stance.RELEASE
    assert tenure.plan(3.1, RELEASED).is_over


def test_a_main_whose_drain_timed_out_is_never_vouched_for_later() -> None:
    """It may still work on the old term when its health is back and it contends again."""
    tenure = leading(replace(GATED, has_drain=True))
    fail(tenure, 40, Health.FAILING)
    assert tenure.plan(40, LEADER).drains
    assert tenure.plan(50, LEADER).stance is Stance.ABSTAIN
    tenure.health_checked(51, Health.OK)
    assert tenure.plan(60, LAPSED).stance is Stance.CONTEND
    tenure.terminate(60.1, LAPSED)
    assert tenure.plan(60.1, LAPSED).stance is Stance.HOLD, "drained, not released at once"


# ── resign ──


@pytest.mark.parametrize("facts", [STANDBY, LAPSED])
def test_only_a_leader_resigns(facts: Facts) -> None:
    tenure = Tenure(BARE, now=0)
    tenure.plan(0, facts)
    assert not tenure.resign(1, facts, cooldown=5)
    assert tenure.phase is Phase.CONTENDING


def test_without_a_drain_url_the_request_is_the_mains_word() -> None:
    tenure = leading(BARE)
    assert tenure.resign(1, LEADER, cooldown=5)
    assert tenure.plan(1, LEADER).stance is Stance.RELEASE
    assert tenure.plan(1.1, RELEASED).stance is Stance.ABSTAIN
    assert (tenure.outcome.number, tenure.outcome.was_released) == (1, True)


def test_with_a_drain_url_resigning_drains_first() -> None:
    tenure = leading(DRAINED)
    assert tenure.resign(1, LEADER, cooldown=5)
    plan = tenure.plan(1, LEADER)
    assert (plan.stance, plan.drains) == (Stance.HOLD, True)
    assert not tenure.resign(1, LEADER, cooldown=5), "once"


def test_who_resigned_stays_out_for_the_whole_cooldown() -> None:
    """Even when nobody else takes the Lease: an operator wanted it so."""
    tenure = leading(BARE)
    tenure.resign(1, LEADER, cooldown=30)
    tenure.plan(1.1, replace(RELEASED, free_since=1.1))
    plan = tenure.plan(31, replace(RELEASED, free_since=1.1))
    assert plan.stance is Stance.ABSTAIN
    assert "another 0.1s: resigned by request" in plan.reason
    assert tenure.plan(31.1, free(1.1)).stance is Stance.CONTEND


# ── the gate ──


def test_the_gate_opens_at_the_first_2xx() -> None:
    tenure = Tenure(GATED, now=0)
    plan = tenure.plan(0, free(0))
    assert (plan.stance, plan.reason) == (
        Stance.ABSTAIN,
        "the main is not healthy: not asked yet",
    )
    tenure.health_checked(1, Health.HUNG)
    assert tenure.plan(1, free(0)).reason == "the main is not healthy: hung"
    tenure.health_checked(2, Health.OK)
    assert tenure.is_open
    assert tenure.plan(2, free(0)).stance is Stance.CONTEND


def test_a_standby_whose_main_fails_stops_to_contend() -> None:
    tenure = Tenure(GATED, now=0)
    tenure.health_checked(0, Health.OK)
    tenure.plan(0, STANDBY)
    fail(tenure, 1, Health.FAILING, times=2)
    assert tenure.plan(1, STANDBY).stance is Stance.CONTEND
    fail(tenure, 2, Health.FAILING, times=1)
    assert tenure.plan(2, STANDBY).stance is Stance.ABSTAIN
    assert not tenure.is_open


def test_failures_count_only_in_a_row() -> None:
    tenure = leading(GATED)
    for _ in range(5):
        fail(tenure, 40, Health.FAILING, times=2)
        tenure.health_checked(40, Health.OK)
    assert tenure.plan(40, LEADER).stance is Stance.CONTEND


@pytest.mark.parametrize("health", [Health.FAILING, Health.HUNG])
def test_within_the_grace_a_new_leaders_main_may_fail(health: Health) -> None:
    tenure = leading(GATED)
    fail(tenure, 29.9, health)
    assert tenure.plan(29.9, LEADER).stance is Stance.CONTEND
    assert tenure.plan(30, LEADER).stance is Stance.ABSTAIN


@pytest.mark.parametrize("health", [Health.FAILING, Health.HUNG])
def test_a_main_that_fails_is_drained_and_only_then_released(health: Health) -> None:
    tenure = leading(replace(GATED, has_drain=True))
    fail(tenure, 40, health)
    plan = tenure.plan(40, LEADER)
    assert (plan.stance, plan.drains) == (Stance.HOLD, True)
    assert Cause.UNHEALTHY.value in plan.reason
    tenure.main_stopped()
    assert tenure.plan(41, LEADER).stance is Stance.RELEASE


def test_a_main_that_is_gone_is_released_at_once_even_within_the_grace() -> None:
    tenure = leading(GATED)
    tenure.health_checked(1, Health.REFUSED)
    assert tenure.plan(1, LEADER).stance is Stance.CONTEND
    tenure.health_checked(1.1, Health.REFUSED)
    plan = tenure.plan(1.1, LEADER)
    assert plan.stance is Stance.RELEASE
    assert Cause.GONE.value in plan.reason


def test_the_grace_of_a_second_term_counts_from_its_own_beginning() -> None:
    tenure = leading(GATED)
    tenure.plan(100, STANDBY)
    tenure.plan(200, LEADER)
    fail(tenure, 210, Health.FAILING)
    assert tenure.plan(210, LEADER).stance is Stance.CONTEND
    assert tenure.plan(230, LEADER).stance is Stance.ABSTAIN


def test_the_grace_counts_on_through_a_lapse() -> None:
    """The same main works in the same term."""
    tenure = leading(GATED)
    tenure.plan(10, LAPSED)
    tenure.plan(25, LEADER)
    fail(tenure, 30, Health.FAILING)
    assert tenure.plan(30, LEADER).stance is Stance.ABSTAIN


@pytest.mark.parametrize("health", [Health.FAILING, Health.HUNG])
def test_p6_without_a_drain_url_a_main_that_fails_is_no_longer_renewed_for(health: Health) -> None:
    """It proves nothing and will say nothing: the Lease is neither kept nor released."""
    tenure = leading(GATED)
    fail(tenure, 40, health)
    assert tenure.plan(40, LEADER).stance is Stance.ABSTAIN
    assert tenure.outcome.cause is Cause.UNHEALTHY
    assert not tenure.outcome.was_released
    fail(tenure, 41, Health.REFUSED, times=1)
    assert tenure.plan(41, LAPSED).stance is Stance.ABSTAIN, "one refusal may be a restart"
    fail(tenure, 42, Health.REFUSED, times=1)
    assert tenure.plan(42, LAPSED).stance is Stance.RELEASE, "it has ended since"
    assert tenure.plan(48, LAPSED).stance is Stance.ABSTAIN, "tried once"
    assert tenure.plan(49, LAPSED).stance is Stance.ABSTAIN


def test_p6_a_terminated_leader_renews_until_its_main_has_ended_too() -> None:
    tenure = leading(GATED)
    tenure.terminate(40, LEADER)
    assert tenure.plan(40, LEADER).stance is Stance.HOLD
    assert tenure.wake_at() == 50
    fail(tenure, 42, Health.REFUSED, times=2)
    assert tenure.plan(42, LEADER).stance is Stance.RELEASE


def resting(now: float) -> Tenure:
    """Released at `now` because the main was gone; its health is back at once."""
    tenure = leading(GATED)
    fail(tenure, now, Health.REFUSED, times=2)
    tenure.plan(now, LEADER)
    tenure.plan(now, RELEASED)
    assert tenure.phase is Phase.RESTING
    tenure.health_checked(now, Health.OK)
    return tenure


def test_an_ex_leader_waits_the_backoff() -> None:
    tenure = resting(40)
    assert tenure.plan(49.9, STANDBY).stance is Stance.ABSTAIN
    assert tenure.wake_at() == 50
    assert tenure.plan(50, STANDBY).stance is Stance.CONTEND


def test_the_backoff_ends_early_when_nobody_wants_the_lease() -> None:
    tenure = resting(40)
    assert tenure.plan(40 + UNCLAIMED_LIMIT - 0.1, free(40)).stance is Stance.ABSTAIN
    assert tenure.plan(40 + UNCLAIMED_LIMIT, free(40)).stance is Stance.CONTEND


def test_after_the_backoff_an_unhealthy_main_still_does_not_contend() -> None:
    tenure = resting(40)
    fail(tenure, 45, Health.FAILING)
    assert tenure.plan(60, STANDBY).stance is Stance.ABSTAIN
    assert tenure.phase is Phase.CLOSED


# ── a main that is healthy only when leading ──


def closed_since(now: float, health: Health) -> Tenure:
    tenure = Tenure(GATED, now=now)
    tenure.health_checked(now, health)
    tenure.plan(now, free(now))
    return tenure


def test_a_lease_that_nobody_healthy_wants_is_tried_for_after_grace_and_backoff() -> None:
    tenure = closed_since(0, Health.FAILING)
    assert tenure.plan(39.9, free(0)).stance is Stance.ABSTAIN
    assert tenure.plan(40, free(0)).stance is Stance.CONTEND
    tenure.plan(41, LEADER)
    tenure.health_checked(42, Health.OK)
    assert tenure.plan(80, LEADER).stance is Stance.CONTEND, "its main is healthy now"


@pytest.mark.parametrize("health", [Health.HUNG, Health.REFUSED])
def test_only_checks_that_are_answered_allow_a_trial(health: Health) -> None:
    tenure = closed_since(0, health)
    assert tenure.plan(1000, free(0)).stance is Stance.ABSTAIN


def test_a_lease_that_is_held_is_not_tried_for() -> None:
    tenure = closed_since(0, Health.FAILING)
    assert tenure.plan(1000, STANDBY).stance is Stance.ABSTAIN


def test_a_trial_ends_when_another_takes_the_lease() -> None:
    tenure = closed_since(0, Health.FAILING)
    tenure.plan(40, free(0))
    assert tenure.plan(41, STANDBY).stance is Stance.ABSTAIN


def test_a_trial_goes_on_while_the_lease_is_free_whoever_still_stands_in_it() -> None:
    tenure = closed_since(0, Health.FAILING)
    expired = free(0)
    assert tenure.plan(40, expired).stance is Stance.CONTEND
    assert tenure.plan(40.1, expired).stance is Stance.CONTEND


def test_a_trial_that_does_not_help_ends_after_the_grace_and_is_repeated_once_per_backoff() -> None:
    tenure = closed_since(0, Health.FAILING)
    tenure.plan(40, free(0))
    tenure.plan(40, LEADER)
    fail(tenure, 41, Health.FAILING)
    assert tenure.plan(69.9, LEADER).stance is Stance.CONTEND
    assert tenure.plan(70, LEADER).stance is Stance.ABSTAIN, "the main never said that it stopped"
    assert tenure.plan(90, free(85)).stance is Stance.ABSTAIN
    assert tenure.plan(124.9, free(85)).stance is Stance.ABSTAIN
    assert tenure.plan(125, free(85)).stance is Stance.CONTEND


# ── other reasons to give up ──


def test_p9_a_deaf_leader_gives_up_and_stays_out_while_deaf() -> None:
    tenure = leading(BARE)
    tenure.listener_checked(is_alive=False)
    plan = tenure.plan(1, LEADER)
    assert plan.stance is Stance.ABSTAIN
    assert Cause.DEAF.value in plan.reason
    assert tenure.plan(1000, free(0)).stance is Stance.ABSTAIN
    tenure.listener_checked(is_alive=True)
    assert tenure.plan(1001, free(0)).stance is Stance.CONTEND


def test_a_check_of_the_listener_is_news_only_where_it_differs_from_the_last() -> None:
    tenure = Tenure(BARE, now=0)
    checks = [True, False, False, True]
    assert [tenure.listener_checked(is_alive=each) for each in checks] == [0, 1, 0, 1]


def test_a_deaf_standby_does_not_contend() -> None:
    tenure = Tenure(BARE, now=0)
    tenure.listener_checked(is_alive=False)
    assert tenure.plan(1, free(0)).stance is Stance.ABSTAIN


def test_a_deaf_candidate_that_never_led_releases_what_it_may_have_won() -> None:
    tenure = Tenure(DRAINED, now=0)
    tenure.listener_checked(is_alive=False)
    assert tenure.plan(1, replace(STANDBY, may_hold=True)).stance is Stance.RELEASE


def test_a_leader_steps_down_for_a_preferred_holder() -> None:
    tenure = leading(DRAINED)
    plan = tenure.plan(1, replace(LEADER, is_unpreferred=True))
    assert (plan.stance, plan.drains) == (Stance.HOLD, True)
    assert Cause.UNPREFERRED.value in plan.reason


@pytest.mark.parametrize("cause", list(Cause))
def test_every_cause_is_told_in_words(cause: Cause) -> None:
    assert " " in cause.value


def test_p6_a_term_that_began_and_lapsed_unseen_by_any_plan_is_drained_too() -> None:
    """Frozen right after its first 200, with SIGTERM queued."""
    tenure = Tenure(DRAINED, now=0)
    tenure.plan(0, STANDBY)
    lapsed = replace(LAPSED, terms=1)
    tenure.terminate(20, lapsed)
    assert tenure.plan(20, lapsed).drains


def test_while_deaf_nothing_is_due_before_the_listener_is_checked_again() -> None:
    tenure = leading(BARE)
    tenure.listener_checked(is_alive=False)
    tenure.plan(1, LEADER)
    assert tenure.wake_at() > 1000
