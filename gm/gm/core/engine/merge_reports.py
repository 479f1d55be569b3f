"""What reports change: in the same status that says that they were taken in.

Owns which reports count and what each merge does. Guarantees: a report counts once, in its order,
and only if its node is one that the object concerns; of a foreign node nothing is written at all.
Whatever a body contains, it has an effect on this object, or on the Model that it names, or none.
"""

import json
from collections.abc import Callable

from edge_sidecars.sedna_api.core.api_object import Json, ObjectKey
from edge_sidecars.sedna_api.core.kinds import DATASET, MODEL
from edge_sidecars.sedna_api.core.node_report import (
    Applied,
    StoredReport,
    applied_json,
    applied_of,
    foldable,
)
from edge_sidecars.sedna_api.core.report import Malformed
from gm.core.engine.conditions import FAILED, READY
from gm.core.engine.plan import PatchModelStatus, RefusedNote
from gm.core.engine.reconcile_context import Draft
from gm.core.kind import Merge
from gm.core.references import nodes
from gm.core.rules import stages
from gm.core.rules.job import is_finished
from gm.core.tree import found, items, mapping, number, objects, part, text

UNREADABLE = "Unreadable"


def fold(draft: Draft) -> None:
    """Take in what is pending."""
    try:
        applied = applied_of(draft.status)
    except Malformed as error:
        draft.waits_for = str(error)
        return
    before = dict(applied)
    concerned = _concerned(draft)
    for node in sorted(draft.view.pending):
        ready = foldable(draft.view.pending[node], applied.get(node))
        draft.waits_for = draft.waits_for or ready.waits_for
        if node not in concerned:
            if _is_unsettled(draft):
                draft.waits_for = draft.waits_for or "a Dataset that says which node is concerned"
            else:
                draft.refused += [
                    RefusedNote(node, it, f"the object does not concern node {node}")
                    for it in ready
                ]
            continue
        for report in ready:
            _fold_one(draft, node, report)
            applied[node] = Applied.of(node, report)
    if applied != before:
        draft.status["appliedReports"] = applied_json(applied)


def _fold_one(draft: Draft, node: str, report: StoredReport) -> None:
    reason = _MERGES[draft.kind.merge](draft, report.json())
    if reason:
        draft.refused.append(RefusedNote(node, report, reason))
    else:
        draft.folded += 1


def _concerned(draft: Draft) -> frozenset[str]:
    """Also nodes where the scheduler put its workers a moment ago."""
    scheduled = (text(it, "spec", "nodeName") for it in draft.view.children)
    told = nodes(draft.kind, draft.subject, draft.view.references)
    return told | frozenset(filter(None, scheduled))


def _is_unsettled(draft: Draft) -> bool:
    """Whether a node may be concerned of which nothing is known yet."""
    namespace = text(draft.subject, "metadata", "namespace")
    names = [name for path in draft.kind.datasets for _, name in found(draft.subject, path)]
    keys = [ObjectKey(DATASET.singular, namespace, it) for it in names if isinstance(it, str)]
    return any(not draft.view.references.get(key) for key in keys)


def _ignored(_: Draft, __: Json) -> str:
    return "nothing is reported of this kind"


def _samples(draft: Draft, body: Json) -> str:
    count = number(body, "numberOfSamples", default=-1)
    problem = part(body, "problem")
    if isinstance(problem, str) and problem:
        draft.status.setdefault("numberOfSamples", 0)
        if draft.log.append(FAILED, reason=UNREADABLE, message=problem):
            draft.note(UNREADABLE, problem, is_warning=True)
        return ""
    if count < 0 and problem is None:
        return "neither a number of samples nor a problem"
    if count >= 0:
        draft.status["numberOfSamples"] = count
        draft.status["updateTime"] = draft.timestamp
    if text(draft.log.state, "type") == FAILED:
        draft.log.append(READY, reason="Counted")
        draft.note("Counted", f"It has {number(draft.status, 'numberOfSamples')} samples")
    return ""


def _metrics(draft: Draft, body: Json) -> str:
    told = dict(mapping(body, "output", "ownerInfo"))
    told.pop("startTime", None)
    told.pop("updateTime", None)
    if not told:
        return "no metrics in output.ownerInfo"
    draft.status["metrics"] = [dict(it) for it in _listed(told)]
    return ""


def _training(draft: Draft, body: Json) -> str:
    if text(body, "phase").lower() != "train":
        return f"phase {text(body, 'phase')!r:.40} is not train"
    models = list(objects(body, "output", "models"))
    metrics = _listed(mapping(models[0], "metrics")) if models else ()
    if metrics:
        _patch_model(draft, metrics)
    if text(body, "status").lower() == "failed" and not is_finished(draft):
        draft.note("WorkerReportsFailure", "A training worker says that it failed", is_warning=True)
    reached = number(body, "output", "ownerInfo", "currentRound")
    running = draft.kind.words.running
    if reached > number(draft.log.last(running), "round") and not is_finished(draft):
        at = text(body, "output", "ownerInfo", "updateTime")
        message = f"Round {reached} reaches at {at}"
        draft.log.append(running, reason="DoTraining", message=message, round_=reached)
    return ""


def _patch_model(draft: Draft, metrics: tuple[dict[str, str], ...]) -> None:
    """Only the last word of a Model is written."""
    namespace = text(draft.subject, "metadata", "namespace")
    name = text(draft.subject, "spec", "aggregationWorker", "model", "name")
    key = ObjectKey(MODEL.singular, namespace, name)
    draft.actions = [
        it for it in draft.actions if not isinstance(it, PatchModelStatus) or it.key != key
    ]
    draft.actions.append(PatchModelStatus(key, metrics, draft.timestamp))


def _stage(draft: Draft, body: Json) -> str:
    problem = part(body, "problem")
    if isinstance(problem, str):
        if problem:
            draft.note("LearningHindered", problem, is_warning=True)
        return ""
    reason = stages.take(draft, body)
    if not reason:
        models = list(objects(body, "output", "models"))
        if models and draft.kind.resource.singular == "lifelonglearningjob":
            draft.status["knowledgeBase"] = _knowledge_base(models)
        stages.advance(draft)
    return reason


def _knowledge_base(models: list[Json]) -> Json:
    """Sedna: GM/controllers/lifelonglearning/upstream.go."""
    classes = [it for it in items(models[0], "classes") if isinstance(it, str)]
    listed: list[Json] = []
    unseen = 0
    for model in models:
        samples = number(model, "number_of_labeled_unseen_sample")
        unseen += samples
        for name, metrics in mapping(model, "current_metric").items():
            values = list(metrics.values()) if isinstance(metrics, dict) else [metrics]
            precision = values[0] if values and isinstance(values[0], int | float) else 0.0
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
            "numberOfLabeledUnseenSample": unseen,
            "numberOfUnseenSample": sum(number(it, "number_of_unseen_sample") for it in models),
        },
    }


def _listed(metrics: Json) -> tuple[dict[str, str], ...]:
    """As status.metrics has them: every value a string."""
    return tuple(
        {
            "key": key,
            "value": value if isinstance(value, str) else json.dumps(value, separators=(",", ":")),
        }
        for key, value in metrics.items()
    )


_MERGES: dict[Merge, Callable[[Draft, Json], str]] = {
    Merge.NOTHING: _ignored,
    Merge.SAMPLES: _samples,
    Merge.METRICS: _metrics,
    Merge.TRAINING: _training,
    Merge.STAGE: _stage,
}
