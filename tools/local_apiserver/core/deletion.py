"""What a DELETE makes of an object, and when an update is its end.

Source: apiserver pkg/registry/rest/delete.go and pkg/registry/generic/registry/store.go, for pods
pkg/registry/core/pod/strategy.go, for namespaces pkg/admission/plugin/namespace/lifecycle and
pkg/registry/core/namespace/storage.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edge_sidecars.apimachinery.resources import ResourceName
from edge_sidecars.apimachinery.status import Refused, forbidden
from tools.local_apiserver.core import api_errors, server_metadata
from tools.local_apiserver.core.api_resource import Resource
from tools.local_apiserver.core.body.decoding import Undecodable, decode
from tools.local_apiserver.core.builtin.builtin_types import META, builtin_type
from tools.local_apiserver.core.builtin.cluster import (
    CONTENTS_FINALIZER,
    IMMORTAL_NAMESPACES,
)
from tools.local_apiserver.core.schema import field_errors
from tools.local_apiserver.core.unstructured import (
    Json,
    Object,
    copied_object,
    mapping,
    number,
    strings,
    text,
    texts,
)

BACKGROUND, FOREGROUND, ORPHAN = "Background", "Foreground", "Orphan"
NAMESPACES = ResourceName("", "v1", "namespaces")
# core/v1 DefaultTerminationGracePeriodSeconds
_GRACE_SECONDS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOptions:
    """`policy` "" leaves it to the kind."""

    policy: str = ""
    grace_seconds: int | None = None
    uid: str = ""
    resource_version: str = ""
    is_dry_run: bool = False


def read_options(tree: Json, query: Mapping[str, Sequence[str]]) -> DeleteOptions:
    """From a request's body, or, where it has none, its query. Raises Refused."""
    if tree is None:
        return _checked(_from_query(query))
    if not isinstance(tree, dict):
        raise api_errors.bad("the body of a DELETE must be DeleteOptions")
    kind = text(tree, "kind")
    if kind not in ("", "DeleteOptions"):
        version = text(tree, "apiVersion")
        raise api_errors.bad(f'no kind "{kind}" is registered for version "{version}" in scheme')
    try:
        decode(tree, builtin_type(f"{META}.DeleteOptions"))
    except Undecodable as error:
        raise api_errors.bad(str(error)) from error
    return _checked(tree)


def _from_query(query: Mapping[str, Sequence[str]]) -> Object:
    found: Object = {}
    for field in ("propagationPolicy", "gracePeriodSeconds", "orphanDependents"):
        if values := [value for value in query.get(field, ()) if value]:
            found[field] = values[0]
    if grace := text(found, "gracePeriodSeconds"):
        try:
            found["gracePeriodSeconds"] = int(grace)
        except ValueError as error:
            raise api_errors.bad(f'strconv.ParseInt: parsing "{grace}": invalid syntax') from error
    if orphan := text(found, "orphanDependents"):
        found["orphanDependents"] = orphan not in ("false", "0")
    found["dryRun"] = strings(value for value in query.get("dryRun", ()))
    return found


def _checked(tree: Object) -> DeleteOptions:
    """ValidateDeleteOptions"""
    found = []
    policy, orphan = text(tree, "propagationPolicy"), tree.get("orphanDependents")
    if orphan is not None and policy:
        said = "orphanDependents and deletionPropagation cannot be both set"
        found.append(field_errors.invalid("propagationPolicy", policy, said))
    if policy not in ("", FOREGROUND, BACKGROUND, ORPHAN):
        supported = (FOREGROUND, BACKGROUND, ORPHAN, "nil")
        found.append(field_errors.not_supported("propagationPolicy", policy, supported))
    found += dry_run_faults(texts(tree, "dryRun"))
    if found:
        raise api_errors.invalid("meta.k8s.io", "DeleteOptions", "", found)
    if orphan is not None:
        policy = ORPHAN if orphan else BACKGROUND
    return DeleteOptions(
        policy=policy,
        grace_seconds=number(tree, "gracePeriodSeconds"),
        uid=text(tree, "preconditions", "uid"),
        resource_version=text(tree, "preconditions", "resourceVersion"),
        is_dry_run=bool(texts(tree, "dryRun")),
    )


def dry_run_faults(values: Sequence[str]) -> list[field_errors.FieldError]:
    if all(value == "All" for value in values):
        return []
    return [field_errors.not_supported("dryRun", strings(values), ("All",))]


@dataclass(frozen=True, slots=True)
class Removed:
    """The object goes at once; `obj` is what it was."""

    obj: Object


@dataclass(frozen=True, slots=True)
class Marked:
    """The object stays until somebody lets go of it; `obj` is its new state, which may be equal
    to the former one."""

    obj: Object


def check_preconditions(resource: Resource, current: Object, options: DeleteOptions) -> None:
    """Raises Refused."""
    meta = mapping(current, "metadata")
    for asked, field, word, advice in (
        (options.uid, "uid", "UID", "The object might have been deleted and then recreated"),
        (
            options.resource_version,
            "resourceVersion",
            "ResourceVersion",
            "The object might have been modified",
        ),
    ):
        found = text(meta, field)
        if asked and asked != found:
            why = (
                f"the {word} in the precondition ({asked}) does not match the {word} in record "
                f"({found}). {advice}"
            )
            raise api_errors.conflict(resource.name.group, resource.kind, text(meta, "name"), why)


def delete(
    resource: Resource, current: Object, options: DeleteOptions, *, now: str, deadline: str
) -> Removed | Marked:
    """`now` as metav1.Time writes it; `deadline` is that plus `grace(...)`. Raises Refused."""
    check_preconditions(resource, current, options)
    obj = copied_object(current)
    meta = server_metadata.of(obj)
    finalizers = _finalizers(resource, meta, options.policy)
    seconds = grace(resource, current, options)
    pending = number(meta, "deletionGracePeriodSeconds") or 0
    is_marked = bool(text(meta, "deletionTimestamp"))
    left = min(seconds, pending) if is_marked else seconds
    is_over = not finalizers and not left
    if is_over and not resource.strategy.is_deleted_gracefully:
        return Removed(current)
    _set_finalizers(meta, finalizers)
    if not is_marked or seconds < pending:
        meta["deletionTimestamp"] = deadline if seconds else now
        meta["deletionGracePeriodSeconds"] = seconds
    if not is_marked and (generation := number(meta, "generation")):
        meta["generation"] = generation + 1
    obj["metadata"] = server_metadata.in_order(meta)
    return Removed(obj) if is_over else Marked(obj)


def grace(resource: Resource, current: Object, options: DeleteOptions) -> int:
    """Seconds that an object is given to end; only pods that run somewhere have any."""
    if not resource.strategy.is_deleted_gracefully:
        return 0
    if not text(current, "spec", "nodeName"):
        return 0
    if text(current, "status", "phase") in ("Succeeded", "Failed"):
        return 0
    seconds = options.grace_seconds
    if seconds is None:
        found = number(current, "spec", "terminationGracePeriodSeconds")
        seconds = _GRACE_SECONDS if found is None else found
    return 1 if seconds < 0 else seconds


def _finalizers(resource: Resource, meta: Object, policy: str) -> list[str]:
    """store.go: deletionFinalizersForGarbageCollection"""
    present = texts(meta, "finalizers")
    if not policy:
        if resource.strategy.orphans_by_default and server_metadata.FOREGROUND not in present:
            policy = ORPHAN
        else:
            return present
    others = [
        one for one in present if one not in (server_metadata.ORPHAN, server_metadata.FOREGROUND)
    ]
    match policy:
        case "Orphan":
            return [*others, server_metadata.ORPHAN]
        case "Foreground":
            return [*others, server_metadata.FOREGROUND]
        case _:
            return others


def _set_finalizers(meta: Object, finalizers: Sequence[str]) -> None:
    if finalizers:
        meta["finalizers"] = strings(finalizers)
    else:
        meta.pop("finalizers", None)


def is_over(resource: Resource, obj: Object) -> bool:
    """Whether an update lets go of an object that was only waiting for that."""
    meta = mapping(obj, "metadata")
    return bool(
        text(meta, "deletionTimestamp")
        and not texts(meta, "finalizers")
        and not number(meta, "deletionGracePeriodSeconds")
        and not (resource.storage == NAMESPACES and texts(obj, "spec", "finalizers"))
    )


# Namespaces


def delete_namespace(
    resource: Resource, current: Object, options: DeleteOptions, *, now: str
) -> Marked:
    """A namespace is never gone at once: its contents go first. Raises Refused."""
    name = text(current, "metadata", "name")
    if name in IMMORTAL_NAMESPACES:
        why = "this namespace may not be deleted"
        raise Refused(forbidden(NAMESPACES.plural, name, why=why))
    check_preconditions(resource, current, options)
    obj = copied_object(current)
    meta = server_metadata.of(obj)
    if not text(meta, "deletionTimestamp"):
        meta["deletionTimestamp"] = now
        obj["metadata"] = server_metadata.in_order(meta)
        obj["status"] = {**mapping(obj, "status"), "phase": "Terminating"}
    return Marked(obj)


def emptied_namespace(current: Object) -> Object:
    """The namespace after its contents are gone: nothing of the server's own holds it."""
    obj = copied_object(current)
    left = [one for one in texts(obj, "spec", "finalizers") if one != CONTENTS_FINALIZER]
    obj["spec"] = {"finalizers": strings(left)} if left else {}
    return obj
