"""What reports change: in the same status that says that they were taken in.

Owns which reports count and what each merge does. Guarantees: a report counts once, in its order,
and only if its node is one that the object concerns; of a foreign node nothing is written at all.
Whatever a body contains, it has an effect on this object, or on the Model that it names, or none.
"""

import json
from collections.abc import Callable

from edge_sidecars.sedna_api.core.api_object import Json, ObjectKey
from edge_sidecars.sedna_api.core.kinds import DATASET, MODEL
from edge_sidecars.sedna_api.core.report import MalformedReport
from edge_sidecars.sedna_api.core.stored_report import (
    AppliedReport,
    StoredReport,
    applied_json,
    applied_of,
    mergeable,
)
from gm.core.engine.conditions import FAILED, READY
from gm.core.engine.plan import PatchModelStatus, ReportWithoutEffect
from gm.core.engine.reconcile_context import ReconcileContext
from gm.core.kind import Merge
from gm.core.references import nodes
from gm.core.rules import stages
from gm.core.rules.job import is_finished
from gm.core.tree import MAX_NUMBER, items, mapping, number, objects, part, text, values

UNREADABLE = "Unreadable"


def merge_reports(context: ReconcileContext) -> None:
    """Take in what is pending."""
    try:
        applied = applied_of(context.status)
    except MalformedReport as error:
        context.waits_for = str(error)
        return
    before = dict(applied)
    concerned = _concerned(context)
    for node in sorted(context.view.pending):
        ready = mergeable(context.view.pending[node], applied.get(node))
        context.waits_for = context.waits_for or ready.waits_for
        if node not in concerned:
            if _is_unsettled(context):
                context.waits_for = (
                    context.waits_for or "a Dataset that says which node is concerned"
                )
            else:
                context.refused += [
                    ReportWithoutEffect(node, it, f"the object does not concern node {node}")
                    for it in ready
                ]
            continue
        for report in ready:
            _merge_one(context, node, report)
            applied[node] = AppliedReport.of(node, report)
    if applied != before:
        context.status["appliedReports"] = applied_json(applied)


def _merge_one(context: ReconcileContext, node: str, report: StoredReport) -> None:
    reason = _MERGES[context.kind.merge](context, report.json())
    if reason:
        context.refused.append(ReportWithoutEffect(node, report, reason))
    else:
        context.folded += 1


def _concerned(context: ReconcileContext) -> frozenset[str]:
    """Also nodes where the scheduler put its workers a moment ago."""
    scheduled = (text(it, "spec", "nodeName") for it in context.view.children)
    named = nodes(context.kind, context.subject, context.view.references)
    return named | frozenset(filter(None, scheduled))


def _is_unsettled(context: ReconcileContext) -> bool:
    """Whether a node may be concerned of which nothing is known yet."""
    namespace = text(context.subject, "metadata", "namespace")
    names = [name for path in context.kind.datasets for name in values(context.subject, path)]
    keys = [ObjectKey(DATASET.singular, namespace, it) for it in names if isinstance(it, str)]
    return any(not context.view.references.get(key) for key in keys)


def _ignored(_: ReconcileContext, __: Json) -> str:
    return "nothing is reported of this kind"


def _samples(context: ReconcileContext, body: Json) -> str:
    count = number(body, "numberOfSamples", default=-1)
    problem = part(body, "problem")
    if isinstance(problem, str) and problem:
        context.status.setdefault("numberOfSamples", 0)
        if context.log.append(FAILED, reason=UNREADABLE, message=problem):
            context.note(UNREADABLE, problem, is_warning=True)
        return ""
    if count < 0 and problem is None:
        return "neither a number of samples nor a problem"
    if count >= 0:
        context.status["numberOfSamples"] = count
        context.status["updateTime"] = context.timestamp
    if text(context.log.state, "type") == FAILED:
        context.log.append(READY, reason="Counted")
        context.note("Counted", f"It has {number(context.status, 'numberOfSamples')} samples")
    return ""


def _metrics(context: ReconcileContext, body: Json) -> str:
    metrics = dict(mapping(body, "output", "ownerInfo"))
    metrics.pop("startTime", None)
    metrics.pop("updateTime", None)
    if not metrics:
        return "no metrics in output.ownerInfo"
    context.status["metrics"] = [dict(it) for it in _listed(metrics)]
    return ""


def _training(context: ReconcileContext, body: Json) -> str:
    if text(body, "phase").lower() != "train":
        return f"phase {text(body, 'phase')!r:.40} is not train"
    models = list(objects(body, "output", "models"))
    metrics = _listed(mapping(models[0], "metrics")) if models else ()
    if metrics:
        _patch_model(context, metrics)
    if text(body, "status").lower() == "failed" and not is_finished(context):
        context.note(
            "WorkerReportsFailure", "A training worker says that it failed", is_warning=True
        )
    reached = number(body, "output", "ownerInfo", "currentRound")
    running = context.kind.words.running
    if reached > number(context.log.last(running), "round") and not is_finished(context):
        at = text(body, "output", "ownerInfo", "updateTime")
        message = f"Round {reached} reaches at {at}"
        context.log.append(running, reason="DoTraining", message=message, round_=reached)
    return ""


def _patch_model(context: ReconcileContext, metrics: tuple[dict[str, str], ...]) -> None:
    """Only the last word of a Model is written."""
    namespace = text(context.subject, "metadata", "namespace")
    name = text(context.subject, "spec", "aggregationWorker", "model", "name")
    key = ObjectKey(MODEL.singular, namespace, name)
    context.actions = [
        it for it in context.actions if not isinstance(it, PatchModelStatus) or it.key != key
    ]
    context.actions.append(PatchModelStatus(key, metrics, context.timestamp))


def _stage(context: ReconcileContext, body: Json) -> str:
    problem = part(body, "problem")
    if isinstance(problem, str):
        if problem:
            context.note("LearningHindered", problem, is_warning=True)
        return ""
    reason = stages.take(context, body)
    if not reason:
        models = list(objects(body, "output", "models"))
        is_taken = stages.type_(context) != FAILED
        if models and is_taken and context.kind.resource.singular == "lifelonglearningjob":
            context.status["knowledgeBase"] = _knowledge_base(models)
        stages.advance(context)
    return reason


def _knowledge_base(models: list[Json]) -> Json:
    """Sedna: GM/controllers/lifelonglearning/upstream.go."""
    classes = [it for it in items(models[0], "classes") if isinstance(it, str)]
    listed: list[Json] = []
    for model in models:
        samples = number(model, "number_of_labeled_unseen_sample")
        for name, metrics in mapping(model, "current_metric").items():
            values = list(metrics.values()) if isinstance(metrics, dict) else [metrics]
            precision = values[0] if values and _is_measured(values[0]) else 0.0
            listed.append(
                {
                    "modelID": name,
                    "averagePrecision": float(precision),
                    "numberOfTrainSamples": samples,
                }
            )
    return {
        "AIModels": {"numberOfAIModels": len(listed), "listOfAIModels": listed},
        "AIClasses": {"numberOfAIClasses": len(classes), "listOfAIClasses": classes},
        "samples": {
            "numberOfLabeledUnseenSample": _sum(models, "number_of_labeled_unseen_sample"),
            "numberOfUnseenSample": _sum(models, "number_of_unseen_sample"),
        },
    }


def _is_measured(value: object) -> bool:
    return isinstance(value, int | float) and abs(value) <= MAX_NUMBER


def _sum(models: list[Json], field: str) -> int:
    """No more than the API's integers hold."""
    return min(sum(number(it, field) for it in models), MAX_NUMBER)


def _listed(metrics: Json) -> tuple[dict[str, str], ...]:
    """As status.metrics has them: every value a string."""
    return tuple(
        {
            "key": key,
            "value": value if isinstance(value, str) else json.dumps(value, separators=(",", ":")),
        }
        for key, value in metrics.items()
    )


_MERGES: dict[Merge, Callable[[ReconcileContext, Json], str]] = {
    Merge.NOTHING: _ignored,
    Merge.SAMPLES: _samples,
    Merge.METRICS: _metrics,
    Merge.TRAINING: _training,
    Merge.STAGE: _stage,
}
