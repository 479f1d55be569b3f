"""What a worker's report of a stage means, and of which round it is.

Sedna's workers do not say which round they are of. GM's names of pods do (`<job>-train-3-0`); any
other name is bound to the round in which it was heard first. A report of an older round, of a stage
that is over, or one that was heard before changes nothing and goes nowhere; "running" is no news
(GM takes it for an error).
"""

import re
from typing import Any

import msgspec

from lc.core.learning.commands import Body, report_of
from lc.core.learning.job import Job, Stage, models_in
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
    models_in(info.results)
    results: tuple[dict[str, Any], ...] | None = None
    if status == "Completed":
        results = tuple(dict(each) for each in info.results)
    event = Reported(Worker(info.name, stage.value, number), results)
    return Heard(event, report_of(stage, number, status) | {"output": info.output})


def _round(job: Job, state: State, stage: Stage, worker: str) -> int | None:
    condition = job.condition
    now = condition.round if condition is not None else None
    # The worker that serves stays the same while its model is exchanged.
    if stage is not Stage.DEPLOY:
        for each in state.workers:
            if each.name == worker and each.stage == stage.value:
                return each.round
        named = re.search(rf"-{stage.folder}-(\d+)-\d+$", worker)
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
