"""Between the version in which an object is kept and the one in which it is asked for.

Of custom resources only the apiVersion differs (conversion strategy None) and what the version's
schema knows; a built-in one may have its own way (`Resource.convert`).
"""

from edge_sidecars.local_apiserver.core.api_resource import Resource
from edge_sidecars.local_apiserver.core.unstructured import Object


def served(obj: Object, resource: Resource) -> Object:
    """A stored object as the resource's version shows it. The given one is used up."""
    if resource.name == resource.storage:
        return obj
    if resource.convert is not None:
        obj = resource.convert(obj)
    obj["apiVersion"] = resource.name.api_version
    return obj


def stored(obj: Object, resource: Resource) -> Object:
    """An object of the resource's version as it is stored. The given one is used up."""
    if resource.name == resource.storage:
        return obj
    if resource.revert is not None:
        obj = resource.revert(obj)
    obj["apiVersion"] = resource.storage.api_version
    return obj
