"""All schedules of a small number of faults upon the single election: none breaks it, and each
mutant of its core is found."""

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.elector.explore import mutants
from tools.explore import suite
from tools.explore.actors.actor import Broken, Pace
from tools.explore.play import as_test, play
from tools.explore.search import Search
from tools.explore.single import PACE, single

# The faults of the link that are needed to tell the mutants of P2 and P3, and no others.
LINK = replace(PACE, crash=(), freeze=(), late_request=(), late_events=(), cut=(5,))


def found(**configuration: Any) -> str:
    """What breaks first; "" if nothing does."""
    report = Search(single(**configuration)).run()
    return report.violation.what if report.violation else ""


@pytest.mark.parametrize("rates", [(1.0, 1.0), (0.95, 1.0), (1.0, 0.95)])
def test_p1_and_a_leader_hold_after_any_one_fault_of_any_process_message_or_store(
    rates: tuple[float, ...],
) -> None:
    report = Search(single(rates=rates, faults=1)).run()
    assert report.violation is None
    assert report.states > 200
    assert report.longest > 0


@pytest.mark.parametrize("version", ["0.26", "0.37"])
def test_p10_ours_and_a_candidate_of_client_go_exclude_each_other_after_any_one_fault(
    version: str,
) -> None:
    assert not found(rates=(1.0,), client_go=version, faults=1)


@pytest.mark.parametrize(
    ("mutant", "promise", "configuration"),
    [
        (mutants.TakesEarly, "P1", {"faults": 1}),
        (mutants.WorksForTheWholeLease, "P1", {"faults": 1, "rates": (0.95, 1.0)}),
        (mutants.CountsFromTheAnswer, "P1", {"faults": 2, "pace": LINK}),
        (mutants.BelievesUnanswered, "P1", {"faults": 2, "pace": LINK}),
        (mutants.ReleasesBeforeTheMainStops, "P1", {"faults": 1}),
        (
            mutants.TakesForeignLeasesInTime,
            "P1",
            {
                "faults": 2,
                "pace": LINK,
                "rates": (1.0,),
                "client_go": "0.37",
                "client_rate": 0.95,
            },
        ),
        (mutants.NeverContendsAgain, "nobody leads", {"faults": 1, "rates": (1.0,)}),
    ],
    ids=lambda it: getattr(it, "__name__", ""),
)
def test_each_mutant_of_the_core_is_found(
    mutant: Any, promise: str, configuration: dict[str, Any]
) -> None:
    assert found(make=mutant, restores=0, **configuration).startswith(promise)


def test_p1_and_a_leader_hold_after_any_one_switchover_or_hold() -> None:
    report = Search(single(targets=("pod-1", "pod-9", ""), faults=1)).run()
    assert report.violation is None
    assert report.states > 500


def test_a_priority_moves_the_lead_once_and_p1_holds() -> None:
    report = Search(single(priorities=(1, 0), faults=1, pace=suite.PROCESSES)).run()
    assert report.violation is None
    assert report.states > 500


@pytest.mark.parametrize(
    ("mutant", "promise"),
    [
        (mutants.TakesWhatIsHeld, "takes a Lease that is held"),
        (mutants.TakesWhatIsForAnother, "takes a Lease that is released for pod-9"),
        (mutants.HoldsForEver, "nobody leads for"),
    ],
)
def test_each_mutant_of_the_moves_is_found(mutant: Any, promise: str) -> None:
    assert promise in found(make=mutant, restores=0, targets=("pod-9",), faults=1)


def test_a_process_that_goes_on_in_spite_of_a_hold_is_found_and_ours_waits() -> None:
    """No exploration of crashes alone finds the mutant, nor one of holds alone."""
    moves: dict[str, Any] = {
        "resumes": True,
        "targets": ("pod-1",),
        "pace": suite.RESTARTS,
        "restores": 0,
    }
    violation = Search(single(make=mutants.GoesOnWhateverIsHeld, faults=2, **moves)).run().violation
    assert violation is not None
    assert "takes a Lease that is held" in violation.what
    labels = {step: said for step, said in enumerate(violation.schedule) if said}
    said = " ".join(label for it in labels.values() for label in it)
    assert "crashes" in said
    assert "asks for a hold" in said
    play(single(faults=2, **moves), labels)


def test_what_was_found_is_played_again_from_its_text() -> None:
    config = single(faults=1, make=mutants.TakesEarly)
    violation = Search(config).run().violation
    assert violation is not None
    schedule = {step: labels for step, labels in enumerate(violation.schedule) if labels}
    text = as_test(violation, config="single(faults=1)")
    assert all(f'{step}: ["{labels[0]}"]' in text for step, labels in schedule.items())
    with pytest.raises(Broken, match=violation.what):
        play(config, schedule)
    play(single(faults=1), schedule)  # the core without the mutation survives it


def test_p1_a_restored_record_is_not_released_beside_a_later_holder() -> None:
    """pod-0 has given up and heard of the next holder; etcd is restored to when it led."""
    play(
        single(rates=(1.0, 1.0), client_go="0.37", faults=3, pace=suite.PROCESSES, is_settled=True),
        {
            12: ["pod-0 is cut off for 2 steps"],
            14: ["pod-0 resigns, and its main stops 2 steps later"],
            15: ["in the order: pod-0, peer, pod-1"],
            16: ["the store is put back to its state 1 before"],
        },
    )


def test_p1_excuses_who_gave_its_watch_up_and_heard_of_no_renewal_before_a_restore() -> None:
    """What came by the connection that its core has left was lost on it."""
    play(
        single(faults=3, pace=suite.LONG),
        {
            1: ["pod-1 freezes for 5 steps"],
            6: ["pod-1 is cut off for 2 steps"],
            11: ["the store is put back to its state 1 before", "in the order: pod-1, pod-0"],
        },
    )


def test_a_play_that_names_what_its_step_does_not_offer_is_refused() -> None:
    with pytest.raises(ValueError, match="step 2 does not offer 'pod-9 freezes for 5 steps'"):
        play(single(), {2: ["pod-9 freezes for 5 steps"]})


def test_a_coarser_step_sees_fewer_states() -> None:
    """The digest tells states apart by more than what changes at every step."""
    fine = Search(single(faults=1, restores=0, pace=Pace(step=0.5))).run()
    coarse = Search(single(faults=1, restores=0)).run()
    assert fine.violation is coarse.violation is None
    assert fine.states > coarse.states
