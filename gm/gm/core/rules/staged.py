"""Rule staged: a learning job's pods, stage after stage, round after round.

`stages.py` has the machine; here is what pods make of it. A stage's pod is made when LC says Ready,
with what LC said; its end alone completes nothing, for what it achieved is in the worker's report,
which is waited for. The inference worker is made anew for a deployment, unless it takes newer
models by itself (hot update).
Guarantees: pods of a round that has passed never count; those of the last round stay for their
logs, older ones go.
"""

from typing import Final

from edge_sidecars.sedna_api.core.api_object import Json
from gm.core.engine.conditions import (
    MISSING_REFERENCE,
    READY,
    REPLACED,
    REPLACING,
    instant,
    left,
)
from gm.core.engine.reconcile_context import Draft
from gm.core.references import STAGE_NODES
from gm.core.rules import stages
from gm.core.rules.pods import Phase, failure, finished_at, phase
from gm.core.tree import flag, mapping, number, text
from gm.core.workers.children import Children, deletion, is_leaving, reconcile
from gm.core.workers.manifests import Slot
from gm.core.workers.slots import assembled, child_round, foreign_directories, slots, worker_type
from gm.core.workers.storage import hot_update_file

# Seconds that the report of a pod that has ended may take: LC keeps it while it is cut off, but a
# stage that nobody reports must not hold the job for ever.
RESULT_GRACE: Final = 300.0
# Seconds before an inference pod that has ended is made again: Sedna's queue begins with 10 s.
RESTART_PAUSE: Final = 10.0
HOT_UPDATE_ANNOTATION: Final = "sedna.io/model-hot-update-config"
# Completed > Waiting; Ready > Running; Starting > Completed > Waiting: never more at once.
_MOST_STEPS: Final = 4


def act(draft: Draft) -> None:
    """What follows from the view."""
    draft.status["observedGeneration"] = draft.generation
    draft.status.setdefault("startTime", draft.timestamp)
    children = Children.of(draft.view.children)
    _annotate(draft, children)
    if draft.problems and not _are_overlooked(draft):
        draft.stand(draft.problems)
        return
    for _ in range(_MOST_STEPS):
        before = draft.log.state
        _step(draft, children)
        if draft.log.state is before:
            break
    if not draft.problems:
        _make(draft, children)


def is_hot(draft: Draft) -> bool:
    """Whether the inference worker takes newer models by itself."""
    return flag(draft.subject, "spec", "deploySpec", "model", "hotUpdateEnabled")


def deployed_round(draft: Draft) -> int:
    """The round whose model the inference worker was, or is being, made anew for; 0 at first."""
    is_deploying = stages.stage(draft) == stages.DEPLOY
    if is_deploying and stages.type_(draft) in (READY, stages.STARTING) and not is_hot(draft):
        return stages.round_(draft)
    for one in draft.log.newest():
        if text(one, "reason") in (REPLACING, REPLACED):
            return number(one, "round")
    return 0


def _are_overlooked(draft: Draft) -> bool:
    """What is missing does no harm to a stage that has begun."""
    is_in_flight = stages.type_(draft) in stages.IN_FLIGHT
    return is_in_flight and all(it.reason == MISSING_REFERENCE for it in draft.problems)


def _step(draft: Draft, children: Children) -> None:
    if stages.type_(draft) not in stages.IN_FLIGHT:
        stages.advance(draft)
    elif stages.stage(draft) == stages.DEPLOY:
        _step_deployment(draft, children)
    else:
        _step_stage(draft, children)


def _step_stage(draft: Draft, children: Children) -> None:
    slot = _stage_slot(draft)
    pod = children.get(slot.kind, slot.name) if slot else None
    match phase(pod):
        case Phase.ABSENT:
            return
        case Phase.PENDING:
            if stages.type_(draft) == READY:
                stages.move(draft, stages.STARTING)
        case Phase.RUNNING:
            stages.move(draft, stages.RUNNING)
        case Phase.FAILED:
            stages.fail(draft, "WorkerFailed", failure(pod or {}))
        case Phase.SUCCEEDED:
            stages.move(draft, stages.RUNNING)
            since = finished_at(pod or {}) or instant(draft.log.state)
            grace = left(RESULT_GRACE, since, draft.now)
            if grace:
                draft.again(grace)
            else:
                message = f"pod {slot.name if slot else ''} succeeded, but nobody reported a result"
                stages.fail(draft, "NoResult", f"{message} within {RESULT_GRACE:.0f} s")


def _step_deployment(draft: Draft, children: Children) -> None:
    pods = [children.get(slot.kind, slot.name) for slot in _inference_slots(draft)]
    phases = [phase(pod) for pod in pods]
    if Phase.ABSENT in phases or not phases:
        return
    reason = "" if is_hot(draft) else REPLACING
    if failed := [it for it in pods if it and phase(it) is Phase.FAILED]:
        stages.move(draft, stages.STARTING, reason=reason)
        stages.fail(draft, "WorkerFailed", failure(failed[0]))
    elif Phase.PENDING in phases:
        if stages.type_(draft) == READY:
            stages.move(draft, stages.STARTING, reason=reason)
    elif is_hot(draft):
        stages.move(draft, stages.RUNNING)
    else:
        message = "the inference worker was made anew"
        stages.move(draft, "Completed", reason=REPLACED, message=message)


def _make(draft: Draft, children: Children) -> None:
    """The children that the state asks for."""
    inference = _inference_slots(draft)
    names = {slot.name for slot in inference}
    others = [it for it in _inference_pods(draft, children) if _name(it) not in names]
    # Two inference workers on one host network would want the same ports, and the same devices.
    wanted = [] if others else [(slot, dict[str, object]()) for slot in inference]
    slot = _stage_slot(draft) if stages.type_(draft) in stages.IN_FLIGHT else None
    if slot is not None and not phase(pod := children.get(slot.kind, slot.name)).is_finished:
        input_ = stages.input_of(draft)
        foreign = [] if pod else foreign_directories(draft, slot, input_)
        if foreign:
            stages.fail(draft, "ForeignPath", _told(foreign))
        else:
            wanted.append((slot, input_))
    made = assembled(draft, wanted)
    there = reconcile(draft, made, unwanted=[*others, *_passed(draft, children)])
    if wanted and stages.type_(draft) == READY and not _missing(draft, there):
        is_anew = stages.stage(draft) == stages.DEPLOY and not is_hot(draft)
        stages.move(draft, stages.STARTING, reason=REPLACING if is_anew else "")
    _restart_inference(draft, [it for it in _inference_pods(draft, children) if it not in others])


def _told(foreign: list[str]) -> str:
    return (
        f"LC wants {', '.join(foreign)[:200]} of the node for the worker: only what lies in "
        "spec.outputDir, or beside the job's Dataset and Models, is given"
    )


def _missing(draft: Draft, there: list[Json]) -> bool:
    """Whether a pod that works for the present stage is not made yet."""
    names = {_name(it) for it in there}
    slot = _stage_slot(draft)
    return any(it.name not in names for it in ([slot] if slot else _inference_slots(draft)))


def _restart_inference(draft: Draft, pods: list[Json]) -> None:
    for pod in pods:
        if not phase(pod).is_finished:
            continue
        pause = left(RESTART_PAUSE, finished_at(pod), draft.now)
        if pause:
            draft.again(pause)
        elif (action := deletion(pod)) not in draft.actions:
            draft.actions.append(action)


def _passed(draft: Draft, children: Children) -> list[Json]:
    """Pods of stages of earlier rounds: all that still run, and those before the last round."""
    now = stages.round_(draft)
    found = [
        it
        for it in children.of_kind("Pod")
        if worker_type(draft.kind, it) != _inference_type(draft) and 0 <= child_round(it) < now
    ]
    return [it for it in found if not phase(it).is_finished or child_round(it) < now - 1]


def _stage_slot(draft: Draft) -> Slot | None:
    """The worker of the present stage; of Deploy it is the inference worker."""
    for worker in draft.kind.workers:
        if worker.stage == stages.stage(draft) != stages.DEPLOY:
            return slots(draft.kind, draft.subject, worker, round_=stages.round_(draft))[0]
    return None


def _inference_slots(draft: Draft) -> list[Slot]:
    deployed = deployed_round(draft)
    return [
        slot
        for worker in draft.kind.workers
        if worker.stage == stages.DEPLOY and (worker.is_initial or deployed)
        for slot in slots(draft.kind, draft.subject, worker, round_=deployed)
    ]


def _inference_type(draft: Draft) -> str:
    return next(it.label for it in draft.kind.workers if it.stage == stages.DEPLOY)


def _inference_pods(draft: Draft, children: Children) -> list[Json]:
    inference = _inference_type(draft)
    return [it for it in children.of_kind("Pod") if worker_type(draft.kind, it) == inference]


def _annotate(draft: Draft, children: Children) -> None:
    """Where each stage's newest pod is, so that the LC of that node is told of the job."""
    types = {it.label: f"sedna.io/{it.stage}" for it in draft.kind.workers}
    newest: dict[str, tuple[int, str]] = {}
    for pod in children.of_kind("Pod"):
        key, node = types.get(worker_type(draft.kind, pod)), text(pod, "spec", "nodeName")
        if key in STAGE_NODES and node and not is_leaving(pod):
            newest[key] = max(newest.get(key, (-1, "")), (child_round(pod), node))
    told = {key: node for key, (_, node) in newest.items()}
    subject = {**draft.subject, "kind": draft.kind.resource.kind}
    told[HOT_UPDATE_ANNOTATION] = hot_update_file(subject) if is_hot(draft) else ""
    old = mapping(draft.subject, "metadata", "annotations")
    for key, value in told.items():
        if text(old, key) != value:
            draft.annotations[key] = value


def _name(child: Json) -> str:
    return text(child, "metadata", "name")
