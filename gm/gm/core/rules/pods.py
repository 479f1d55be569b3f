"""The state of a pod, and its restart once it has ended."""

from collections.abc import Iterable
from datetime import datetime
from enum import Enum
from typing import Final

from edge_sidecars.sedna_api.core.api_object import Json
from gm.core.engine.conditions import instant, left
from gm.core.engine.reconcile_context import ReconcileContext
from gm.core.tree import mapping, number, objects, text
from gm.core.workers.children import deletion, is_leaving

_LONGEST: Final = 200
# Seconds before a pod that has ended is made again: Sedna's queue begins with 10 s.
RESTART_PAUSE: Final = 10.0


class PodPhase(Enum):
    """PodPhase (core/v1), and for one that is missing or on its way out."""

    ABSENT = ""
    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"

    @property
    def is_finished(self) -> bool:
        return self in (PodPhase.SUCCEEDED, PodPhase.FAILED)


def phase(pod: Json | None) -> PodPhase:
    """One of unknown phase, whose node does not answer, is as one that waits."""
    if pod is None or is_leaving(pod):
        return PodPhase.ABSENT
    phase = text(pod, "status", "phase")
    return PodPhase(phase) if phase in _KNOWN else PodPhase.PENDING


_KNOWN: Final = frozenset(one.value for one in PodPhase if one is not PodPhase.ABSENT)


def is_ready(pod: Json) -> bool:
    """Its condition Ready."""
    return any(
        text(it, "type") == "Ready" and text(it, "status") == "True"
        for it in objects(pod, "status", "conditions")
    )


def finished_at(pod: Json) -> datetime | None:
    """When the last of its containers ended; None where it does not say."""
    ends = [
        end
        for it in objects(pod, "status", "containerStatuses")
        if (end := instant(mapping(it, "state", "terminated"), "finishedAt"))
    ]
    return max(ends, default=None)


def failure(pod: Json) -> str:
    """Why it failed, as far as it says."""
    name = text(pod, "metadata", "name")
    reasons = [text(pod, "status", "reason"), text(pod, "status", "message")]
    for one in objects(pod, "status", "containerStatuses"):
        ended = mapping(one, "state", "terminated")
        code = number(ended, "exitCode")
        if code:
            word = text(ended, "reason") or "Error"
            reasons.append(f"container {text(one, 'name')}: {word}, exit code {code}")
    why = "; ".join(filter(None, reasons))[:_LONGEST]
    return f"pod {name} failed: {why}" if why else f"pod {name} failed"


def restart(context: ReconcileContext, pods: Iterable[Json]) -> None:
    """Those that have ended, each after a pause: deleted, so that they are made again."""
    for pod in pods:
        if not phase(pod).is_finished:
            continue
        if pause := left(RESTART_PAUSE, finished_at(pod), context.now):
            context.again(pause)
        elif (action := deletion(pod)) not in context.actions:
            context.actions.append(action)
