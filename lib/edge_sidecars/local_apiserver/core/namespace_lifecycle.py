"""Namespaces as a condition of what is in them, and their end.

Source: apiserver pkg/admission/plugin/namespace/lifecycle, pkg/registry/core/namespace/storage.
"""

from http import HTTPStatus

from edge_sidecars.apimachinery.status import Refused, Status
from edge_sidecars.local_apiserver.core import api_errors, server_metadata
from edge_sidecars.local_apiserver.core.api_resource import Resource
from edge_sidecars.local_apiserver.core.builtin.cluster import (
    CONTENTS_FINALIZER,
    IMMORTAL_NAMESPACES,
    NAME_LABEL,
)
from edge_sidecars.local_apiserver.core.deletion import DeleteOptions, Marked, check_preconditions
from edge_sidecars.local_apiserver.core.unstructured import (
    Object,
    copied_object,
    mapping,
    strings,
    text,
    texts,
)


def check_admits(namespace: Object | None, resource: Resource, *, name: str, of: str) -> None:
    """Whether an object may be created in the namespace called `of`. Raises Refused."""
    if namespace is None:
        raise api_errors.missing("", "namespaces", of)
    if text(namespace, "metadata", "deletionTimestamp"):
        raise api_errors.terminating(resource.name.group, resource.name.plural, name, of)


def delete(resource: Resource, current: Object, options: DeleteOptions, *, now: str) -> Marked:
    """A namespace is never gone at once: its contents go first. Raises Refused."""
    name = text(current, "metadata", "name")
    if name in IMMORTAL_NAMESPACES:
        raise Refused(
            Status(
                code=HTTPStatus.FORBIDDEN,
                reason="Forbidden",
                message=f'namespaces "{name}" is forbidden: this namespace may not be deleted',
                kind="namespaces",
                name=name,
            )
        )
    check_preconditions(resource, current, options)
    obj = copied_object(current)
    meta = server_metadata.of(obj)
    if not text(meta, "deletionTimestamp"):
        meta["deletionTimestamp"] = now
        obj["metadata"] = server_metadata.in_order(meta)
        obj["status"] = {**mapping(obj, "status"), "phase": "Terminating"}
    return Marked(obj)


def emptied(current: Object) -> Object:
    """The namespace after its contents are gone: nothing of the server's own holds it."""
    obj = copied_object(current)
    left = [one for one in texts(obj, "spec", "finalizers") if one != CONTENTS_FINALIZER]
    obj["spec"] = {"finalizers": strings(left)} if left else {}
    return obj


def begun(name: str) -> Object:
    """A namespace that the server makes for itself."""
    return {"metadata": {"name": name, "labels": {NAME_LABEL: name}}}
