"""CustomResourceDefinitions: which are good, and which resources they make."""

from relay_sidecar.core.resource_name import ResourceName
from relay_sidecar.origin.core.catalog import Catalog
from relay_sidecar.origin.core.tree import Object

DEFINITIONS = ResourceName("apiextensions.k8s.io", "v1", "customresourcedefinitions")


def accept(obj: Object, catalog: Catalog, *, now: str) -> None:
    return None


def with_finalizer(obj: Object) -> Object:
    return obj
