"""What is known about one object at one moment: all that a plan depends on.

Guarantees: a view is only read; two that are equal, at the same `now`, decide the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from edge_sidecars.sedna_api.core.api_object import Json, ObjectKey
from edge_sidecars.sedna_api.core.stored_report import StoredReport

_NO_REPORTS: Mapping[str, tuple[StoredReport, ...]] = MappingProxyType({})
_NO_REFERENCES: Mapping[ObjectKey, Json | None] = MappingProxyType({})

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
    None: does not exist; Secrets and Nodes as metadata. `concerned`: nodes that it concerns because
    of other objects (a Model: the nodes of the jobs that name it).
    """

    object: Json
    children: tuple[Json, ...] = ()
    pending: Mapping[str, tuple[StoredReport, ...]] = field(default_factory=lambda: _NO_REPORTS)
    references: Mapping[ObjectKey, Json | None] = field(default_factory=lambda: _NO_REFERENCES)
    refusals: tuple[ChildRefusal, ...] = ()
    concerned: frozenset[str] = frozenset()
