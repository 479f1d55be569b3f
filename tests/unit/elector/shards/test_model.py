"""S1-S4 and S6 in virtual time, under drawn schedules of faults (docs/explanation/shards.md).

`run.py` states the faults and what is asserted. HYPOTHESIS_PROFILE=nightly plays a hundred times
as many.
"""

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.unit.elector.shards.run import EDITS, NETWORK, PROCESS, WATCH, Run, Scenario

play = settings(
    max_examples=examples(12),
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow],
)
SEEDS = st.integers(0, 1_000_000)


@play
@given(seed=SEEDS)
def test_s1_to_s4_hold_under_faults_of_process_clock_and_network(seed: int) -> None:
    Run(Scenario(seed, NETWORK + WATCH + PROCESS)).play()


@play
@given(seed=SEEDS)
def test_s1_to_s4_hold_while_tables_and_leases_are_edited_behind_cut_links(seed: int) -> None:
    Run(Scenario(seed, (*EDITS, "cut", "freeze", "slow events", "silent watch", "crash"))).play()


@play
@given(seed=SEEDS)
def test_s1_to_s4_hold_under_all_faults_together(seed: int) -> None:
    Run(Scenario(seed, NETWORK + WATCH + PROCESS + EDITS, most_faults=20)).play()


@play
@given(seed=SEEDS, peers=st.lists(st.booleans(), min_size=1, max_size=2).map(tuple))
def test_s1_no_candidate_of_client_go_leads_beside_an_owner(
    seed: int, peers: tuple[bool, ...]
) -> None:
    """Those of up to 0.26 judge by their own LeaseDuration; later ones by the record's."""
    kinds = (*NETWORK, *WATCH, *PROCESS, "cut all", "crash all", "cut all")
    Run(Scenario(seed, kinds, peers=peers)).play()
