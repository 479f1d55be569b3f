"""Rule staged: a learning job's pods, stage after stage, round after round.

`stages.py` has the machine; here is what pods make of it. A stage's pod is made when LC says Ready,
with the report of LC; its end alone completes nothing, for what it achieved is in the worker's
report, which is waited for. The inference worker is made anew for a deployment, unless it takes
newer models by itself (hot update). Guarantees: pods of a round that has passed never count; those
of the last round stay for their logs, older ones go.
"""

from typing import Final

from edge_sidecars.sedna_api.core.api_object import Json
from gm.core.engine.conditions import READY, REPLACED, REPLACING, instant, left
from gm.core.engine.reconcile_context import ReconcileContext
from gm.core.references import STAGE_NODES
from gm.core.rules import stages
from gm.core.rules.pods import PodPhase, failure, finished_at, phase, restart
from gm.core.tree import flag, mapping, number, text
from gm.core.workers.children import Children, is_leaving, reconcile
from gm.core.workers.manifests import Slot
from gm.core.workers.slots import assembled, child_round, foreign_directories, slots, worker_type
from gm.core.workers.storage import hot_update_file

# Seconds that the report of a pod that has ended may take: LC keeps it while it is cut off, but a
# stage without a report must not hold the job for ever.
RESULT_GRACE: Final = 300.0
HOT_UPDATE_ANNOTATION: Final = "sedna.io/model-hot-update-config"
# Completed > Waiting; Ready > Running; Starting > Completed > Waiting: never more at once.
_MOST_STEPS: Final = 4


def act(context: ReconcileContext) -> None:
    """What follows from the view."""
    context.status["observedGeneration"] = context.generation
    context.status.setdefault("startTime", context.timestamp)
    children = Children.of(context.view.children)
    _annotate(context, children)
    if context.problems and not _are_overlooked(context):
        context.stand(context.problems)
        return
    for _ in range(_MOST_STEPS):
        before = context.log.state
        _step(context, children)
        if context.log.state is before:
            break
    if not context.problems:
        _make(context, children)


def is_hot(context: ReconcileContext) -> bool:
    """Whether the inference worker takes newer models by itself."""
    return flag(context.subject, "spec", "deploySpec", "model", "hotUpdateEnabled")


def deployed_round(context: ReconcileContext) -> int:
    """The round whose model the inference worker was, or is being, made anew for; 0 at first."""
    is_deploying = stages.stage(context) == stages.DEPLOY
    if is_deploying and stages.type_(context) in (READY, stages.STARTING) and not is_hot(context):
        return stages.round_(context)
    for one in context.log.newest():
        if text(one, "reason") in (REPLACING, REPLACED):
            return number(one, "round")
    return 0


def _are_overlooked(context: ReconcileContext) -> bool:
    return stages.type_(context) in stages.IN_FLIGHT and context.lacks_references_only


def _step(context: ReconcileContext, children: Children) -> None:
    if stages.type_(context) not in stages.IN_FLIGHT:
        stages.advance(context)
    elif stages.stage(context) == stages.DEPLOY:
        _step_deployment(context, children)
    else:
        _step_stage(context, children)


def _step_stage(context: ReconcileContext, children: Children) -> None:
    slot = _stage_slot(context)
    pod = children.get(slot.kind, slot.name) if slot else None
    match phase(pod):
        case PodPhase.ABSENT:
            return
        case PodPhase.PENDING:
            if stages.type_(context) == READY:
                stages.move(context, stages.STARTING)
        case PodPhase.RUNNING:
            stages.move(context, stages.RUNNING)
        case PodPhase.FAILED:
            stages.fail(context, "WorkerFailed", failure(pod or {}))
        case PodPhase.SUCCEEDED:
            stages.move(context, stages.RUNNING)
            since = finished_at(pod or {}) or instant(context.log.state)
            grace = left(RESULT_GRACE, since, context.now)
            if grace:
                context.again(grace)
            else:
                message = f"pod {slot.name if slot else ''} succeeded, but nobody reported a result"
                stages.fail(context, "NoResult", f"{message} within {RESULT_GRACE:.0f} s")


def _step_deployment(context: ReconcileContext, children: Children) -> None:
    pods = [children.get(slot.kind, slot.name) for slot in _inference_slots(context)]
    phases = [phase(pod) for pod in pods]
    if PodPhase.ABSENT in phases or not phases:
        return
    reason = "" if is_hot(context) else REPLACING
    if failed := [it for it in pods if it and phase(it) is PodPhase.FAILED]:
        stages.move(context, stages.STARTING, reason=reason)
        stages.fail(context, "WorkerFailed", failure(failed[0]))
    elif PodPhase.PENDING in phases:
        if stages.type_(context) == READY:
            stages.move(context, stages.STARTING, reason=reason)
    elif is_hot(context):
        stages.move(context, stages.RUNNING)
    else:
        message = "the inference worker was made anew"
        stages.move(context, "Completed", reason=REPLACED, message=message)


def _make(context: ReconcileContext, children: Children) -> None:
    """The children that the state asks for."""
    inference = _inference_slots(context)
    names = {slot.name for slot in inference}
    others = [it for it in _inference_pods(context, children) if _name(it) not in names]
    # Two inference workers on one host network would want the same ports, and the same devices.
    wanted = [] if others else [(slot, dict[str, object]()) for slot in inference]
    slot = _stage_slot(context) if stages.type_(context) in stages.IN_FLIGHT else None
    if slot is not None and not phase(pod := children.get(slot.kind, slot.name)).is_finished:
        input_ = stages.input_of(context)
        foreign = [] if pod else foreign_directories(context, slot, input_)
        if foreign:
            stages.fail(context, stages.FOREIGN_PATH, _told(foreign))
        else:
            wanted.append((slot, input_))
    made = assembled(context, wanted)
    there = reconcile(context, made, unwanted=[*others, *_passed(context, children)])
    if wanted and stages.type_(context) == READY and not _missing(context, there):
        is_anew = stages.stage(context) == stages.DEPLOY and not is_hot(context)
        stages.move(context, stages.STARTING, reason=REPLACING if is_anew else "")
    restart(context, [it for it in _inference_pods(context, children) if it not in others])


def _told(foreign: list[str]) -> str:
    return (
        f"LC wants {', '.join(foreign)[:200]} of the node for the worker: only what lies in "
        "spec.outputDir, or beside the job's Dataset and Models, is given"
    )


def _missing(context: ReconcileContext, there: list[Json]) -> bool:
    """Whether a pod that works for the present stage is not made yet."""
    names = {_name(it) for it in there}
    slot = _stage_slot(context)
    return any(it.name not in names for it in ([slot] if slot else _inference_slots(context)))


def _passed(context: ReconcileContext, children: Children) -> list[Json]:
    """Pods of stages of earlier rounds: all that still run, and those before the last round."""
    now = stages.round_(context)
    found = [
        it
        for it in children.of_kind("Pod")
        if worker_type(context.kind, it) != _inference_type(context) and 0 <= child_round(it) < now
    ]
    return [it for it in found if not phase(it).is_finished or child_round(it) < now - 1]


def _stage_slot(context: ReconcileContext) -> Slot | None:
    """The worker of the present stage; of Deploy it is the inference worker."""
    for worker in context.kind.workers:
        if worker.stage == stages.stage(context) != stages.DEPLOY:
            return slots(context.kind, context.subject, worker, round_=stages.round_(context))[0]
    return None


def _inference_slots(context: ReconcileContext) -> list[Slot]:
    deployed = deployed_round(context)
    return [
        slot
        for worker in context.kind.workers
        if worker.stage == stages.DEPLOY and (worker.is_initial or deployed)
        for slot in slots(context.kind, context.subject, worker, round_=deployed)
    ]


def _inference_type(context: ReconcileContext) -> str:
    return next(it.label for it in context.kind.workers if it.stage == stages.DEPLOY)


def _inference_pods(context: ReconcileContext, children: Children) -> list[Json]:
    inference = _inference_type(context)
    return [it for it in children.of_kind("Pod") if worker_type(context.kind, it) == inference]


def _annotate(context: ReconcileContext, children: Children) -> None:
    """Where each stage's newest pod is, so that the LC of that node gets the job."""
    types = {it.label: f"sedna.io/{it.stage}" for it in context.kind.workers}
    newest: dict[str, tuple[int, str]] = {}
    for pod in children.of_kind("Pod"):
        key, node = types.get(worker_type(context.kind, pod)), text(pod, "spec", "nodeName")
        if key in STAGE_NODES and node and not is_leaving(pod):
            newest[key] = max(newest.get(key, (-1, "")), (child_round(pod), node))
    annotations = {key: node for key, (_, node) in newest.items()}
    subject = {**context.subject, "kind": context.kind.resource.kind}
    annotations[HOT_UPDATE_ANNOTATION] = hot_update_file(subject) if is_hot(context) else ""
    old = mapping(context.subject, "metadata", "annotations")
    for key, value in annotations.items():
        if text(old, key) != value:
            context.annotations[key] = value


def _name(child: Json) -> str:
    return text(child, "metadata", "name")
