"""The rules of giving up in order (P6) and of the gate on the main's health, in virtual time."""

from dataclasses import replace

import pytest

from elector_sidecar.core.handover import (
    SUCCESSION,
    Cause,
    Contending,
    Gated,
    HandoverCause,
    Intent,
    SwitchoverTo,
    TermBackoff,
)
from elector_sidecar.core.lifecycle import (
    HOLD_BACKOFF,
    UNCLAIMED_LIMIT,
    Health,
    LeaseFacts,
    Lifecycle,
    LifecyclePolicy,
)

BARE = LifecyclePolicy(
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

STANDBY = LeaseFacts(
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


def free(since: float) -> LeaseFacts:
    return replace(STANDBY, free_since=since)


def leading(policy: LifecyclePolicy) -> Lifecycle:
    """Since 0, with a main that was healthy then."""
    lifecycle = Lifecycle(policy, now=0)
    if policy.has_health:
        lifecycle.health_checked(0, Health.OK)
    assert lifecycle.plan(0, LEADER).intent is Intent.CONTEND
    return lifecycle


def fail(lifecycle: Lifecycle, now: float, health: Health, times: int = 3) -> None:
    for _ in range(times):
        lifecycle.health_checked(now, health)


# ── SIGTERM ──


def test_a_standby_that_is_terminated_is_over_at_once() -> None:
    lifecycle = Lifecycle(BARE, now=0)
    lifecycle.plan(0, STANDBY)
    lifecycle.terminate(1, STANDBY)
    plan = lifecycle.plan(1, STANDBY)
    assert plan.is_over
    assert plan.intent is Intent.ABSTAIN


@pytest.mark.parametrize("policy", [BARE, DRAINED, GATED, replace(DRAINED, has_health=True)])
def test_release_on_term_vouches_for_the_main(policy: LifecyclePolicy) -> None:
    lifecycle = leading(replace(policy, release_on_term=True))
    lifecycle.terminate(1, LEADER)
    plan = lifecycle.plan(1, LEADER)
    assert plan.intent is Intent.RELEASE
    assert not plan.drains
    assert lifecycle.plan(1.1, RELEASED).is_over
    assert lifecycle.outcome.was_released
    assert lifecycle.outcome.cause is HandoverCause.TERMINATION


def test_without_any_word_of_the_main_a_terminated_leader_lets_the_lease_expire() -> None:
    lifecycle = leading(BARE)
    lifecycle.terminate(1, LEADER)
    plan = lifecycle.plan(1, LEADER)
    assert plan.is_over
    assert plan.intent is Intent.ABSTAIN, "no release"
    assert not lifecycle.outcome.was_released


def test_a_terminated_leader_of_whom_nobody_ever_heard_releases() -> None:
    lifecycle = leading(BARE)
    lifecycle.terminate(1, replace(LEADER, is_unasked=True))
    assert lifecycle.plan(1, LEADER).intent is Intent.RELEASE
    assert lifecycle.plan(1.1, RELEASED).is_over
    assert lifecycle.outcome.was_released


def test_a_terminated_leader_renews_while_its_main_drains_and_then_releases() -> None:
    lifecycle = leading(DRAINED)
    lifecycle.terminate(1, LEADER)
    plan = lifecycle.plan(1, LEADER)
    assert (plan.intent, plan.drains, plan.is_over) == (Intent.HOLD, True, False)
    assert lifecycle.wake_at() == 11
    lifecycle.main_stopped()
    assert lifecycle.plan(2, LEADER).intent is Intent.RELEASE
    assert lifecycle.plan(2.1, RELEASED).is_over


def test_a_term_that_began_since_the_last_plan_is_drained_too() -> None:
    lifecycle = Lifecycle(DRAINED, now=0)
    lifecycle.plan(0, STANDBY)
    lifecycle.terminate(1, LEADER)
    assert lifecycle.plan(1, LEADER).drains


def test_a_drain_that_times_out_lets_the_lease_expire() -> None:
    lifecycle = leading(DRAINED)
    lifecycle.terminate(1, LEADER)
    assert lifecycle.plan(10.9, LEADER).intent is Intent.HOLD
    plan = lifecycle.plan(11, LEADER)
    assert plan.is_over
    assert not lifecycle.outcome.was_released


def test_a_main_that_is_gone_while_it_drains_counts_as_stopped() -> None:
    lifecycle = leading(replace(GATED, has_drain=True))
    lifecycle.terminate(1, LEADER)
    lifecycle.plan(1, LEADER)
    lifecycle.health_checked(1.1, Health.REFUSED)
    assert lifecycle.plan(1.1, LEADER).intent is Intent.HOLD, "one refusal may be a restart"
    lifecycle.health_checked(1.2, Health.REFUSED)
    assert lifecycle.plan(1.2, LEADER).intent is Intent.RELEASE


def test_who_never_led_may_release_at_once() -> None:
    """An acquiring write is under way: the main has not been told to work yet."""
    lifecycle = Lifecycle(DRAINED, now=0)
    under_way = replace(STANDBY, may_hold=True)
    lifecycle.plan(0, under_way)
    lifecycle.terminate(1, under_way)
    assert lifecycle.plan(1, under_way).intent is Intent.RELEASE


def test_a_lease_lost_while_draining_needs_no_release() -> None:
    lifecycle = leading(DRAINED)
    lifecycle.terminate(1, LEADER)
    lifecycle.plan(1, LEADER)
    plan = lifecycle.plan(2, STANDBY)
    assert plan.is_over
    assert not lifecycle.outcome.was_released


def test_a_lapsed_leader_still_drains_before_it_releases() -> None:
    lifecycle = leading(DRAINED)
    lifecycle.plan(5, LAPSED)
    lifecycle.terminate(6, LAPSED)
    assert lifecycle.plan(6, LAPSED).intent is Intent.HOLD


def test_a_release_that_is_not_confirmed_in_time_is_given_up() -> None:
    lifecycle = leading(replace(BARE, release_on_term=True))
    lifecycle.terminate(1, LEADER)
    assert lifecycle.plan(6.9, LEADER).intent is Intent.RELEASE
    assert lifecycle.plan(7, LEADER).is_over
    assert not lifecycle.outcome.was_released


def test_sigterm_during_a_resignation_ends_after_it() -> None:
    lifecycle = leading(DRAINED)
    assert lifecycle.resign(1, LEADER, cooldown=5)
    lifecycle.plan(1, LEADER)
    lifecycle.terminate(2, LEADER)
    assert lifecycle.plan(2, LEADER).intent is Intent.HOLD
    lifecycle.main_stopped()
    assert lifecycle.plan(3, LEADER).intent is Intent.RELEASE
    assert lifecycle.plan(3.1, RELEASED).is_over


def test_a_main_whose_drain_timed_out_is_never_vouched_for_later() -> None:
    """It may still work on the old term when its health is back and it contends again."""
    lifecycle = leading(replace(GATED, has_drain=True))
    fail(lifecycle, 40, Health.FAILING)
    assert lifecycle.plan(40, LEADER).drains
    assert lifecycle.plan(50, LEADER).intent is Intent.ABSTAIN
    lifecycle.health_checked(51, Health.OK)
    assert lifecycle.plan(60, LAPSED).intent is Intent.CONTEND
    lifecycle.terminate(60.1, LAPSED)
    assert lifecycle.plan(60.1, LAPSED).intent is Intent.HOLD, "drained, not released at once"


# ── resign ──


@pytest.mark.parametrize("facts", [STANDBY, LAPSED])
def test_only_a_leader_resigns(facts: LeaseFacts) -> None:
    lifecycle = Lifecycle(BARE, now=0)
    lifecycle.plan(0, facts)
    assert not lifecycle.resign(1, facts, cooldown=5)
    assert isinstance(lifecycle.phase, Contending)


def test_without_a_drain_url_the_request_is_the_mains_word() -> None:
    lifecycle = leading(BARE)
    assert lifecycle.resign(1, LEADER, cooldown=5)
    assert lifecycle.plan(1, LEADER).intent is Intent.RELEASE
    assert lifecycle.plan(1.1, RELEASED).intent is Intent.ABSTAIN
    assert (lifecycle.outcome.number, lifecycle.outcome.was_released) == (1, True)


def test_with_a_drain_url_resigning_drains_first() -> None:
    lifecycle = leading(DRAINED)
    assert lifecycle.resign(1, LEADER, cooldown=5)
    plan = lifecycle.plan(1, LEADER)
    assert (plan.intent, plan.drains) == (Intent.HOLD, True)
    assert not lifecycle.resign(1, LEADER, cooldown=5), "once"


def test_who_resigned_stays_out_for_the_whole_cooldown() -> None:
    """Even when nobody else takes the Lease: an operator wanted it so."""
    lifecycle = leading(BARE)
    lifecycle.resign(1, LEADER, cooldown=30)
    lifecycle.plan(1.1, replace(RELEASED, free_since=1.1))
    plan = lifecycle.plan(31, replace(RELEASED, free_since=1.1))
    assert plan.intent is Intent.ABSTAIN
    assert "another 0.1s: resigned by request" in plan.reason
    assert lifecycle.plan(31.1, free(1.1)).intent is Intent.CONTEND


# ── the gate ──


def test_the_gate_opens_at_the_first_2xx() -> None:
    lifecycle = Lifecycle(GATED, now=0)
    plan = lifecycle.plan(0, free(0))
    assert (plan.intent, plan.reason) == (
        Intent.ABSTAIN,
        "the main is not healthy: not asked yet",
    )
    lifecycle.health_checked(1, Health.HUNG)
    assert lifecycle.plan(1, free(0)).reason == "the main is not healthy: hung"
    lifecycle.health_checked(2, Health.OK)
    assert lifecycle.is_open
    assert lifecycle.plan(2, free(0)).intent is Intent.CONTEND


def test_a_standby_whose_main_fails_stops_to_contend() -> None:
    lifecycle = Lifecycle(GATED, now=0)
    lifecycle.health_checked(0, Health.OK)
    lifecycle.plan(0, STANDBY)
    fail(lifecycle, 1, Health.FAILING, times=2)
    assert lifecycle.plan(1, STANDBY).intent is Intent.CONTEND
    fail(lifecycle, 2, Health.FAILING, times=1)
    assert lifecycle.plan(2, STANDBY).intent is Intent.ABSTAIN
    assert not lifecycle.is_open


def test_failures_count_only_in_a_row() -> None:
    lifecycle = leading(GATED)
    for _ in range(5):
        fail(lifecycle, 40, Health.FAILING, times=2)
        lifecycle.health_checked(40, Health.OK)
    assert lifecycle.plan(40, LEADER).intent is Intent.CONTEND


@pytest.mark.parametrize("health", [Health.FAILING, Health.HUNG])
def test_within_the_grace_a_new_leaders_main_may_fail(health: Health) -> None:
    lifecycle = leading(GATED)
    fail(lifecycle, 29.9, health)
    assert lifecycle.plan(29.9, LEADER).intent is Intent.CONTEND
    assert lifecycle.plan(30, LEADER).intent is Intent.ABSTAIN


@pytest.mark.parametrize("health", [Health.FAILING, Health.HUNG])
def test_a_main_that_fails_is_drained_and_only_then_released(health: Health) -> None:
    lifecycle = leading(replace(GATED, has_drain=True))
    fail(lifecycle, 40, health)
    plan = lifecycle.plan(40, LEADER)
    assert (plan.intent, plan.drains) == (Intent.HOLD, True)
    assert HandoverCause.UNHEALTHY.value in plan.reason
    lifecycle.main_stopped()
    assert lifecycle.plan(41, LEADER).intent is Intent.RELEASE


def test_a_main_that_is_gone_is_released_at_once_even_within_the_grace() -> None:
    lifecycle = leading(GATED)
    lifecycle.health_checked(1, Health.REFUSED)
    assert lifecycle.plan(1, LEADER).intent is Intent.CONTEND
    lifecycle.health_checked(1.1, Health.REFUSED)
    plan = lifecycle.plan(1.1, LEADER)
    assert plan.intent is Intent.RELEASE
    assert HandoverCause.GONE.value in plan.reason


def test_the_grace_of_a_second_term_counts_from_its_own_beginning() -> None:
    lifecycle = leading(GATED)
    lifecycle.plan(100, STANDBY)
    lifecycle.plan(200, LEADER)
    fail(lifecycle, 210, Health.FAILING)
    assert lifecycle.plan(210, LEADER).intent is Intent.CONTEND
    assert lifecycle.plan(230, LEADER).intent is Intent.ABSTAIN


def test_the_grace_counts_on_through_a_lapse() -> None:
    """The same main works in the same term."""
    lifecycle = leading(GATED)
    lifecycle.plan(10, LAPSED)
    lifecycle.plan(25, LEADER)
    fail(lifecycle, 30, Health.FAILING)
    assert lifecycle.plan(30, LEADER).intent is Intent.ABSTAIN


@pytest.mark.parametrize("health", [Health.FAILING, Health.HUNG])
def test_p6_without_a_drain_url_a_main_that_fails_is_no_longer_renewed_for(health: Health) -> None:
    """It proves nothing and will say nothing: the Lease is neither kept nor released."""
    lifecycle = leading(GATED)
    fail(lifecycle, 40, health)
    assert lifecycle.plan(40, LEADER).intent is Intent.ABSTAIN
    assert lifecycle.outcome.cause is HandoverCause.UNHEALTHY
    assert not lifecycle.outcome.was_released
    fail(lifecycle, 41, Health.REFUSED, times=1)
    assert lifecycle.plan(41, LAPSED).intent is Intent.ABSTAIN, "one refusal may be a restart"
    fail(lifecycle, 42, Health.REFUSED, times=1)
    assert lifecycle.plan(42, LAPSED).intent is Intent.RELEASE, "it has ended since"
    assert lifecycle.plan(48, LAPSED).intent is Intent.ABSTAIN, "tried once"
    assert lifecycle.plan(49, LAPSED).intent is Intent.ABSTAIN


def test_p6_a_terminated_leader_renews_until_its_main_has_ended_too() -> None:
    lifecycle = leading(GATED)
    lifecycle.terminate(40, LEADER)
    assert lifecycle.plan(40, LEADER).intent is Intent.HOLD
    assert lifecycle.wake_at() == 50
    fail(lifecycle, 42, Health.REFUSED, times=2)
    assert lifecycle.plan(42, LEADER).intent is Intent.RELEASE


def backing_off(now: float) -> Lifecycle:
    """Released at `now` because the main was gone; its health is back at once."""
    lifecycle = leading(GATED)
    fail(lifecycle, now, Health.REFUSED, times=2)
    lifecycle.plan(now, LEADER)
    lifecycle.plan(now, RELEASED)
    assert isinstance(lifecycle.phase, TermBackoff)
    lifecycle.health_checked(now, Health.OK)
    return lifecycle


def test_an_ex_leader_waits_the_backoff() -> None:
    lifecycle = backing_off(40)
    assert lifecycle.plan(49.9, STANDBY).intent is Intent.ABSTAIN
    assert lifecycle.wake_at() == 50
    assert lifecycle.plan(50, STANDBY).intent is Intent.CONTEND


def test_the_backoff_ends_early_when_nobody_wants_the_lease() -> None:
    lifecycle = backing_off(40)
    assert lifecycle.plan(40 + UNCLAIMED_LIMIT - 0.1, free(40)).intent is Intent.ABSTAIN
    assert lifecycle.plan(40 + UNCLAIMED_LIMIT, free(40)).intent is Intent.CONTEND


def test_after_the_backoff_an_unhealthy_main_still_does_not_contend() -> None:
    lifecycle = backing_off(40)
    fail(lifecycle, 45, Health.FAILING)
    assert lifecycle.plan(60, STANDBY).intent is Intent.ABSTAIN
    assert isinstance(lifecycle.phase, Gated)


# ── a main that is healthy only when leading ──


def gated_since(now: float, health: Health) -> Lifecycle:
    lifecycle = Lifecycle(GATED, now=now)
    lifecycle.health_checked(now, health)
    lifecycle.plan(now, free(now))
    return lifecycle


def test_a_lease_that_nobody_healthy_wants_is_tried_for_after_grace_and_backoff() -> None:
    lifecycle = gated_since(0, Health.FAILING)
    assert lifecycle.plan(39.9, free(0)).intent is Intent.ABSTAIN
    assert lifecycle.plan(40, free(0)).intent is Intent.CONTEND
    lifecycle.plan(41, LEADER)
    lifecycle.health_checked(42, Health.OK)
    assert lifecycle.plan(80, LEADER).intent is Intent.CONTEND, "its main is healthy now"


@pytest.mark.parametrize("health", [Health.HUNG, Health.REFUSED])
def test_only_checks_that_are_answered_allow_a_trial(health: Health) -> None:
    lifecycle = gated_since(0, health)
    assert lifecycle.plan(1000, free(0)).intent is Intent.ABSTAIN


def test_a_lease_that_is_held_is_not_tried_for() -> None:
    lifecycle = gated_since(0, Health.FAILING)
    assert lifecycle.plan(1000, STANDBY).intent is Intent.ABSTAIN


def test_a_trial_ends_when_another_takes_the_lease() -> None:
    lifecycle = gated_since(0, Health.FAILING)
    lifecycle.plan(40, free(0))
    assert lifecycle.plan(41, STANDBY).intent is Intent.ABSTAIN


def test_a_trial_goes_on_while_the_lease_is_free_whoever_still_stands_in_it() -> None:
    lifecycle = gated_since(0, Health.FAILING)
    expired = free(0)
    assert lifecycle.plan(40, expired).intent is Intent.CONTEND
    assert lifecycle.plan(40.1, expired).intent is Intent.CONTEND


def test_a_trial_that_does_not_help_ends_after_the_grace_and_is_repeated_once_per_backoff() -> None:
    lifecycle = gated_since(0, Health.FAILING)
    lifecycle.plan(40, free(0))
    lifecycle.plan(40, LEADER)
    fail(lifecycle, 41, Health.FAILING)
    assert lifecycle.plan(69.9, LEADER).intent is Intent.CONTEND
    assert lifecycle.plan(70, LEADER).intent is Intent.ABSTAIN, (
        "the main never said that it stopped"
    )
    assert lifecycle.plan(90, free(85)).intent is Intent.ABSTAIN
    assert lifecycle.plan(124.9, free(85)).intent is Intent.ABSTAIN
    assert lifecycle.plan(125, free(85)).intent is Intent.CONTEND


# ── other reasons to give up ──


def test_p9_a_deaf_leader_gives_up_and_stays_out_while_deaf() -> None:
    lifecycle = leading(BARE)
    lifecycle.listener_checked(is_alive=False)
    plan = lifecycle.plan(1, LEADER)
    assert plan.intent is Intent.ABSTAIN
    assert HandoverCause.LISTENER_UNRESPONSIVE.value in plan.reason
    assert lifecycle.plan(1000, free(0)).intent is Intent.ABSTAIN
    lifecycle.listener_checked(is_alive=True)
    assert lifecycle.plan(1001, free(0)).intent is Intent.CONTEND


def test_a_check_of_the_listener_is_news_only_where_it_differs_from_the_last() -> None:
    lifecycle = Lifecycle(BARE, now=0)
    checks = [True, False, False, True]
    assert [lifecycle.listener_checked(is_alive=each) for each in checks] == [0, 1, 0, 1]


def test_a_deaf_standby_does_not_contend() -> None:
    lifecycle = Lifecycle(BARE, now=0)
    lifecycle.listener_checked(is_alive=False)
    assert lifecycle.plan(1, free(0)).intent is Intent.ABSTAIN


def test_a_deaf_candidate_that_never_led_releases_what_it_may_have_won() -> None:
    lifecycle = Lifecycle(DRAINED, now=0)
    lifecycle.listener_checked(is_alive=False)
    assert lifecycle.plan(1, replace(STANDBY, may_hold=True)).intent is Intent.RELEASE


def test_a_leader_steps_down_for_a_preferred_holder() -> None:
    lifecycle = leading(DRAINED)
    plan = lifecycle.plan(1, replace(LEADER, is_unpreferred=True))
    assert (plan.intent, plan.drains) == (Intent.HOLD, True)
    assert HandoverCause.UNPREFERRED.value in plan.reason


@pytest.mark.parametrize("cause", list(HandoverCause))
def test_every_cause_is_told_in_words(cause: HandoverCause) -> None:
    assert " " in cause.value


def test_p6_a_term_that_began_and_lapsed_unseen_by_any_plan_is_drained_too() -> None:
    """Frozen right after its first 200, with SIGTERM queued."""
    lifecycle = Lifecycle(DRAINED, now=0)
    lifecycle.plan(0, STANDBY)
    lapsed = replace(LAPSED, terms=1)
    lifecycle.terminate(20, lapsed)
    assert lifecycle.plan(20, lapsed).drains


def test_while_deaf_nothing_is_due_before_the_listener_is_checked_again() -> None:
    lifecycle = leading(BARE)
    lifecycle.listener_checked(is_alive=False)
    lifecycle.plan(1, LEADER)
    assert lifecycle.wake_at() > 1000


# ── what the Lease asks ──


@pytest.mark.parametrize(
    ("cause", "backoff"), [(SwitchoverTo("pod-2"), SUCCESSION), (HandoverCause.HOLD, HOLD_BACKOFF)]
)
def test_what_the_lease_asks_is_given_up_for_in_order(cause: Cause, backoff: float) -> None:
    lifecycle = leading(DRAINED)
    plan = lifecycle.plan(1, replace(LEADER, asked=cause))
    assert plan.intent is Intent.HOLD
    assert plan.drains
    assert cause.value in plan.reason
    lifecycle.main_stopped()
    assert lifecycle.plan(2, LAPSED).intent is Intent.RELEASE
    plan = lifecycle.plan(3, RELEASED)
    assert lifecycle.outcome.cause == cause
    assert plan.intent is Intent.ABSTAIN
    assert lifecycle.plan(3 + backoff, STANDBY).intent is Intent.CONTEND


def test_a_hold_without_a_drain_url_lets_the_lease_expire() -> None:
    lifecycle = leading(BARE)
    plan = lifecycle.plan(1, replace(LEADER, asked=HandoverCause.HOLD))
    assert plan.intent is Intent.ABSTAIN
    lapsed = replace(LAPSED, asked=HandoverCause.HOLD)
    assert lifecycle.plan(1 + HOLD_BACKOFF, lapsed).intent is Intent.CONTEND  # which renews nothing
    assert not lifecycle.outcome.was_released
    assert lifecycle.outcome.cause is HandoverCause.HOLD


def test_a_hold_before_the_first_answer_is_released_at_once() -> None:
    lifecycle = leading(BARE)
    asked = replace(LEADER, asked=HandoverCause.HOLD, is_unasked=True)
    assert lifecycle.plan(1, asked).intent is Intent.RELEASE


def test_nothing_is_asked_of_a_leader_that_lapsed() -> None:
    lifecycle = leading(DRAINED)
    assert lifecycle.plan(1, replace(LAPSED, asked=HandoverCause.HOLD)).intent is Intent.CONTEND


def test_a_resignation_names_its_successor_as_the_cause() -> None:
    lifecycle = leading(BARE)
    assert lifecycle.resign(1, LEADER, cooldown=SUCCESSION, cause=SwitchoverTo("pod-2"))
    assert "switchover to pod-2" in lifecycle.plan(1, LEADER).reason
