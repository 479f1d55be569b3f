"""CustomResourceDefinitions: what the server writes into them, whether they are served, and the
resources that they make, one for each version.

Source: apiextensions-apiserver pkg/apis/apiextensions/{v1/defaults,validation/validation}.go and
pkg/controller/status/naming_controller.go. Whether a schema is structural is kube-apiserver's to
judge; here is refused what this server could not keep to.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import msgspec

from edge_sidecars.apimachinery.resources import ResourceName
from tools.local_apiserver.core.api_resource import Catalog, Resource, Strategy
from tools.local_apiserver.core.schema import field_errors
from tools.local_apiserver.core.schema.field_errors import FieldError
from tools.local_apiserver.core.schema.pattern import BadPattern
from tools.local_apiserver.core.schema.pruning import apply_defaults, drop_nulls, prune
from tools.local_apiserver.core.schema.schema import Schema, read_schema
from tools.local_apiserver.core.unstructured import (
    Object,
    copied,
    copied_object,
    is_equal,
    items,
    mapping,
    objects,
    strings,
    text,
    texts,
)

DEFINITIONS = ResourceName("apiextensions.k8s.io", "v1", "customresourcedefinitions")
# apiextensions v1: as long as it is there, the custom resources are not known to be gone.
CLEANUP_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"


# Defaults


def _default(obj: Object) -> None:
    spec = mapping(obj, "spec")
    found = mapping(spec, "names")
    if kind := text(found, "kind"):
        if not text(found, "singular"):
            found["singular"] = kind.lower()
        if not text(found, "listKind"):
            found["listKind"] = f"{kind}List"
    if not mapping(spec, "conversion"):
        spec["conversion"] = {"strategy": "None"}
    if spec.get("preserveUnknownFields") is False:
        del spec["preserveUnknownFields"]


def _check(obj: Object) -> Sequence[FieldError]:
    spec = mapping(obj, "spec")
    name, wanted = text(obj, "metadata", "name"), text(spec, "names", "plural")
    if name != f"{wanted}.{text(spec, 'group')}":
        said = 'must be spec.names.plural+"."+spec.group'
        return [field_errors.invalid("metadata.name", name, said)]
    versions = list(objects(spec, "versions"))
    if sum(version.get("storage") is True for version in versions) != 1:
        said = "must have exactly one version marked as storage version"
        return [field_errors.invalid("spec.versions", None, said)]
    if text(spec, "conversion", "strategy") != "None":
        said = "conversion webhooks are not called by this API server, so they are not taken"
        return [field_errors.forbidden("spec.conversion.strategy", said)]
    found = [_schema_fault(version, index) for index, version in enumerate(versions)]
    return [fault for fault in found if fault is not None]


def _schema_fault(version: Object, index: int) -> FieldError | None:
    path = f"spec.versions[{index}].schema.openAPIV3Schema"
    raw = mapping(version, "schema").get("openAPIV3Schema")
    if not isinstance(raw, dict):
        return field_errors.required(path)
    if b'"x-kubernetes-validations":' in msgspec.json.encode(raw):
        said = "CEL rules are not enforced by this API server, so they are not taken"
        return field_errors.forbidden(path, said)
    try:
        read_schema(raw)
    except BadPattern as error:
        return field_errors.invalid(path, None, f"must be a valid regular expression: {error}")
    return None


# Status


def accept(obj: Object, catalog: Catalog, *, now: str) -> None:
    """Writes the status of a good definition in place: whether its names are free, and with that,
    whether it is served. kube-apiserver's controllers do the same a moment later."""
    status = dict(mapping(obj, "status"))
    conditions = [copied_object(one) for one in objects(status, "conditions")]
    taken = _taken(obj, catalog)
    _set_condition(conditions, "NamesAccepted", not taken, now, _NAMES[not taken], taken)
    if not taken:
        status["acceptedNames"] = copied(mapping(obj, "spec", "names"))
        _set_condition(
            conditions,
            "Established",
            True,
            now,
            "InitialNamesAccepted",
            "the initial names have been accepted",
        )
    elif not any(one.get("type") == "Established" for one in conditions):
        said = "not all names are accepted"
        _set_condition(conditions, "Established", False, now, "NotAccepted", said)
    status["conditions"] = list(conditions)
    status.setdefault("acceptedNames", {"plural": "", "kind": ""})
    stored = texts(status, "storedVersions")
    for version in objects(obj, "spec", "versions"):
        if version.get("storage") is True and text(version, "name") not in stored:
            stored.append(text(version, "name"))
    status["storedVersions"] = strings(stored)
    obj["status"] = status


_NAMES = {True: "NoConflicts", False: "NamesConflict"}


def _set_condition(
    conditions: list[Object], kind: str, is_true: bool, now: str, reason: str, said: str
) -> None:
    found: Object = {
        "type": kind,
        "status": "True" if is_true else "False",
        "lastTransitionTime": now,
        "reason": reason,
        "message": said or "no conflicts found",
    }
    for index, former in enumerate(conditions):
        if former.get("type") == kind:
            if former.get("status") == found["status"]:
                found["lastTransitionTime"] = former.get("lastTransitionTime")
            conditions[index] = found
            return
    conditions.append(found)


def _taken(obj: Object, catalog: Catalog) -> str:
    """Which name another resource of the group has already, in words."""
    group, plural = text(obj, "spec", "group"), text(obj, "spec", "names", "plural")
    found = mapping(obj, "spec", "names")
    wanted = {plural, text(found, "singular"), *texts(found, "shortNames")}
    kinds = {text(found, "kind"), text(found, "listKind")}
    for other in catalog:
        if other.name.group != group or other.name.plural == plural:
            continue
        others = {other.name.plural, other.singular, *other.short_names}
        for name in sorted(wanted & others):
            return f'"{name}" is already in use'
        for name in sorted(kinds & {other.kind, other.list_kind}):
            return f'"{name}" is already in use'
    return ""


def warnings(obj: Object) -> list[str]:
    """What a good definition asks for and does not get here."""
    return [
        f"spec.versions[{index}].subresources.scale: not offered by this API server"
        for index, version in enumerate(items(obj, "spec", "versions"))
        if "scale" in mapping(version, "subresources")
    ]


def is_established(obj: Object) -> bool:
    return any(
        one.get("type") == "Established" and one.get("status") == "True"
        for one in objects(obj, "status", "conditions")
    )


def with_finalizer(obj: Object) -> Object:
    """A definition that is to be deleted: its custom resources go first."""
    found = copied_object(obj)
    meta = mapping(found, "metadata")
    if CLEANUP_FINALIZER not in texts(meta, "finalizers") and not text(meta, "deletionTimestamp"):
        meta["finalizers"] = strings([*texts(meta, "finalizers"), CLEANUP_FINALIZER])
    return found


def is_same(one: Object, other: Object) -> bool:
    """Whether both make the same resources."""
    return (
        is_equal(one.get("spec"), other.get("spec"))
        and is_established(one) is is_established(other)
        and bool(text(one, "metadata", "deletionTimestamp"))
        is bool(text(other, "metadata", "deletionTimestamp"))
    )


_STRATEGY = Strategy(
    demands_standard_finalizers=False,
    counts_generation=True,
    allows_unconditional_update=False,
)
DEFINITION = replace(
    _STRATEGY,
    default=_default,
    check=_check,
)


# Custom resources


def resources(definition: Object) -> Sequence[Resource]:
    """Of an established definition. The stored version is there even if it is not served."""
    spec = mapping(definition, "spec")
    group, found = text(spec, "group"), mapping(spec, "names")
    stored = next(text(one, "name") for one in objects(spec, "versions") if one.get("storage"))
    made = []
    for version in objects(spec, "versions"):
        raw = mapping(version, "schema", "openAPIV3Schema")
        schema = read_schema(raw)
        made.append(
            Resource(
                name=ResourceName(group, text(version, "name"), text(found, "plural")),
                storage=ResourceName(group, stored, text(found, "plural")),
                kind=text(found, "kind"),
                list_kind=text(found, "listKind"),
                singular=text(found, "singular"),
                is_namespaced=text(spec, "scope") == "Namespaced",
                schema=schema,
                raw_schema=msgspec.json.encode(raw),
                is_custom=True,
                is_served=version.get("served") is True,
                is_ending=bool(text(definition, "metadata", "deletionTimestamp")),
                has_status="status" in mapping(version, "subresources"),
                short_names=texts(found, "shortNames"),
                categories=texts(found, "categories"),
                selectable=[
                    text(field, "jsonPath").removeprefix(".")
                    for field in objects(version, "selectableFields")
                ],
                strategy=_STRATEGY,
                convert=_shaper(schema),
            )
        )
    return made


def _shaper(schema: Schema) -> Callable[[Object], Object]:
    def shape(obj: Object) -> Object:
        """What an older schema let through is pruned, what it did not know is defaulted."""
        prune(obj, schema)
        drop_nulls(obj, schema)
        apply_defaults(obj, schema)
        return obj

    return shape
