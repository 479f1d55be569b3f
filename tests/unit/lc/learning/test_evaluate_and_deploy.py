"""What is evaluated against what, and whether a model takes its place."""

from typing import Any

import pytest
from msgspec.structs import replace

from lc.core.learning.commands import (
    Advance,
    Command,
    CopyModel,
    Idle,
    LoopPace,
    MakeFolder,
    WriteHotUpdate,
    WriteSamples,
)
from lc.core.learning.job import FileLocation, Job, Model, Stage
from lc.core.learning.next_command import JobInputs, next_command
from lc.core.learning.samples import Version
from lc.core.learning.state import EvalBegun, HotUpdated, StageAnswered, StageOutcome, State
from tests.unit.lc.learning.jobs import NOW, condition, job, known, later, output, samples

PACE = LoopPace(gathered=NOW)
TRAINED = {"format": "pb", "url": "/srv/out/train/1/model.pb", "metrics": {"loss": 0.1}}
LEFT = State(trained=StageOutcome(1, (TRAINED,)), fresh=(samples(2, "1.eval.samples"),))
EVAL = condition("Eval", "Waiting")
DEPLOY = condition("Deploy", "Waiting")


def look(asked: Job, state: State, elsewhere: JobInputs | None = None) -> Command:
    return next_command(asked, state, elsewhere or known(), pace=PACE, now=NOW)


def evaluated(new: Any, old: Any) -> State:
    results = (
        {"format": "pb", "url": "/new.pb", "metrics": {"precision": new}},
        {"format": "pb", "url": "/old.pb", "metrics": {"precision": old}},
    )
    return replace(LEFT, evaluated=StageOutcome(1, results))


def failure(command: Command) -> str:
    assert isinstance(command, Advance)
    assert not command.tasks
    assert command.report is not None
    assert command.report["status"] == "Failed"
    return str(command.report["message"])


def test_the_trained_model_is_judged_beside_the_one_in_service() -> None:
    command = look(job(EVAL), LEFT)
    assert isinstance(command, Advance)
    data = FileLocation("/srv/out/data/eval/1/data.txt")
    assert command.tasks == (WriteSamples((samples(2, "1.eval.samples"),), data),)
    assert command.report == {
        "phase": "Eval",
        "status": "Ready",
        "round": 1,
        "input": {
            "models": [
                {"format": "pb", "url": "/srv/out/train/1/model.pb"},
                {"format": "pb", "url": "/srv/m/prod.pb"},
            ],
            "dataURL": data.url,
        },
    }


def test_an_evaluation_begins_once_a_round() -> None:
    command = look(job(EVAL), LEFT)
    assert isinstance(command, Advance)
    assert isinstance(look(job(EVAL, EVAL), LEFT.after(command.event)), Idle)


def test_an_evaluation_model_of_its_own_is_judged_in_the_place_of_the_one_in_service() -> None:
    both = ({"format": "pb", "url": "/1.pb"}, {"format": "ckpt", "url": "/1.ckpt"})
    state = replace(LEFT, trained=StageOutcome(1, both))
    asked = job(EVAL, evalSpec={"initialModel": {"name": "judge"}})
    command = look(asked, state, known(judge=Model("ckpt", "/srv/m/judge.ckpt")))
    assert isinstance(command, Advance)
    assert command.report is not None
    urls = [each["url"] for each in command.report["input"]["models"]]  # type: ignore[index]
    assert urls == ["/1.ckpt", "/srv/m/judge.ckpt"]


def test_five_versions_of_evaluation_samples_are_kept_each_once() -> None:
    """Sedna's list has each version again with every batch that comes."""
    state = State()
    for number in range(1, 8):
        name = f"{number}.eval.samples"
        state = replace(
            state, trained=StageOutcome(number, (TRAINED,)), fresh=(samples(number, name),)
        )
        command = look(job(condition("Eval", "Waiting", number)), state)
        assert isinstance(command, Advance)
        state = state.after(command.event)
        task = command.tasks[0]
        assert isinstance(task, WriteSamples)
        assert [each.samples for each in task.segments] == [*range(max(1, number - 4), number + 1)]
    assert [each.round for each in state.versions] == [3, 4, 5, 6, 7]


def test_an_evaluation_without_new_samples_has_the_versions_before() -> None:
    old = Version(1, (samples(2, "1.eval.samples"),))
    state = State(trained=StageOutcome(2, (TRAINED,)), versions=(old,))
    command = look(job(condition("Eval", "Waiting", 2)), state)
    assert isinstance(command, Advance)
    assert command.event == EvalBegun(2, (old,))


def test_rows_of_other_columns_are_left_out_of_an_evaluation() -> None:
    old = Version(1, (samples(2, "1.eval.samples", "a,b"),))
    new = samples(3, "2.eval.samples", "a,c")
    state = State(trained=StageOutcome(2, (TRAINED,)), versions=(old,), fresh=(new,))
    command = look(job(condition("Eval", "Waiting", 2)), state)
    assert isinstance(command, Advance)
    task = command.tasks[0]
    assert isinstance(task, WriteSamples)
    assert task.segments == (new,)


def test_a_training_that_left_no_model_fails_the_evaluation() -> None:
    """Sedna's LC takes the first of no models, and ends."""
    why = failure(look(job(EVAL), replace(LEFT, trained=StageOutcome(1, ()))))
    assert why == "the training left no model; nothing for prod (pb)"


def test_a_success_of_which_no_worker_told_fails_the_evaluation() -> None:
    """The pod's success overtook the report, which never came: there Sedna's LC ends."""
    why = failure(look(job(EVAL), replace(LEFT, trained=None)))
    assert why == "the training of round 1 left no word of it"


def test_samples_stay_where_an_evaluation_cannot_begin() -> None:
    state = replace(LEFT, trained=None, versions=(Version(0, (samples(1, "0"),)),))
    command = look(job(EVAL), state)
    assert isinstance(command, Advance)
    assert not command.tasks
    after = state.after(command.event)
    assert (after.versions, after.fresh) == (state.versions, state.fresh)
    assert isinstance(look(job(EVAL), after), Idle)


def test_what_another_node_s_worker_said_is_read_from_the_conditions() -> None:
    done = condition("Train", "Completed", 1, data=output(TRAINED))
    command = look(job(done, EVAL), replace(LEFT, trained=None))
    assert isinstance(command, Advance)


def test_what_was_said_of_an_older_round_does_not_count() -> None:
    done = condition("Train", "Completed", 1, data=output(TRAINED))
    waiting = job(done, condition("Eval", "Waiting", 2))
    assert "left no word" in failure(look(waiting, LEFT))


@pytest.mark.parametrize("hot", [False, True])
def test_a_better_model_is_deployed(hot: bool) -> None:
    model = {"name": "prod", "hotUpdateEnabled": hot}
    trigger = {"condition": {"operator": ">", "threshold": 0.1, "metric": "precision_delta"}}
    asked = job(DEPLOY, deploySpec={"model": model, "trigger": trigger})
    command = look(asked, evaluated([0.9], [0.7]))
    assert isinstance(command, Advance)
    # The worker that serves gets it while it runs, once GM says that it does.
    copied = CopyModel(FileLocation("/srv/out/train/1/model.pb"), FileLocation("/srv/m/prod.pb"))
    assert command.tasks == (() if hot else (copied,))
    assert command.report == {
        "phase": "Deploy",
        "status": "Ready",
        "round": 1,
        "message": "precision_delta=0.2 is > 0.1",
        "input": {
            "models": [
                {"format": "pb", "url": "/srv/out/train/1/model.pb"},
                {"format": "pb", "url": "/srv/m/prod.pb"},
            ]
        },
    }


def test_a_model_that_is_not_better_stays_where_it_is() -> None:
    command = look(job(DEPLOY), evaluated([0.75], [0.7]))
    assert isinstance(command, Advance)
    assert not command.tasks
    assert command.event == StageAnswered(Stage.DEPLOY, 1)
    assert command.report == {
        "phase": "Deploy",
        "status": "Completed",
        "round": 1,
        "message": "kept: precision_delta=0.05 is not > 0.1",
    }


def test_a_better_model_waits_for_its_time() -> None:
    """Sedna drops it for good."""
    better = {"operator": ">", "threshold": 0.1, "metric": "precision_delta"}
    night = {"timer": {"start": "01:00", "end": "02:00"}, "condition": better}
    early = look(job(DEPLOY, deploy=night), evaluated([0.9], [0.7]))
    assert isinstance(early, Idle)
    assert early.seconds == 60
    assert isinstance(look(job(DEPLOY, deploy=night), evaluated([0.7], [0.7])), Advance)


def test_a_deployment_without_results_fails_and_is_not_taken_for_needless() -> None:
    """After an overtaken report Sedna says Completed, and a better model is not deployed."""
    assert failure(look(job(DEPLOY), LEFT)) == "the evaluation of round 1 left no results"


def test_results_of_another_node_s_worker_are_read_from_the_conditions() -> None:
    known_there = evaluated([0.9], [0.7]).evaluated
    assert known_there is not None
    trained = condition("Train", "Completed", data=output(TRAINED))
    done = condition("Eval", "Completed", data=output(*known_there.results))
    assert isinstance(look(job(trained, done, DEPLOY), State()), Advance)


def test_the_model_that_judges_is_exchanged_as_well() -> None:
    both = ({"format": "pb", "url": "/1.pb"}, {"format": "ckpt", "url": "/1.ckpt"})
    state = replace(evaluated([0.9], [0.7]), trained=StageOutcome(1, both))
    asked = job(DEPLOY, evalSpec={"initialModel": {"name": "judge"}})
    command = look(asked, state, known(judge=Model("ckpt", "/m/judge.ckpt", (), "keys")))
    assert isinstance(command, Advance)
    assert command.tasks[1] == CopyModel(
        FileLocation("/1.ckpt"), FileLocation("/m/judge.ckpt", "keys")
    )


def test_a_deployment_is_decided_where_it_was_evaluated() -> None:
    there = job(DEPLOY, annotations={"sedna.io/Eval": "edge-b"})
    state = evaluated([0.9], [0.7])
    assert isinstance(look(there, state), Idle)
    assert isinstance(look(there, state, known(None, node="edge-b")), Advance)


HOT = {
    "model": {"name": "prod", "hotUpdateEnabled": True},
    "template": {"spec": {"nodeName": "edge-a"}},
}


def test_a_hot_update_lays_model_and_notice_where_the_worker_looks() -> None:
    running = job(condition("Deploy", "Running"), deploySpec=HOT)
    command = look(running, evaluated([0.9], [0.7]))
    assert isinstance(command, Advance)
    folder = "/var/lib/sedna/model-hot-update/shop/incrementallearningjob/il1/"
    trained = FileLocation("/srv/out/train/1/model.pb")
    assert command.tasks == (
        CopyModel(trained, FileLocation(f"{folder}model.pb")),
        CopyModel(trained, FileLocation("/srv/m/prod.pb")),
        WriteHotUpdate(
            FileLocation(f"{folder}model_config.json"),
            "/model-hot-update/model.pb",
            "2026-03-04T12:00:00.000+00:00",
        ),
    )
    # GM is told by the worker, once it has taken the model.
    assert (command.event, command.report) == (HotUpdated(1), None)
    after = evaluated([0.9], [0.7]).after(command.event)
    assert isinstance(look(running, after), Idle)


def test_a_notice_that_is_written_again_says_the_same() -> None:
    """Killed between notice and state; the worker takes a model when the time is another."""
    since = {"lastTransitionTime": "2026-03-04T11:59:58Z"}
    running = job({**condition("Deploy", "Running"), **since}, deploySpec=HOT)
    first = next_command(running, LEFT, known(), pace=PACE, now=NOW)
    again = next_command(running, LEFT, known(), pace=PACE, now=later(5))
    assert first == again
    assert isinstance(first, Advance)
    notice = first.tasks[-1]
    assert isinstance(notice, WriteHotUpdate)
    assert notice.updated == "2026-03-04T11:59:58Z"


def test_gm_may_say_where_hot_updates_lie() -> None:
    where = {"sedna.io/model-hot-update-config": "/srv/hot/config.json"}
    running = job(condition("Deploy", "Running"), deploySpec=HOT, annotations=where)
    command = look(running, LEFT)
    assert isinstance(command, Advance)
    assert command.tasks[0] == CopyModel(
        FileLocation("/srv/out/train/1/model.pb"), FileLocation("/srv/hot/model.pb")
    )


def test_a_running_deployment_without_hot_update_is_left_alone() -> None:
    assert isinstance(look(job(condition("Deploy", "Running")), LEFT), Idle)


def lifelong(*conditions: dict[str, Any]) -> Job:
    return job(*conditions, kind="lifelonglearningjob", deploySpec={})


def test_a_lifelong_job_evaluates_all_that_was_trained() -> None:
    command = look(lifelong(EVAL), LEFT)
    assert isinstance(command, Advance)
    assert command.report is not None
    assert command.report["input"] == {
        "models": [TRAINED],
        "dataURL": "/srv/out/data/eval/1/data.txt",
        "outputDir": "/srv/out/eval/1",
    }
    assert MakeFolder(FileLocation("/srv/out/eval/1")) in command.tasks


def test_a_lifelong_job_deploys_what_its_evaluation_kept() -> None:
    kept = {"format": "pkl", "url": "/srv/out/eval/1/index.pkl"}
    command = look(lifelong(DEPLOY), State(evaluated=StageOutcome(1, (kept,))))
    assert isinstance(command, Advance)
    target = FileLocation("/srv/out/deploy/index.pkl")
    assert command.tasks == (CopyModel(FileLocation(kept["url"]), target),)
    assert command.report is not None
    assert (command.report["status"], command.report["input"]) == ("Ready", {"models": [kept]})


def test_a_lifelong_job_that_kept_nothing_goes_on() -> None:
    command = look(lifelong(DEPLOY), State(evaluated=StageOutcome(1, ())))
    assert isinstance(command, Advance)
    assert not command.tasks
    assert command.report is not None
    assert command.report["status"] == "Completed"


def test_a_lifelong_job_without_word_of_its_evaluation_fails() -> None:
    assert failure(look(lifelong(DEPLOY), State())) == "the evaluation of round 1 left no results"


def test_a_stage_that_was_given_up_is_not_begun_again() -> None:
    given_up = LEFT.after(StageAnswered(Stage.DEPLOY, 1))
    assert isinstance(look(job(DEPLOY), given_up), Idle)
