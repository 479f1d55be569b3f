"""All schedules of a small number of faults upon the election for shards, and mutants of its core
that they find."""

from dataclasses import replace
from typing import Any

import pytest

from elector_sidecar.core.timing import Timing
from tests.unit.elector.explore.shard_mutants import LeavesTheTableUnrenewed
from tests.unit.elector.shards import mutants
from tools.explore.actors.actor import Pace
from tools.explore.play import play
from tools.explore.search import Search
from tools.explore.shards import sharded
from tools.explore.suite import NONE, RESTARTS

FREEZE = Pace(
    step=1.0,
    crash=(),
    freeze=(5,),
    cut=(),
    late_request=(),
    late_answer=(),
    late_events=(),
    is_lossy=False,
)
LOSSES = replace(FREEZE, freeze=(), is_lossy=True)
# Longer than a member's validity: it comes back to a table that was put back meanwhile.
TABLE_PUT_BACK = {
    "faults": 2,
    "edits": 1,
    "leases": 2.0,
    "pace": replace(NONE, cut=(4,)),
    "is_settled": True,
}
# The Lease of a member that crashed before has a former holder, whose copy is put back.
LEASE_PUT_BACK = {
    "faults": 2,
    "edits": 1,
    "leases": 1.5,
    "pace": replace(NONE, crash=(1,), cut=(3,)),
    "is_settled": True,
    "after": "pod-0 crashes for 1 steps",
}
# Its elector alone: it is back within its lease, and goes on.
RESTARTED: dict[str, Any] = {"resumes": True, "leases": 2.0, "pace": RESTARTS, "is_settled": True}
TWO: dict[str, Any] = {"rates": (1.0, 1.0), "shards": 2, "restores": 0}


def found(**configuration: Any) -> str:
    """What breaks first; "" if nothing does."""
    report = Search(sharded(**configuration)).run()
    assert report.states > 20
    return report.violation.what if report.violation else ""


@pytest.mark.parametrize("version", ["0.26", "0.37"])
def test_s1_a_candidate_of_client_go_never_leads_beside_an_owner_in_any_order(
    version: str,
) -> None:
    assert not found(**TWO, client_go=version, faults=0)


def test_s1_a_member_that_comes_back_waits_for_the_candidate_that_took_the_table() -> None:
    """client-go 0.26 takes what no member renewed; its own renewals are none of the table."""
    alone = {**TWO, "rates": (1.0,), "client_go": "0.26"}
    pace = replace(NONE, cut=(3, 4, 5, 6))
    assert not found(**alone, faults=1, leases=3.0, pace=pace, is_settled=True)


def test_s1_and_s2_hold_after_any_one_freeze_or_hand_over() -> None:
    assert not found(**TWO, faults=1, pace=FREEZE, leases=2.0)


def test_s2_every_shard_is_owned_after_the_store_was_put_back_to_any_earlier_state() -> None:
    """Section 8, 2 of the contract: no member needs a restart."""
    assert not found(**{**TWO, "restores": 1}, faults=1, leases=1.5, pace=NONE)


def test_s1_holds_where_a_member_goes_on_whatever_befalls_one_of_them() -> None:
    assert not found(**TWO, **RESTARTED, faults=1)


def test_p11_no_shard_changes_its_member_when_an_elector_is_back_within_its_lease() -> None:
    config = sharded(**{**TWO, "shards": 4}, **{**RESTARTED, "faults": 1})
    before = [actor.owned(12.0) for actor in config.begin().actors]
    after = play(config, {13: ["pod-0 crashes for 1 steps"]})
    assert [actor.owned(after.step - 1.0) for actor in after.actors] == before
    assert [actor.generation for actor in after.actors] == [2, 1]


@pytest.mark.parametrize(
    ("mutant", "configuration"),
    [
        # Section 8, 1 of the contract: without any fault.
        (LeavesTheTableUnrenewed, {"faults": 0, "client_go": "0.26"}),
        (mutants.HandsOverUnconfirmed, {"faults": 1, "leases": 1.0, "pace": LOSSES}),
        # What is taken early is taken whole seconds later, and in whole steps.
        (
            mutants.TakesEarly,
            {
                "faults": 1,
                "leases": 1.5,
                "pace": replace(NONE, freeze=(12,)),
                "timing": Timing(lease_duration=12, renew_interval=1, request_timeout=1.5),
                "is_settled": True,
            },
        ),
        (
            mutants.BelievesHandEdits,
            {"faults": 2, "edits": 1, "pace": replace(NONE, cut=(3,)), "is_settled": True},
        ),
        (mutants.TakesUnconfirmed, TABLE_PUT_BACK),
        (mutants.BelievesCopiesOfLeases, LEASE_PUT_BACK),
        (mutants.ForgetsWhatTheDeadOnePromised, {**RESTARTED, "faults": 2}),
    ],
    ids=lambda it: getattr(it, "__name__", ""),
)
def test_mutants_of_the_core_are_found(mutant: Any, configuration: dict[str, Any]) -> None:
    assert found(make=mutant, **TWO, **configuration).startswith("S1")


@pytest.mark.long
@pytest.mark.parametrize("configuration", [TABLE_PUT_BACK, LEASE_PUT_BACK])
def test_s1_holds_whatever_copy_is_put_back_by_hand_while_a_member_is_cut_off(
    configuration: dict[str, Any],
) -> None:
    assert not found(**TWO, **configuration)


def test_who_names_terms_by_identities_alone_never_takes_its_own_shards_again() -> None:
    """No other owns them: its next term takes the entries of the one before for its own."""
    alone = {**TWO, "rates": (1.0,)}
    pace = replace(NONE, cut=(2,))
    broken = found(make=mutants.NamesOnlyIdentities, **alone, pace=pace, is_settled=True)
    assert broken.startswith("not every shard is owned")


def test_s5_a_member_writes_no_storm_where_a_restore_hides_the_lease_of_a_dead_one() -> None:
    """Its writes of the table and of that Lease are conflicts in turn, until it has listed."""
    config = sharded(**{**TWO, "restores": 1}, pace=replace(NONE, crash=(1,)), is_settled=True)
    play(
        config,
        {
            13: ["pod-1 crashes for 1 steps"],
            16: ["the store is put back to its state 2 before"],
        },
    )
