"""What a worker's report of a stage means, and of which round it is.

Sedna's workers do not say which round they are of. GM's names of pods do (`<job>-train-3-0`); any
other name is bound to the round in which it was heard first. A report of an older round, of a stage
that is over, or one that was heard before changes nothing and goes nowhere; "running" is no news
(GM takes it for an error). A success that names a file outside of its job's outputDir is the
failure of its stage: what is named here is copied. An evaluation may also name the models that it
was given.
"""

import re
from typing import Any

import msgspec

from edge_sidecars.sedna_api.core.file_url import places_inside
from lc.core.learning.commands import FOREIGN_PATH, Body, report_of
from lc.core.learning.job import Job, Model, Stage, foreign, models_in
from lc.core.learning.state import Reported, State, Worker
from lc.core.worker_info import WorkerInfo

_ENDS = {"completed": "Completed", "failed": "Failed"}
_ORDER = (Stage.TRAIN, Stage.EVAL, Stage.DEPLOY)


class Heard(msgspec.Struct, frozen=True):
    event: Reported
    report: Body


class Unheard(msgspec.Struct, frozen=True):
    """It changes nothing; `reason` for the log."""

    reason: str


def hear(job: Job, state: State, info: WorkerInfo) -> Heard | Unheard:
    """Raises MalformedJob for models that cannot be read."""
    stage, status = Stage.named(info.kind), _ENDS.get(info.status)
    if stage is None or status is None:
        return Unheard(f"{info.kind or 'no kind'} {info.status or 'no status'} ends no stage")
    number = _round(job, state, stage, info.name)
    if number is None:
        return Unheard(f"no {stage.value} is under way")
    if _is_over(job, stage, number):
        return Unheard(f"{stage.value} of round {number} is over")
    outcome = {Stage.TRAIN: state.trained, Stage.EVAL: state.evaluated}.get(stage)
    if outcome is not None and outcome.round == number:
        return Unheard(f"{stage.value} of round {number} is completed already")
    if state.failed.get(stage.value) == number:
        # GM has begun the next round, or will: the samples of this one wait again.
        return Unheard(f"{stage.value} of round {number} has failed already")
    worker = Worker(info.name, stage.value, number)
    why = foreign(_named(job, state, stage, number, models_in(info.results)), job.output_dir)
    if why:
        body = report_of(stage, number, "Failed", message=why, reason=FOREIGN_PATH)
        return Heard(Reported(worker, None), body)
    results: tuple[dict[str, Any], ...] | None = None
    if status == "Completed":
        results = tuple(dict(each) for each in info.results)
    event = Reported(worker, results)
    return Heard(event, report_of(stage, number, status) | {"output": info.output})


def _named(
    job: Job, state: State, stage: Stage, number: int, models: tuple[Model, ...]
) -> list[Model]:
    """But for what an evaluation of an incremental job was given: of its results, only numbers are
    used."""
    if stage is not Stage.EVAL or job.is_lifelong:
        return list(models)
    given = {place for it in _given(job, state, number) for place in places_inside(it)}
    return [it for it in models if it.url not in given]


def _given(job: Job, state: State, number: int) -> set[str]:
    """URLs of the models that LC chose for an evaluation."""
    reports: list[bytes | str] = []
    if state.said is not None and (state.said.stage, state.said.round) == ("Eval", number):
        reports.append(state.said.report)
    reports += [
        it.data
        for it in job.conditions
        if it.stage is Stage.EVAL and it.round == number and it.type == "Ready"
    ]
    found = (_input_models(each) for each in reports)
    return {str(it["url"]) for models in found for it in models if it.get("url")}


def _input_models(report: bytes | str) -> list[dict[str, Any]]:
    try:
        body = msgspec.json.decode(report, type=_Told)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return []
    return body.input.models


class _Input(msgspec.Struct):
    models: list[dict[str, Any]] = []


class _Told(msgspec.Struct):
    input: _Input = msgspec.field(default_factory=_Input)


def _round(job: Job, state: State, stage: Stage, worker: str) -> int | None:
    condition = job.condition
    now = condition.round if condition is not None else None
    # The worker that serves stays the same while its model is exchanged.
    if stage is not Stage.DEPLOY:
        for each in state.workers:
            if each.name == worker and each.stage == stage.value:
                return each.round
        named = re.search(rf"-{stage.folder}-(\d{{1,9}})-\d+$", worker)
        if named is not None:
            return int(named[1])
    return now if condition is not None and condition.stage is stage else None


def _is_over(job: Job, stage: Stage, number: int) -> bool:
    condition = job.condition
    if condition is None or condition.round is None or condition.round < number:
        return False
    if condition.round > number or _ORDER.index(condition.stage) > _ORDER.index(stage):
        return True
    return condition.stage is stage and condition.type in ("Completed", "Failed")
