"""One resource of one version, as it is served; what is special about a kind; the catalog of all.

Owns the shape of that knowledge. Built-in resources are listed in `builtin`, those of CRDs are
read in `crd`. Between two versions of a custom resource only the apiVersion differs (conversion
strategy None) and what the version's schema knows; a built-in one may have its own way.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from edge_sidecars.apimachinery.resources import ResourceName
from tools.local_apiserver.core.names import dns_subdomain
from tools.local_apiserver.core.schema.field_errors import FieldError
from tools.local_apiserver.core.schema.schema import Schema
from tools.local_apiserver.core.server_metadata import NameRule
from tools.local_apiserver.core.unstructured import Object


def _nothing(obj: Object) -> None:
    """For kinds without defaults."""


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

    `default` and `prepare_*` change the object in place.
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

    def served(self, obj: Object) -> Object:
        """A stored object as this version shows it. The given one is used up."""
        return self._converted(obj, self.name, self.convert)

    def stored(self, obj: Object) -> Object:
        """An object of this version as it is stored. The given one is used up."""
        return self._converted(obj, self.storage, self.revert)

    def _converted(
        self, obj: Object, version: ResourceName, change: Callable[[Object], Object] | None
    ) -> Object:
        if self.name == self.storage:
            return obj
        if change is not None:
            obj = change(obj)
        obj["apiVersion"] = version.api_version
        return obj


class Catalog:
    """Which resources are served at present: the built-in ones, and those of established CRDs.

    Changes only through `serve` and `withdraw`.
    """

    def __init__(self, resources: Iterable[Resource]) -> None:
        self._by_name: dict[ResourceName, Resource] = {}
        # By storage, and the group versions: asked at each write.
        self._versions: dict[ResourceName, list[Resource]] = {}
        self._group_versions: set[tuple[str, str]] = set()
        self.serve(resources)

    def __iter__(self) -> Iterator[Resource]:
        return iter(self._by_name.values())

    def get(self, name: ResourceName) -> Resource | None:
        """A resource that is served."""
        found = self._by_name.get(name)
        return found if found is not None and found.is_served else None

    def find(self, name: ResourceName) -> Resource | None:
        """A resource, served or only stored in that version."""
        return self._by_name.get(name)

    def of_kind(self, api_version: str, kind: str) -> Resource | None:
        """The resource of a kind, in the version that is named."""
        for resource in self._by_name.values():
            if (resource.kind, resource.name.api_version) == (kind, api_version):
                return resource
        return None

    def has_version(self, group: str, version: str) -> bool:
        """Whether anything is served in this group version."""
        return (group, version) in self._group_versions

    def stored(self) -> Sequence[Resource]:
        """One resource per storage: the version in which its objects are kept."""
        return [resource for resource in self if resource.name == resource.storage]

    def versions(self, storage: ResourceName) -> Sequence[Resource]:
        """All that are shown from one storage."""
        return self._versions.get(storage, ())

    def serve(self, resources: Iterable[Resource]) -> None:
        self._by_name.update((resource.name, resource) for resource in resources)
        self._index()

    def withdraw(self, group: str, plural: str) -> Sequence[Resource]:
        """Stops serving a custom resource; returns what was served."""
        gone = [
            resource
            for resource in self
            if resource.is_custom and (resource.name.group, resource.name.plural) == (group, plural)
        ]
        for resource in gone:
            del self._by_name[resource.name]
        self._index()
        return gone

    def _index(self) -> None:
        self._versions = {}
        for resource in self:
            self._versions.setdefault(resource.storage, []).append(resource)
        self._group_versions = {
            (resource.name.group, resource.name.version) for resource in self if resource.is_served
        }
