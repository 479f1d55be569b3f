"""A plan while it is being made: what it starts from, and what has come together so far.

Owns the collecting, so that rules only say what follows from what. Guarantees: the view is not
changed; a status that equals the old one is no status; the object's own problems are reported once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from edge_sidecars.runtime.formats import rfc3339
from edge_sidecars.sedna_api.core.api_object import Json
from edge_sidecars.sedna_api.core.capability import WORKER_KEY, key_for, key_of
from gm.core.engine.conditions import MISSING_REFERENCE, Log
from gm.core.engine.plan import (
    Action,
    CreateChild,
    EventNote,
    ObjectView,
    ReconcilePlan,
    ReplaceChild,
    ReportWithoutEffect,
)
from gm.core.kind import Problem, SednaKind, WorkerSettings
from gm.core.tree import copied, mapping, number, text


@dataclass(slots=True)
class ReconcileContext:
    """`problems`: why nothing may be made of the object just now."""

    kind: SednaKind
    view: ObjectView
    now: datetime
    settings: WorkerSettings
    status: Json
    log: Log
    problems: tuple[Problem, ...] = ()
    actions: list[Action] = field(default_factory=list)
    events: list[EventNote] = field(default_factory=list)
    annotations: dict[str, str] = field(default_factory=dict)
    again_in: float | None = None
    folded: int = 0
    refused: list[ReportWithoutEffect] = field(default_factory=list)
    waits_for: str = ""

    @classmethod
    def of(
        cls, kind: SednaKind, view: ObjectView, *, now: datetime, settings: WorkerSettings
    ) -> "ReconcileContext":
        status = copied(mapping(view.object, "status"))
        return cls(kind, view, now, settings, status, Log.of(status, now=now, times=kind.times))

    @property
    def subject(self) -> Json:
        return self.view.object

    @property
    def job(self) -> str:
        return text(self.subject, "metadata", "name")

    @property
    def generation(self) -> int:
        return number(self.subject, "metadata", "generation")

    @property
    def timestamp(self) -> str:
        return rfc3339.stamp(self.now)

    @property
    def worker_key(self) -> str:
        """By which LC knows the object's workers: the one that it has, else a fresh one."""
        if not self.settings.has_capabilities:
            return ""
        metadata = mapping(self.subject, "metadata")
        known = key_of(mapping(metadata, "annotations"), text(metadata, "uid"))
        return known or self.settings.fresh_key

    def keep_worker_key(self) -> None:
        """With the object, where workers are made that have it."""
        makes = any(isinstance(it, CreateChild | ReplaceChild) for it in self.actions)
        key, uid = self.worker_key, text(self.subject, "metadata", "uid")
        annotations = mapping(self.subject, "metadata", "annotations")
        if makes and key and not key_of(annotations, uid):
            self.annotations[WORKER_KEY] = key_for(uid, key)

    @property
    def lacks_references_only(self) -> bool:
        """What is missing does no harm to what has begun."""
        return all(it.reason == MISSING_REFERENCE for it in self.problems)

    def again(self, seconds: float) -> None:
        """Decide again after so long, or earlier if something else asks for it."""
        seconds = max(seconds, 0.0)
        self.again_in = seconds if self.again_in is None else min(self.again_in, seconds)

    def note(self, reason: str, message: str, *, is_warning: bool = False) -> None:
        self.events.append(EventNote(reason, message, is_warning))

    def stand(self, problems: Sequence[Problem]) -> None:
        """These are why nothing is made of the object. Of what may be over in a moment nothing is
        set but what was set already, by an earlier GM perhaps."""
        settled = [it for it in problems if not it.is_awaited or self.log.says(it)]
        if len(settled) < len(problems):
            self.again(min(self.view.awaited.values()))
        if settled and self.log.stand(settled):
            problem = self.log.problem or {}
            self.note(text(problem, "reason"), text(problem, "message"), is_warning=True)

    def plan(self, labels: frozenset[str], annotations: Mapping[str, str]) -> ReconcilePlan:
        conditions = self.log.result()
        if conditions:
            self.status["conditions"] = conditions
        old = mapping(self.subject, "status")
        events = [*self._made(), *self.events]
        return ReconcilePlan(
            status=self.status if self.status != old else None,
            actions=tuple(self.actions),
            events=tuple(events),
            labels=labels,
            annotations=annotations,
            again_in=self.again_in,
            folded=self.folded,
            refused=tuple(self.refused),
            waits_for=self.waits_for,
        )

    def _made(self) -> list[EventNote]:
        """One Event for all that is created, as each costs a write."""
        names = [
            f"{text(it.manifest, 'kind')} {text(it.manifest, 'metadata', 'name')}"
            for it in self.actions
            if isinstance(it, CreateChild)
        ]
        return [EventNote("SuccessfulCreate", f"Created {', '.join(names)}")] if names else []
