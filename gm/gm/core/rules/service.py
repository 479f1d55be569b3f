"""Rule service: workers that are to be available.

    Pending <--not all available-- Running
       └------all available------> Running        a Deployment that gave up --> Failed

Guarantees: the state is what Deployments and pods say now (desired against available replicas), so
that nothing is final: a service that failed and came back is Running. A child that was deleted is
made again, one whose pod ended begins anew.
"""

from enum import Enum

from edge_sidecars.sedna_api.core.api_object import Json
from gm.core.engine.reconcile_context import ReconcileContext
from gm.core.kind import Workload
from gm.core.rules.pods import PodPhase, failure, is_ready, phase, restart
from gm.core.tree import number, objects, text
from gm.core.workers.children import Children, is_leaving, reconcile
from gm.core.workers.manifests import Slot
from gm.core.workers.slots import assembled, every_slot


class _State(Enum):
    WAITING = "waits"
    AVAILABLE = "is available"
    FAILED = "failed"


def act(context: ReconcileContext) -> None:
    """What follows from the view."""
    slots = every_slot(context.kind, context.subject)
    children = Children.of(context.view.children)
    context.status["observedGeneration"] = context.generation
    context.status.setdefault("startTime", context.timestamp)
    is_made = all(children.get(slot.kind, slot.name) for slot in slots)
    if context.problems and not (is_made and context.lacks_references_only):
        context.stand(context.problems)
    elif not context.problems:
        _make(context, assembled(context, [(slot, {}) for slot in slots]), children)
    _tell(context, slots, children)


def _make(context: ReconcileContext, wanted: list[Json], children: Children) -> None:
    names = {(text(it, "kind"), text(it, "metadata", "name")) for it in wanted}
    unwanted = [it for key, it in sorted(children.by_name.items()) if key not in names]
    ended = [it for it in children.of_kind("Pod") if phase(it).is_finished and it not in unwanted]
    reconcile(context, wanted, unwanted=unwanted)
    restart(context, ended)


def _tell(context: ReconcileContext, slots: list[Slot], children: Children) -> None:
    states = [(slot, *_state(slot, children.get(slot.kind, slot.name))) for slot in slots]
    found = [state for _, state, _ in states]
    context.status["active"] = found.count(_State.AVAILABLE)
    context.status["failed"] = found.count(_State.FAILED)
    was = text(context.log.state, "type")
    if _State.FAILED in found:
        message = "; ".join(why for _, state, why in states if state is _State.FAILED)
        if context.log.append("Failed", reason="WorkerFailed", message=message):
            context.note("WorkerFailed", message, is_warning=True)
    elif _State.WAITING in found:
        waiting = ", ".join(slot.name for slot, state, _ in states if state is _State.WAITING)
        message = f"not available: {waiting}"
        is_news = context.log.append("Pending", reason="WorkersUnavailable", message=message)
        if is_news and was == "Running":
            context.note("WorkersUnavailable", message, is_warning=True)
    elif context.log.append("Running", reason="WorkersAvailable"):
        context.note("WorkersAvailable", f"All {len(slots)} workers are available")


def _state(slot: Slot, child: Json | None) -> tuple[_State, str]:
    if child is None or is_leaving(child):
        return _State.WAITING, ""
    if slot.worker.workload is Workload.POD:
        state = phase(child)
        if state is PodPhase.FAILED:
            return _State.FAILED, failure(child)
        is_there = state is PodPhase.RUNNING and is_ready(child)
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
        condition = (text(one, "type"), text(one, "status"))
        if condition in (("Progressing", "False"), ("ReplicaFailure", "True")):
            return (
                _State.FAILED,
                f"Deployment {name}: {text(one, 'reason')}: {text(one, 'message')}",
            )
    return _State.WAITING, ""
