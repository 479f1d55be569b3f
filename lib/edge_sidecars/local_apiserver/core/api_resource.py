"""One resource of one version, as it is served; and what is special about a kind.

Owns the shape of that knowledge. Built-in resources are listed in `builtin`, those of CRDs are
read in `definition`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from edge_sidecars.apimachinery.resource_name import ResourceName
from edge_sidecars.local_apiserver.core.names import dns_subdomain
from edge_sidecars.local_apiserver.core.schema.field_errors import FieldError
from edge_sidecars.local_apiserver.core.schema.schema import Schema
from edge_sidecars.local_apiserver.core.server_metadata import NameRule
from edge_sidecars.local_apiserver.core.unstructured import Object


def _nothing(obj: Object) -> None:
    """For kinds without defaults."""


def _no_unknown(obj: Object) -> list[str]:
    """For kinds whose type says all."""
    return []


def _no_preparation(obj: Object, current: Object) -> None:
    """For kinds whose updates need none."""


def _no_faults(obj: Object) -> Sequence[FieldError]:
    """For kinds about which the schema says all."""
    return ()


def _no_update_faults(obj: Object, current: Object) -> Sequence[FieldError]:
    """For kinds of which every field may change."""
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """What a kind does on top of its schema; Kubernetes' word (pkg/registry/*/strategy.go).

    `read_more` drops what the type could not know to be unknown, and returns the paths of that;
    it, `default` and `prepare_*` change the object in place.
    """

    name_rule: NameRule = dns_subdomain
    demands_standard_finalizers: bool = True
    counts_generation: bool = False
    counts_annotations: bool = False
    allows_unconditional_update: bool = True
    allows_create_on_update: bool = False
    is_deleted_gracefully: bool = False
    returns_deleted: bool = False
    keeps_first_status: bool = False
    orphans_by_default: bool = False
    read_more: Callable[[Object], list[str]] = _no_unknown
    default: Callable[[Object], None] = _nothing
    prepare_create: Callable[[Object], None] = _nothing
    prepare_update: Callable[[Object, Object], None] = _no_preparation
    prepare_status: Callable[[Object, Object], None] = _no_preparation
    check: Callable[[Object], Sequence[FieldError]] = _no_faults
    check_update: Callable[[Object, Object], Sequence[FieldError]] = _no_update_faults


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Resource:
    """`storage` names the version in which the objects are kept; it equals `name` for most.

    `convert` turns a stored object into this version's form, `revert` back; None where only the
    apiVersion differs. `type_name` is a built-in one's in OpenAPI, `raw_schema` a custom one's
    there, as JSON text: its tree is ten times as large. `is_ending`: nothing new may be created.
    `selectable` are the fields of field selectors beyond metadata's, which are JSON paths without
    the leading dot.
    """

    name: ResourceName
    storage: ResourceName
    kind: str
    list_kind: str
    singular: str
    is_namespaced: bool
    schema: Schema
    type_name: str = ""
    raw_schema: bytes = b"{}"
    is_custom: bool = False
    is_served: bool = True
    is_ending: bool = False
    has_status: bool = False
    short_names: Sequence[str] = ()
    categories: Sequence[str] = ()
    selectable: Sequence[str] = ()
    strategy: Strategy = field(default_factory=Strategy)
    convert: Callable[[Object], Object] | None = None
    revert: Callable[[Object], Object] | None = None

    @property
    def group_kind(self) -> tuple[str, str]:
        return self.name.group, self.kind
