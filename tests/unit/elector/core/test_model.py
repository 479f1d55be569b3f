"""The election in virtual time, under drawn schedules of faults (contract, section 7).

`observer.py` states the promises that are asserted at every step, `scenario.py` the faults.
HYPOTHESIS_PROFILE=nightly plays a hundred times as many.
"""

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.unit.elector.core.scenario import (
    EDITS,
    TIMINGS,
    Fault,
    Kind,
    Member,
    Run,
    Scenario,
    faults,
    members,
    robberies,
)

PHASES = (Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink)
play = settings(
    max_examples=examples(400),
    deadline=None,
    phases=PHASES,
    suppress_health_check=[HealthCheck.too_slow],
)

NATURAL = [kind for kind in Kind if kind not in EDITS and kind is not Kind.STOP_PEER]
NETWORK_AND_PAUSES = [
    Kind.CUT,
    Kind.LOSE_ANSWERS,
    Kind.SLOW_REQUESTS,
    Kind.SLOW_ANSWERS,
    Kind.SLOW_EVENTS,
    Kind.FREEZE,
    Kind.FREEZE_BEFORE_WRITE,
    Kind.FREEZE_BEFORE_ANSWER,
]
# Whoever leads cannot hear of the edit in time.
UNHEARD_EDITS = [
    *(kind for kind in Kind if kind in EDITS),
    Kind.CUT,
    Kind.FREEZE,
    Kind.SLOW_EVENTS,
    Kind.CRASH,
    Kind.RELEASE,
    Kind.ENDED_WATCH,
]
SEEDS = st.integers(0, 1000)


@play
@given(candidates=members(), troubles=faults(NATURAL), seed=SEEDS, empty=st.booleans())
def test_p1_to_p5_hold_under_all_faults_of_process_clock_and_network(
    candidates: list[Member], troubles: list[Fault], seed: int, empty: bool
) -> None:
    Run(Scenario(members=candidates, faults=troubles, seed=seed, begins_empty=empty)).play()


@play
@given(
    candidates=members(at_least=2),
    troubles=faults(NETWORK_AND_PAUSES, at_least=3),
    seed=SEEDS,
    take=st.booleans(),
)
def test_p1_to_p5_hold_where_messages_are_late_and_lost_and_processes_frozen(
    candidates: list[Member], troubles: list[Fault], seed: int, take: bool
) -> None:
    scenario = Scenario(
        members=candidates, faults=troubles, seed=seed, begins_empty=not take, takes_missing=take
    )
    Run(scenario).play()


@play
@given(
    candidates=members(TIMINGS[:1], at_least=2),
    troubles=faults(UNHEARD_EDITS, at_least=3),
    seed=SEEDS,
)
def test_p1_holds_among_ours_whatever_others_do_to_an_object_whose_holder_cannot_hear(
    candidates: list[Member], troubles: list[Fault], seed: int
) -> None:
    Run(Scenario(members=candidates, faults=troubles, seed=seed)).play()


@play
@given(
    candidates=members(TIMINGS[:1], at_least=2),
    troubles=robberies(),
    seed=SEEDS,
)
def test_p1_holds_where_a_leader_is_robbed_unheard_and_others_look_anew(
    candidates: list[Member], troubles: list[Fault], seed: int
) -> None:
    Run(Scenario(members=candidates, faults=troubles, seed=seed)).play()


@play
@given(
    candidates=members(TIMINGS[:1]),
    troubles=faults([*NATURAL, Kind.STOP_PEER], at_least=1),
    seed=SEEDS,
    peers=st.integers(1, 2),
)
def test_p10_ours_and_client_go_that_keeps_its_rules_exclude_each_other(
    candidates: list[Member], troubles: list[Fault], seed: int, peers: int
) -> None:
    Run(Scenario(members=candidates, faults=troubles, seed=seed, peers=peers)).play()


@play
@given(
    candidates=members(TIMINGS[:1]),
    troubles=faults(list(Kind), at_least=1),
    seed=SEEDS,
    peers=st.integers(0, 2),
)
def test_p1_holds_among_ours_under_everything_at_once(
    candidates: list[Member], troubles: list[Fault], seed: int, peers: int
) -> None:
    Run(Scenario(members=candidates, faults=troubles, seed=seed, peers=peers)).play()
