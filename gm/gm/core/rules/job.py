"""Rule job: pods that end.

    Pending --all pods there--> Running --all succeeded--> Succeeded
                                   └----any failed-------> Failed
    Succeeded, Failed --the spec was edited--> Pending, with pods of the new generation

Guarantees: a finished job stays finished, whoever deletes its pods and whatever is reported late;
only an edit of its spec begins it anew, and then with new pods only, for each says of which
generation it is. An unfinished job whose pod was deleted gets it back.
"""

from collections.abc import Sequence

from edge_sidecars.sedna_api.core.api_object import Json
from gm.core.engine.conditions import MISSING_REFERENCE
from gm.core.engine.reconcile_context import Draft
from gm.core.rules.pods import Phase, failure, phase
from gm.core.tree import number, text
from gm.core.workers.children import Children, deletion, reconcile
from gm.core.workers.manifests import Slot
from gm.core.workers.slots import assembled, every_slot, worker_type

# Phases (FLJobPhase and others in Sedna's API).
PENDING, RUNNING, SUCCEEDED, FAILED = "Pending", "Running", "Succeeded", "Failed"


def is_finished(draft: Draft) -> bool:
    """Whether its phase says so."""
    return text(draft.status, "phase") in (SUCCEEDED, FAILED)


def is_edited(draft: Draft) -> bool:
    """Since its pods were made; one of Sedna's, which never said, is not."""
    observed = number(draft.status, "observedGeneration")
    return 0 < observed < draft.generation


def act(draft: Draft) -> None:
    """What follows from the view."""
    if is_finished(draft) and not is_edited(draft):
        draft.status.setdefault("observedGeneration", draft.generation)
        _end_what_runs(draft)
        return
    slots = every_slot(draft.kind, draft.subject)
    children = Children.of(draft.view.children)
    is_made = all(children.get(slot.kind, slot.name) for slot in slots)
    if is_finished(draft):
        _begin_anew(draft)
    elif draft.problems and _are_overlooked(draft, is_made=is_made):
        _count(
            draft, [it for slot in slots if (it := children.get("Pod", slot.name))], slots_=slots
        )
        return
    draft.status["observedGeneration"] = draft.generation
    draft.status.setdefault("startTime", draft.timestamp)
    if draft.problems:
        draft.stand(draft.problems)
        draft.status.setdefault("phase", PENDING)
        return
    wanted = assembled(draft, [(slot, {}) for slot in slots])
    names = {text(it, "metadata", "name") for it in wanted}
    unwanted = [
        it
        for it in children.of_kind("Pod")
        if worker_type(draft.kind, it) and text(it, "metadata", "name") not in names
    ]
    there = reconcile(draft, wanted, unwanted=unwanted)
    _count(draft, [it for it in there if text(it, "kind") == "Pod"], slots_=slots)


def _are_overlooked(draft: Draft, *, is_made: bool) -> bool:
    """What is missing does no harm to pods that have begun."""
    return is_made and all(it.reason == MISSING_REFERENCE for it in draft.problems)


def _count(draft: Draft, pods: list[Json], *, slots_: Sequence[Slot]) -> None:
    phases = [phase(it) for it in pods]
    succeeded, failed = phases.count(Phase.SUCCEEDED), phases.count(Phase.FAILED)
    active = phases.count(Phase.PENDING) + phases.count(Phase.RUNNING)
    draft.status |= {"active": active, "succeeded": succeeded, "failed": failed}
    words = draft.kind.words
    if failed:
        message = "; ".join(failure(it) for it in pods if phase(it) is Phase.FAILED)
        _finish(draft, FAILED, "Failed", reason="WorkerFailed", message=message)
    elif succeeded == len(slots_):
        draft.status["completionTime"] = draft.timestamp
        _finish(draft, SUCCEEDED, words.completed, reason="WorkersSucceeded", message="")
    elif active + succeeded < len(slots_):
        draft.status.setdefault("phase", PENDING)
    else:
        draft.status["phase"] = RUNNING
        is_running = Phase.PENDING not in phases
        type_ = words.running if is_running else words.started
        if draft.log.is_repaired and not draft.log.state:
            type_ = type_ or words.running
        was = text(draft.log.state, "type")
        if type_ and was not in (words.running, type_):
            draft.log.append(type_, reason="WorkersRunning" if is_running else "WorkersStarting")
            if is_running:
                draft.note("WorkersRunning", f"All {len(slots_)} workers run")


def _finish(draft: Draft, phase_: str, type_: str, *, reason: str, message: str) -> None:
    draft.status["phase"] = phase_
    if draft.log.append(type_, reason=reason, message=message):
        told = message or f"{draft.kind.resource.kind} completed"
        draft.note(type_, told, is_warning=phase_ == FAILED)


def _begin_anew(draft: Draft) -> None:
    draft.status["phase"] = PENDING
    draft.set_or_drop("completionTime", None)
    draft.status["startTime"] = draft.timestamp
    draft.status |= {"active": 0, "succeeded": 0, "failed": 0}
    draft.note("Restarted", "The spec was edited after the job had finished: it begins anew")


def _end_what_runs(draft: Draft) -> None:
    """As batch/v1's Job: what is left of a failed one would wait for ever."""
    if text(draft.status, "phase") == FAILED:
        left = [it for it in draft.view.children if text(it, "kind") == "Pod"]
        draft.actions += [
            deletion(it) for it in left if phase(it) in (Phase.PENDING, Phase.RUNNING)
        ]
