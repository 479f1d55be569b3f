"""What is known about one object at one moment, and the plan that follows from it.

Owns the words only: the view is all that a plan depends on, and is only read; two that are equal,
at the same `now`, decide the same. The plan has the commands that the engine hands to the shell,
which performs `actions` in order, then Events, labels and annotations, and writes `status` last,
only if every action succeeded, with the resourceVersion that the plan was read at. So a status
never tells of a child that could not be made, and a plan that was performed by half is simply
decided again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from edge_sidecars.sedna_api.core.api_object import Json, ObjectKey
from edge_sidecars.sedna_api.core.stored_report import StoredReport

# Kinds of ObjectKey beside Sedna's own.
SECRET = "secret"
NODE = "node"


@dataclass(frozen=True, slots=True)
class ChildRefusal:
    """The API server refused a child as it was asked for (400, 403, 422), with this message.

    The shell keeps it beside the object's key until the retry that `again_in` of the plan asks for.
    A refusal of another spec hash than the one wanted now has no effect.
    """

    kind: str
    name: str
    spec_hash: str
    message: str


@dataclass(frozen=True, slots=True)
class ObjectView:
    """`children`: pods, Deployments, Services and HorizontalPodAutoscalers whose controller the
    object is (by uid), each with its `kind`. `pending`: by node, what NodeReports say of it, in
    order; what was applied already is ignored. `references`: at least what `references()` asks for;
    None: does not exist; Secrets and Nodes as metadata. `awaited`: of those that are None, the ones
    that may be there in a moment, each with the seconds until that is known. `concerned`: nodes
    that it concerns because of other objects (a Model: the nodes of the jobs that name it).
    """

    object: Json
    children: tuple[Json, ...] = ()
    pending: Mapping[str, tuple[StoredReport, ...]] = field(default_factory=dict)
    references: Mapping[ObjectKey, Json | None] = field(default_factory=dict)
    awaited: Mapping[ObjectKey, float] = field(default_factory=dict)
    refusals: tuple[ChildRefusal, ...] = ()
    concerned: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class CreateChild:
    """Make a child. AlreadyExists is success only if the other one `stands_for` this one."""

    manifest: Json


@dataclass(frozen=True, slots=True)
class DeleteChild:
    """Remove one child, with uid and resourceVersion as preconditions."""

    kind: str
    namespace: str
    name: str
    uid: str
    resource_version: str


@dataclass(frozen=True, slots=True)
class ReplaceChild:
    """Put the manifest in the place of a child; it carries that child's uid and resourceVersion."""

    manifest: Json


@dataclass(frozen=True, slots=True)
class PatchModelStatus:
    """Merge `metrics` ([{key, value}]) and `update_time` (RFC 3339) into a Model's status."""

    key: ObjectKey
    metrics: tuple[Mapping[str, str], ...]
    update_time: str


Action: TypeAlias = CreateChild | DeleteChild | ReplaceChild | PatchModelStatus


@dataclass(frozen=True, slots=True)
class EventNote:
    """An Event about the object: CamelCase reason, one sentence."""

    reason: str
    message: str
    is_warning: bool = False


@dataclass(frozen=True, slots=True)
class ReportWithoutEffect:
    """A report that was read and has no effect, for ever: which node's, and why."""

    node: str
    report: StoredReport
    reason: str


@dataclass(frozen=True, slots=True)
class ReconcilePlan:
    """What to do now; the same ObjectView at the same time gives the same.

    `status` None: leave it. `labels`: all `sedna.io/node.*` labels that the object is to have;
    others of that prefix are to go. `annotations`: to be set; an empty value removes. `again_in`:
    seconds after which to decide again though nothing else changes. `folded` reports took effect,
    `refused` had none; both are among `appliedReports` of the status. `waits_for`: why further
    reports have to wait, "" if none does.
    """

    status: Json | None = None
    actions: tuple[Action, ...] = ()
    events: tuple[EventNote, ...] = ()
    labels: frozenset[str] = frozenset()
    annotations: Mapping[str, str] = field(default_factory=dict)
    again_in: float | None = None
    folded: int = 0
    refused: tuple[ReportWithoutEffect, ...] = ()
    waits_for: str = ""
