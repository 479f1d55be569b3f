"""Rule job: pods that end.

    Pending --all pods there--> Running --all succeeded--> Succeeded
                                   └----any failed-------> Failed
    Succeeded, Failed --the spec was edited--> Pending, with pods of the new generation

Guarantees: a finished job stays finished, if its pods are deleted and whatever is reported late;
only an edit of its spec begins it anew, and then with new pods only, for each says of which
generation it is. An unfinished job whose pod was deleted gets it back.
"""

from collections.abc import Sequence

from edge_sidecars.sedna_api.core.api_object import Json
from gm.core.engine.reconcile_context import ReconcileContext
from gm.core.rules.pods import PodPhase, failure, phase
from gm.core.tree import number, text
from gm.core.workers.children import Children, deletion, reconcile
from gm.core.workers.manifests import Slot
from gm.core.workers.slots import assembled, every_slot, worker_type

# Phases (FLJobPhase and others in Sedna's API).
PENDING, RUNNING, SUCCEEDED, FAILED = "Pending", "Running", "Succeeded", "Failed"


def is_finished(context: ReconcileContext) -> bool:
    """Whether its phase says so."""
    return text(context.status, "phase") in (SUCCEEDED, FAILED)


def is_edited(context: ReconcileContext) -> bool:
    """Since its pods were made; one of Sedna's, which never reports, is not."""
    observed = number(context.status, "observedGeneration")
    return 0 < observed < context.generation


def act(context: ReconcileContext) -> None:
    """What follows from the view."""
    if is_finished(context) and not is_edited(context):
        context.status.setdefault("observedGeneration", context.generation)
        _end_what_runs(context)
        return
    slots = every_slot(context.kind, context.subject)
    children = Children.of(context.view.children)
    is_made = all(children.get(slot.kind, slot.name) for slot in slots)
    if is_finished(context):
        _begin_anew(context)
    elif context.problems and is_made and context.lacks_references_only:
        _count(
            context, [it for slot in slots if (it := children.get("Pod", slot.name))], slots_=slots
        )
        return
    context.status["observedGeneration"] = context.generation
    context.status.setdefault("startTime", context.timestamp)
    if context.problems:
        context.stand(context.problems)
        context.status.setdefault("phase", PENDING)
        return
    wanted = assembled(context, [(slot, {}) for slot in slots])
    names = {text(it, "metadata", "name") for it in wanted}
    unwanted = [
        it
        for it in children.of_kind("Pod")
        if worker_type(context.kind, it) and text(it, "metadata", "name") not in names
    ]
    there = reconcile(context, wanted, unwanted=unwanted)
    _count(context, [it for it in there if text(it, "kind") == "Pod"], slots_=slots)


def _count(context: ReconcileContext, pods: list[Json], *, slots_: Sequence[Slot]) -> None:
    phases = [phase(it) for it in pods]
    succeeded, failed = phases.count(PodPhase.SUCCEEDED), phases.count(PodPhase.FAILED)
    active = phases.count(PodPhase.PENDING) + phases.count(PodPhase.RUNNING)
    context.status |= {"active": active, "succeeded": succeeded, "failed": failed}
    words = context.kind.words
    if failed:
        message = "; ".join(failure(it) for it in pods if phase(it) is PodPhase.FAILED)
        _finish(context, FAILED, "Failed", reason="WorkerFailed", message=message)
    elif succeeded == len(slots_):
        context.status["completionTime"] = context.timestamp
        _finish(context, SUCCEEDED, words.completed, reason="WorkersSucceeded", message="")
    elif active + succeeded < len(slots_):
        context.status.setdefault("phase", PENDING)
    else:
        context.status["phase"] = RUNNING
        is_running = PodPhase.PENDING not in phases
        type_ = words.running if is_running else words.started
        if context.log.is_repaired and not context.log.state:
            type_ = type_ or words.running
        was = text(context.log.state, "type")
        if type_ and was not in (words.running, type_):
            context.log.append(type_, reason="WorkersRunning" if is_running else "WorkersStarting")
            if is_running:
                context.note("WorkersRunning", f"All {len(slots_)} workers run")


def _finish(
    context: ReconcileContext, phase_: str, type_: str, *, reason: str, message: str
) -> None:
    context.status["phase"] = phase_
    if context.log.append(type_, reason=reason, message=message):
        note = message or f"{context.kind.resource.kind} completed"
        context.note(type_, note, is_warning=phase_ == FAILED)


def _begin_anew(context: ReconcileContext) -> None:
    context.status["phase"] = PENDING
    context.status.pop("completionTime", None)
    context.status["startTime"] = context.timestamp
    context.status |= {"active": 0, "succeeded": 0, "failed": 0}
    context.note("Restarted", "The spec was edited after the job had finished: it begins anew")


def _end_what_runs(context: ReconcileContext) -> None:
    """As batch/v1's Job: what is left of a failed one would wait for ever."""
    if text(context.status, "phase") == FAILED:
        left = [it for it in context.view.children if text(it, "kind") == "Pod"]
        context.actions += [
            deletion(it) for it in left if phase(it) in (PodPhase.PENDING, PodPhase.RUNNING)
        ]
