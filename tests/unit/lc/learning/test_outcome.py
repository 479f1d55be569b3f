"""Of which round a worker's word is, and which words change nothing."""

from typing import Any

import pytest
from msgspec.structs import replace

from lc.core.learning.fields import MalformedJob
from lc.core.learning.outcome import Heard, Unheard, hear
from lc.core.learning.samples import Segment
from lc.core.learning.state import WORKERS_KEPT, Lent, StageOutcome, State, Worker
from lc.core.worker_info import WorkerInfo
from tests.unit.lc.learning.jobs import condition, job

MODEL = {"format": "pb", "url": "/srv/out/train/1/model.pb", "metrics": {"precision": [0.91]}}
RUNNING = job(condition("Train", "Running", 2))


def info(kind: str = "train", status: str = "completed", **more: Any) -> WorkerInfo:
    given: dict[str, Any] = {"name": "train-worker-x7", "results": (MODEL,), **more}
    return WorkerInfo(
        namespace="shop",
        owner_name="il1",
        owner_kind="incrementallearningjob",
        kind=kind,
        status=status,
        **given,
    )


def test_a_success_is_told_to_gm_with_its_round() -> None:
    heard = hear(RUNNING, State(), info(owner_info={"a": 1}))
    assert isinstance(heard, Heard)
    assert heard.report == {
        "phase": "Train",
        "status": "Completed",
        "round": 2,
        "output": {"models": [MODEL], "ownerInfo": {"a": 1}},
    }
    assert State().after(heard.event).trained == StageOutcome(2, (MODEL,))


def test_a_success_ends_the_loan_of_samples() -> None:
    lent = State(lent=Lent(2, (Segment("1", 4, 40),)), failures=3, not_before=9.0)
    heard = hear(RUNNING, lent, info())
    assert isinstance(heard, Heard)
    after = lent.after(heard.event)
    assert (after.lent, after.failures, after.not_before) == (None, 0, 0)


def test_a_failure_is_told_and_leaves_the_samples_lent() -> None:
    lent = State(lent=Lent(2, (Segment("1", 4, 40),)))
    heard = hear(RUNNING, lent, info(status="failed"))
    assert isinstance(heard, Heard)
    assert heard.report["status"] == "Failed"
    after = lent.after(heard.event)
    assert (after.lent, after.trained) == (lent.lent, None)


@pytest.mark.parametrize("status", ["running", "", "waiting", "ready"])
def test_only_the_end_of_a_stage_is_told(status: str) -> None:
    """GM takes "running" for an error."""
    assert isinstance(hear(RUNNING, State(), info(status=status)), Unheard)


def test_what_is_no_stage_is_not_told() -> None:
    assert isinstance(hear(RUNNING, State(), info("inference")), Unheard)


def test_the_name_of_a_pod_says_the_round() -> None:
    late = hear(RUNNING, State(), info(name="il1-train-1-0"))
    assert late == Unheard("Train of round 1 is over")
    assert isinstance(hear(RUNNING, State(), info(name="il1-train-2-0")), Heard)


def test_a_worker_stays_in_the_round_in_which_it_was_heard_first() -> None:
    first = hear(job(condition("Train", "Running", 1)), State(), info(status="failed"))
    assert isinstance(first, Heard)
    state = State().after(first.event)
    assert State.decode(state.encode()) == state
    assert hear(RUNNING, state, info()) == Unheard("Train of round 1 is over")
    assert isinstance(hear(RUNNING, state, info(name="train-worker-y8")), Heard)


def test_a_report_before_gm_knows_that_the_pod_runs_counts() -> None:
    for kind in ("Ready", "Starting", "Waiting"):
        assert isinstance(hear(job(condition("Train", kind, 2)), State(), info()), Heard)


@pytest.mark.parametrize(
    "now",
    [
        condition("Train", "Completed", 2),
        condition("Train", "Failed", 2),
        condition("Eval", "Waiting", 2),
        condition("Deploy", "Running", 2),
        condition("Train", "Waiting", 3),
    ],
)
def test_a_late_report_opens_no_stage_again(now: dict[str, Any]) -> None:
    """In Sedna a late "completed" re-opens it."""
    named = info(name="il1-train-2-0")
    assert isinstance(hear(job(now), State(), named), Unheard)


def test_a_second_success_of_a_round_changes_nothing() -> None:
    state = State(trained=StageOutcome(2, (MODEL,)))
    assert isinstance(hear(RUNNING, state, info(results=())), Unheard)
    assert isinstance(hear(RUNNING, state, info(status="failed")), Unheard)
    assert isinstance(hear(RUNNING, replace(state, trained=StageOutcome(1, ())), info()), Heard)


def test_a_success_after_a_failure_changes_nothing() -> None:
    """The container was started again; GM goes on to the next round whenever it hears of this."""
    heard = hear(RUNNING, State(), info(status="failed"))
    assert isinstance(heard, Heard)
    assert isinstance(hear(RUNNING, State().after(heard.event), info()), Unheard)


def test_the_worker_that_serves_reports_of_every_hot_update() -> None:
    state = State(workers=(Worker("inferworker-1", "Deploy", 1),))
    running = job(condition("Deploy", "Running", 2))
    heard = hear(running, state, info("deploy", name="inferworker-1", results=()))
    assert isinstance(heard, Heard)
    assert (heard.report["phase"], heard.report["round"]) == ("Deploy", 2)


def test_names_of_workers_are_kept_in_bounds() -> None:
    state = State()
    for number in range(50):
        heard = hear(job(condition("Train", "Running", number)), state, info(name=f"w{number}"))
        assert isinstance(heard, Heard)
        state = state.after(heard.event)
    assert len(state.workers) == WORKERS_KEPT
    assert state.workers[-1].name == "w49"


def test_models_that_cannot_be_read_are_the_worker_s_fault() -> None:
    with pytest.raises(MalformedJob):
        hear(RUNNING, State(), info(results=({"format": 3, "url": "/m.pb"},)))


def test_what_is_remembered_survives_being_saved() -> None:
    heard = hear(RUNNING, State(lent=Lent(1, (Segment("1", 4, 40, "a,b"),))), info())
    assert isinstance(heard, Heard)
    state = State().after(heard.event)
    assert State.decode(state.encode()) == state
    assert State.decode(None) == State()
    with pytest.raises(ValueError, match="malformed"):
        State.decode(b"what")
