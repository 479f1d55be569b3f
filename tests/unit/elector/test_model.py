"""The election in virtual time, under thousands of schedules of faults (contract, section 7).

The promises themselves are stated in `observer.py`. `--hypothesis-profile=nightly` plays far more.
"""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .scenario import EDITS, MEMBERS, Fault, Kind, Member, Run, Scenario, faults

settings.register_profile(
    "nightly", max_examples=50_000, deadline=None, suppress_health_check=list(HealthCheck)
)

NATURAL = [kind for kind in Kind if kind not in EDITS and kind is not Kind.STOP_PEER]
EVERYTHING = [kind for kind in Kind if kind is not Kind.STOP_PEER]


@settings(max_examples=300, deadline=None)
@given(members=MEMBERS, troubles=faults(NATURAL, at_most=10), seed=st.integers(0, 1000))
def test_ours_exclude_each_other_under_all_faults_of_process_clock_and_network(
    members: list[Member], troubles: list[Fault], seed: int
) -> None:
    Run(Scenario(members=members, faults=troubles, seed=seed)).play()


@settings(max_examples=300, deadline=None)
@given(members=MEMBERS, troubles=faults(EVERYTHING, at_most=10), seed=st.integers(0, 1000))
def test_ours_exclude_each_other_whatever_others_do_to_the_object(
    members: list[Member], troubles: list[Fault], seed: int
) -> None:
    Run(Scenario(members=members, faults=troubles, seed=seed)).play()
