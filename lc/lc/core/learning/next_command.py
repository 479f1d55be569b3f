"""One look at a job: what is to be done now, or for how long nothing is.

    (Train, Waiting, r)  new samples are gathered; every checkPeriodSeconds the trigger is judged;
                         it fires: samples of round r are written, Train/Ready
    (Eval, Waiting, r)   evaluation samples are written, Eval/Ready
    (Deploy, Waiting, r) better: the model takes its place, Deploy/Ready; else Deploy/Completed
    (Deploy, Running, r) hot update: the model and its notice are laid where the worker looks
    (*, Waiting, r) again and again after GM got r: its copy of that was lost (a NodeReport
                         that was deleted, etcd that was restored): it is sent once more
    a later round waits  the samples of a training that failed wait again

Each stage is begun by one node's LC: training and evaluation by the dataset's, the deployment of an
incremental job where it was evaluated, a hot update where the worker runs. A stage of a round is
begun once, however often (Waiting) comes.
"""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from edge_sidecars.runtime.backoff import exponential
from lc.core.learning import stages
from lc.core.learning.commands import Advance, Command, Gather, Idle, LoopPace, Repeat
from lc.core.learning.job import Dataset, Job, JobCondition, Model, Stage
from lc.core.learning.paths import is_remote
from lc.core.learning.samples import Cursor, counted, of_one_header
from lc.core.learning.stages import LONGEST_BACKOFF as LONGEST_BACKOFF
from lc.core.learning.state import Returned, State
from lc.core.learning.trigger import TriggerVerdict, training_numbers
from lc.core.outbox import FIRST_RESEND, LONGEST_RESEND

# Seconds; Sedna's DatasetHandlerIntervalSeconds.
GATHER_PERIOD = 10.0


class JobInputs(msgspec.Struct, frozen=True):
    """What else this node knows: the job's Dataset if it is this node's, and its Models by name.

    `is_acked`: all reports of the job have arrived somewhere.
    """

    node: str
    dataset: Dataset | None
    models: Mapping[str, Model]
    is_acked: bool = False


def next_command(
    job: Job, state: State, known: JobInputs, *, pace: LoopPace, now: datetime
) -> Command:
    """`now` is the node's local time, with its zone."""
    condition = job.condition
    if condition is None or condition.round is None:
        return Idle("waits for GM")
    if _has_failed(job, state, condition.round):
        return _give_back(job, state, now)
    if known.dataset is not None:
        gathering = _gathering(job, state, condition, known.dataset, pace=pace, now=now)
        if gathering is not None:
            return gathering
    if not _is_mine(job, condition, known):
        return Idle(f"{condition.stage.value} of round {condition.round} is begun on another node")
    number = condition.round
    match condition.stage, condition.type:
        case Stage.TRAIN, "Waiting" if state.train_asked != number:
            return _train(job, state, known, pace, now, number)
        case Stage.EVAL, "Waiting" if state.eval_asked != number:
            return stages.evaluate(job, state, known.dataset, known.models, number)
        case Stage.DEPLOY, "Waiting" if state.deploy_asked != number:
            return stages.deploy(job, state, known.models, number, now=now)
        case Stage.DEPLOY, "Running" if job.is_hot_updated and state.hot_updated != number:
            return stages.hot_update(job, state, known.models, number, now=now)
    if condition.type == "Waiting" and _is_lost(state, condition, known, pace, now):
        assert state.said is not None
        return Repeat(state.said.report)
    return Idle(f"{condition.stage.value} of round {number}: {condition.type}", _next_look(known))


def _gathering(
    job: Job,
    state: State,
    condition: JobCondition,
    dataset: Dataset,
    *,
    pace: LoopPace,
    now: datetime,
) -> Gather | None:
    period = job.train_trigger.check_period
    if not is_remote(dataset.url):
        period = min(period, GATHER_PERIOD)
    # A remote file comes whole each time: only where the trigger is to be judged.
    elif condition.stage is not Stage.TRAIN or state.train_asked == condition.round:
        return None
    if not _is_due(pace.gathered, period, now):
        return None
    cursor = state.cursor
    if cursor is None or (cursor.url, cursor.format) != (dataset.url, dataset.format):
        cursor = Cursor(dataset.url, dataset.format)
    return Gather(
        source=dataset.place,
        cursor=cursor,
        train=state.train,
        evaluation=state.fresh,
        named=str(state.named + 1),
        gathered=state.gathered,
        train_probability=job.train_probability,
    )


def _train(
    job: Job, state: State, known: JobInputs, pace: LoopPace, now: datetime, number: int
) -> Command:
    # A clock that was set back since must not hold a job for longer than was meant.
    wait = min(state.not_before - now.timestamp(), LONGEST_BACKOFF)
    if wait > 0:
        return Idle("waits after a training that failed", min(wait, GATHER_PERIOD))
    period = job.train_trigger.check_period
    if pace.judged_round == number and not _is_due(pace.judged, period, now):
        return Idle("waits for its trigger", min(period, GATHER_PERIOD))
    used, _ = of_one_header(state.train)
    samples = counted(used)
    verdict = (
        job.train_trigger.judge(training_numbers(samples), now=now)
        if samples
        # Sedna asks the trigger even so: <, <= and != begin a training without data.
        else TriggerVerdict(False, "there are no new samples")
    )
    if not verdict.fires:
        return Idle(verdict.reason, min(period, GATHER_PERIOD), judged_round=number)
    assert known.dataset is not None, "only the dataset's node trains"
    return stages.train(job, state, known.dataset, known.models, number, reason=verdict.reason)


def _is_mine(job: Job, condition: JobCondition, known: JobInputs) -> bool:
    has_data = known.dataset is not None
    if condition.stage is not Stage.DEPLOY or job.is_lifelong:
        return has_data
    place = job.nodes[Stage.DEPLOY if condition.type == "Running" else Stage.EVAL]
    return place == known.node if place else has_data


def _has_failed(job: Job, state: State, number: int) -> bool:
    """Another round than that of the training that has samples, and no word of its success.

    Another, not a later one: after a restore of etcd GM counts on from an older round.
    """
    if state.lent is None or state.lent.round == number:
        return False
    completed = job.completed(Stage.TRAIN)
    return completed is None or completed.round != state.lent.round


def _give_back(job: Job, state: State, now: datetime) -> Advance:
    assert state.lent is not None
    period = job.train_trigger.check_period
    wait = exponential(state.failures, first=period, longest=LONGEST_BACKOFF)
    event = Returned(state.lent.round, now.timestamp() + wait)
    return Advance(
        event, f"the training of round {state.lent.round} failed: its samples wait again"
    )


def _is_lost(
    state: State, condition: JobCondition, known: JobInputs, pace: LoopPace, now: datetime
) -> bool:
    if not known.is_acked or state.said is None or pace.told is None:
        return False
    wait = exponential(pace.repeats, first=FIRST_RESEND, longest=LONGEST_RESEND)
    is_said = (state.said.stage, state.said.round) == (condition.stage.value, condition.round)
    return is_said and _is_due(pace.told, wait, now)


def _next_look(known: JobInputs) -> float:
    return GATHER_PERIOD if known.dataset is not None else FIRST_RESEND


def _is_due(last: datetime | None, period: float, now: datetime) -> bool:
    # A clock that was set back makes everything due.
    return last is None or not 0 <= (now - last).total_seconds() < period
