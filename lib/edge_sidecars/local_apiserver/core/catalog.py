"""Which resources are served at present: the built-in ones, and those of established CRDs."""

from collections.abc import Iterable, Iterator, Sequence

from edge_sidecars.apimachinery.resource_name import ResourceName
from edge_sidecars.local_apiserver.core.api_resource import Resource


class Catalog:
    """Changes only through `serve` and `withdraw`."""

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
