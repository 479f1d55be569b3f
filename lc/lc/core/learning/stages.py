"""What each stage needs in order to begin, and what GM gets.

Owns the inputs of a stage (prior art 3 and 4: Sedna's messages) and the decision to deploy. What is
not there yet is waited for; what can never come of this round is its failure, with the reason,
where Sedna's LC ended itself.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

from edge_sidecars.runtime.backoff import exponential
from lc.core.learning import paths
from lc.core.learning.commands import (
    FOREIGN_PATH,
    Advance,
    Body,
    Command,
    CopyModel,
    Idle,
    MakeFolder,
    Task,
    WriteHotUpdate,
    WriteIndex,
    WriteSamples,
    report_of,
)
from lc.core.learning.job import (
    Dataset,
    FileLocation,
    Job,
    Model,
    Stage,
    fitting,
    models_in,
)
from lc.core.learning.samples import VERSIONS_KEPT, Segment, Version, of_one_header
from lc.core.learning.state import (
    EvalBegun,
    Event,
    HotUpdated,
    Returned,
    StageAnswered,
    State,
    TrainBegun,
)
from lc.core.learning.trigger import comparison

# Seconds; a training that fails again and again is tried no less often.
LONGEST_BACKOFF = 3600.0

Models = Mapping[str, Model]
Results = Sequence[Mapping[str, object]]


def train(
    job: Job, state: State, dataset: Dataset, models: Models, number: int, *, reason: str
) -> Command:
    used, left = of_one_header(state.train)
    given: Body = {}
    if not job.is_lifelong:
        initial = models.get(job.initial_model)
        if initial is None:
            return Idle(f"waits for model {job.initial_model}")
        # Nothing that was trained is of the initial model's format: it begins from there again.
        base = fitting(models_in(_trained(job, state) or ()), initial) or initial
        given["models"] = [base.as_input()]
    tasks, written = _samples(job, dataset, Stage.TRAIN, number, used)
    given |= written
    folder = paths.output_folder(job.output_dir, Stage.TRAIN, number)
    given["outputDir"] = folder
    tasks = (*tasks, MakeFolder(FileLocation(folder, job.credential)))
    report = report_of(Stage.TRAIN, number, "Ready", message=reason, given=given)
    return Advance(TrainBegun(number, used, left), reason, report, tasks)


def evaluate(
    job: Job, state: State, dataset: Dataset | None, models: Models, number: int
) -> Command:
    if dataset is None:
        return Idle(f"waits for dataset {job.dataset}")
    trained = _trained(job, state, number=number)
    if trained is None:
        return _failed(Stage.EVAL, number, f"the training of round {number} left no word of it")
    given: Body = {}
    tasks: tuple[Task, ...] = ()
    if job.is_lifelong:
        candidates = models_in(trained)
        given["models"] = [dict(each.told) for each in candidates]
        given["outputDir"] = paths.output_folder(job.output_dir, Stage.EVAL, number)
        tasks = (MakeFolder(FileLocation(str(given["outputDir"]), job.credential)),)
    else:
        place = models.get(job.eval_model or job.deploy_model)
        if place is None:
            return Idle(f"waits for model {job.eval_model or job.deploy_model}")
        candidate = fitting(models_in(trained), place)
        candidates = () if candidate is None else (candidate, place)
        given["models"] = [each.as_input() for each in candidates]
    if not candidates:
        return _failed(Stage.EVAL, number, _unfit(trained, models, job))
    versions = _versions(state, number)
    segments = _newest_columns(versions)
    writing, written = _samples(job, dataset, Stage.EVAL, number, segments)
    event = EvalBegun(number, versions)
    report = report_of(Stage.EVAL, number, "Ready", given=given | written)
    return Advance(event, "the training is done", report, (*writing, *tasks))


def deploy(job: Job, state: State, models: Models, number: int, *, now: datetime) -> Command:
    results, event = _evaluated(job, state, number), StageAnswered(Stage.DEPLOY, number)
    if job.is_lifelong and results is not None:
        return _deploy_knowledge(job, results, number)
    if not results:
        return _failed(Stage.DEPLOY, number, f"the evaluation of round {number} left no results")
    old = results[1] if len(results) > 1 else None
    numbers = comparison(_metrics(results[0]), _metrics(old))
    verdict = job.deploy_trigger.judge(numbers, now=now)
    if verdict.is_early:
        return Idle(verdict.reason, job.deploy_trigger.check_period)
    if not verdict.fires:
        report = report_of(Stage.DEPLOY, number, "Completed", message=f"kept: {verdict.reason}")
        return Advance(event, f"the model in service stays: {verdict.reason}", report)
    placing = _placing(job, state, models, number, event)
    if isinstance(placing, Idle | Advance):
        return placing
    new, served, copies = placing
    given: Body = {"models": [new.as_input(), served.as_input()]}
    report = report_of(Stage.DEPLOY, number, "Ready", message=verdict.reason, given=given)
    return Advance(event, verdict.reason, report, () if job.is_hot_updated else copies)


def hot_update(job: Job, state: State, models: Models, number: int, *, now: datetime) -> Command:
    """Written again after a kill it is the same notice, so that no worker takes a model twice."""
    placing = _placing(job, state, models, number, HotUpdated(number))
    if isinstance(placing, Idle | Advance):
        return placing
    new, _, copies = placing
    since = job.condition.since if job.condition is not None else ""
    folder, name = paths.folder_of(job.hot_update_config), paths.name_of(new.url)
    tasks = (
        CopyModel(FileLocation(new.url, job.credential), FileLocation(folder + name)),
        *copies,
        WriteHotUpdate(
            FileLocation(job.hot_update_config),
            f"{paths.HOT_UPDATE_MOUNT}/{name}",
            since or now.isoformat(timespec="milliseconds"),
        ),
    )
    reason = "the worker that serves is to take the new model"
    return Advance(HotUpdated(number), reason, tasks=tasks)


def _deploy_knowledge(job: Job, results: Results, number: int) -> Command:
    kept, event = models_in(results), StageAnswered(Stage.DEPLOY, number)
    if not kept:
        why = "the evaluation kept no model"
        report = report_of(Stage.DEPLOY, number, "Completed", message=why)
        return Advance(event, why, report)
    target = FileLocation(paths.knowledge_file(job.output_dir), job.credential)
    tasks = (CopyModel(FileLocation(kept[0].url, job.credential), target),)
    given: Body = {"models": [kept[0].as_input()]}
    report = report_of(Stage.DEPLOY, number, "Ready", given=given)
    return Advance(event, "the evaluation kept a model", report, tasks)


def _placing(
    job: Job, state: State, models: Models, number: int, event: Event
) -> tuple[Model, Model, tuple[Task, ...]] | Idle | Advance:
    """The new model, the one in its place, and the copies; the failure, with this event, where
    there will be none ever."""
    served = models.get(job.deploy_model)
    if served is None:
        return Idle(f"waits for model {job.deploy_model}")
    trained = _trained(job, state, number=number) or ()
    new = fitting(models_in(trained), served)
    if new is None:
        return _failed(Stage.DEPLOY, number, _unfit(trained, models, job), event=event)
    copies: list[Task] = [_copy(job, new, served)]
    judged = models.get(job.eval_model) if job.eval_model else None
    compared = fitting(models_in(trained), judged) if judged else None
    if judged and compared and judged.url != served.url:
        copies.append(_copy(job, compared, judged))
    return new, served, tuple(copies)


def _copy(job: Job, source: Model, target: Model) -> CopyModel:
    return CopyModel(
        FileLocation(source.url, job.credential), FileLocation(target.url, target.credential)
    )


def _samples(
    job: Job, dataset: Dataset, stage: Stage, number: int, segments: tuple[Segment, ...]
) -> tuple[tuple[Task, ...], Body]:
    data = paths.samples_file(job.output_dir, stage, number, dataset.format)
    tasks: list[Task] = [WriteSamples(segments, FileLocation(data, job.credential))]
    given: Body = {"dataURL": data}
    # Lines of a remote text file name files beside it; rows of a table are the samples themselves.
    if paths.is_remote(dataset.url) and dataset.format == "txt":
        index = paths.index_file(job.output_dir, stage, number)
        prefix = paths.folder_of(dataset.url)
        tasks.append(WriteIndex(segments, prefix, FileLocation(index, job.credential)))
        given["dataIndexURL"] = index
    return tuple(tasks), given


def _versions(state: State, number: int) -> tuple[Version, ...]:
    new = (Version(number, state.fresh),) if state.fresh else ()
    return (*state.versions, *new)[-VERSIONS_KEPT:]


def _newest_columns(versions: Sequence[Version]) -> tuple[Segment, ...]:
    segments = tuple(each for version in versions for each in version.segments)
    return tuple(each for each in segments if each.header == segments[-1].header)


def _trained(job: Job, state: State, *, number: int | None = None) -> Results | None:
    """What the training of a round left, or the newest one; None: no word of it."""
    known = state.trained
    completed = job.completed(Stage.TRAIN)
    named = completed.models("output") if completed is not None else None
    heard: dict[int | None, Results] = {}
    if completed is not None and named is not None:
        heard[completed.round] = named
    if known is not None:
        heard[known.round] = known.results
    if number is not None:
        return heard.get(number)
    return heard[max(heard, key=lambda each: each or 0)] if heard else None


def _evaluated(job: Job, state: State, number: int) -> Results | None:
    if state.evaluated is not None and state.evaluated.round == number:
        return state.evaluated.results
    completed = job.completed(Stage.EVAL)
    return completed.models("output") if completed and completed.round == number else None


def _metrics(result: Mapping[str, object] | None) -> Mapping[str, object] | None:
    metrics = result.get("metrics") if result is not None else None
    return metrics if isinstance(metrics, Mapping) else None


def _unfit(trained: Results, models: Models, job: Job) -> str:
    left = ", ".join(f"{each.format} {each.url}" for each in models_in(trained)) or "no model"
    places = {name: models.get(name) for name in (job.eval_model, job.deploy_model) if name}
    wanted = " and ".join(
        f"{name} ({place.format}{' for ' + '/'.join(place.devices) if place.devices else ''})"
        for name, place in places.items()
        if place is not None
    )
    return f"the training left {left}; nothing for {wanted or 'evaluation'}"


def _foreign(stage: Stage, number: int, why: str, *, event: Event | None = None) -> Advance:
    report = report_of(stage, number, "Failed", message=why, reason=FOREIGN_PATH)
    return Advance(event or StageAnswered(stage, number), why, report)


def refused(command: Advance, why: str, *, failures: int, period: float, now: datetime) -> Advance:
    """What becomes of a stage of which a task leads where LC must not go. A training is not tried
    again soon: its next round will meet the same."""
    match command.event:
        case TrainBegun(number):
            wait = exponential(failures, first=period, longest=LONGEST_BACKOFF)
            event: Event = Returned(number, now.timestamp() + wait)
            return _foreign(Stage.TRAIN, number, why, event=event)
        case EvalBegun(number):
            return _foreign(Stage.EVAL, number, why)
        case HotUpdated(number) as event:
            return _foreign(Stage.DEPLOY, number, why, event=event)
        case StageAnswered(stage, number):
            return _foreign(stage, number, why)
    raise ValueError(f"{command.event} has no tasks")


def _failed(stage: Stage, number: int, why: str, *, event: Event | None = None) -> Advance:
    report = report_of(stage, number, "Failed", message=why)
    return Advance(event or StageAnswered(stage, number), why, report)
