"""Rule service: workers that are to be available.

    Pending <--not all available-- Running
       └------all available------> Running        a Deployment that gave up --> Failed

Guarantees: the state is what Deployments and pods say now (desired against available replicas), so
that nothing is final: a service that failed and came back is Running. A child that was deleted is
made again, one whose pod ended begins anew.
"""

from enum import Enum
from typing import Final

from edge_sidecars.sedna_api.core.api_object import Json
from gm.core.engine.conditions import MISSING_REFERENCE, left
from gm.core.engine.reconcile_context import Draft
from gm.core.kind import Workload
from gm.core.rules.pods import Phase, failure, finished_at, is_ready, phase
from gm.core.tree import number, objects, text
from gm.core.workers.children import Children, deletion, is_leaving, reconcile
from gm.core.workers.manifests import Slot
from gm.core.workers.slots import assembled, every_slot

# Seconds before a pod that has ended is made again: Sedna's queue begins with 10 s.
RESTART_PAUSE: Final = 10.0


class _State(Enum):
    WAITING = "waits"
    AVAILABLE = "is available"
    FAILED = "failed"


def act(draft: Draft) -> None:
    """What follows from the view."""
    slots = every_slot(draft.kind, draft.subject)
    children = Children.of(draft.view.children)
    draft.status["observedGeneration"] = draft.generation
    draft.status.setdefault("startTime", draft.timestamp)
    is_made = all(children.get(slot.kind, slot.name) for slot in slots)
    is_overlooked = is_made and all(it.reason == MISSING_REFERENCE for it in draft.problems)
    if draft.problems and not is_overlooked:
        draft.stand(draft.problems)
    elif not draft.problems:
        _make(draft, assembled(draft, [(slot, {}) for slot in slots]), children)
    _tell(draft, slots, children)


def _make(draft: Draft, wanted: list[Json], children: Children) -> None:
    names = {(text(it, "kind"), text(it, "metadata", "name")) for it in wanted}
    unwanted = [it for key, it in sorted(children.by_name.items()) if key not in names]
    ended = [it for it in children.of_kind("Pod") if phase(it).is_finished and it not in unwanted]
    reconcile(draft, wanted, unwanted=unwanted)
    for pod in ended:
        pause = left(RESTART_PAUSE, finished_at(pod), draft.now)
        if pause:
            draft.again(pause)
        elif (action := deletion(pod)) not in draft.actions:
            draft.actions.append(action)


def _tell(draft: Draft, slots: list[Slot], children: Children) -> None:
    states = [(slot, *_state(slot, children.get(slot.kind, slot.name))) for slot in slots]
    found = [state for _, state, _ in states]
    draft.status["active"] = found.count(_State.AVAILABLE)
    draft.status["failed"] = found.count(_State.FAILED)
    was = text(draft.log.state, "type")
    if _State.FAILED in found:
        message = "; ".join(why for _, state, why in states if state is _State.FAILED)
        if draft.log.append("Failed", reason="WorkerFailed", message=message):
            draft.note("WorkerFailed", message, is_warning=True)
    elif _State.WAITING in found:
        waiting = ", ".join(slot.name for slot, state, _ in states if state is _State.WAITING)
        message = f"not available: {waiting}"
        is_news = draft.log.append("Pending", reason="WorkersUnavailable", message=message)
        if is_news and was == "Running":
            draft.note("WorkersUnavailable", message, is_warning=True)
    elif draft.log.append("Running", reason="WorkersAvailable"):
        draft.note("WorkersAvailable", f"All {len(slots)} workers are available")


def _state(slot: Slot, child: Json | None) -> tuple[_State, str]:
    if child is None or is_leaving(child):
        return _State.WAITING, ""
    if slot.worker.workload is Workload.POD:
        state = phase(child)
        if state is Phase.FAILED:
            return _State.FAILED, failure(child)
        is_there = state is Phase.RUNNING and is_ready(child)
        return (_State.AVAILABLE if is_there else _State.WAITING), ""
    return _deployment_state(child)


def _deployment_state(child: Json) -> tuple[_State, str]:
    name = text(child, "metadata", "name")
    if number(child, "status", "observedGeneration") < number(child, "metadata", "generation"):
        return _State.WAITING, ""
    wanted = number(child, "spec", "replicas", default=1)
    if number(child, "status", "availableReplicas") >= wanted:
        return _State.AVAILABLE, ""
    for one in objects(child, "status", "conditions"):
        said = (text(one, "type"), text(one, "status"))
        if said in (("Progressing", "False"), ("ReplicaFailure", "True")):
            return (
                _State.FAILED,
                f"Deployment {name}: {text(one, 'reason')}: {text(one, 'message')}",
            )
    return _State.WAITING, ""
