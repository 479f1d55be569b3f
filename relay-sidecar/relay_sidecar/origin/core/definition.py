"""CustomResourceDefinitions: which are good, and which resources they make.

Source: apiextensions-apiserver pkg/apis/apiextensions/{v1/defaults,validation/validation}.go and
pkg/controller/status/naming_controller.go. Conversion webhooks and CEL rules are refused: the
origin would not keep to them.
"""

from collections.abc import Iterable, Sequence

from relay_sidecar.core.resource_name import ResourceName
from relay_sidecar.origin.core import faults, names, structural
from relay_sidecar.origin.core.catalog import Catalog
from relay_sidecar.origin.core.custom import resources, schema_path
from relay_sidecar.origin.core.faults import Fault
from relay_sidecar.origin.core.pruning import apply_defaults, prune
from relay_sidecar.origin.core.resource import Strategy
from relay_sidecar.origin.core.schema import Schema, read_schema
from relay_sidecar.origin.core.tree import (
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
from relay_sidecar.origin.core.validation import validate

DEFINITIONS = ResourceName("apiextensions.k8s.io", "v1", "customresourcedefinitions")
# apiextensions v1: as long as it is there, the custom resources are not known to be gone.
CLEANUP_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
# Groups that are the Kubernetes community's (apiextensions helpers.IsProtectedCommunityGroup).
_PROTECTED = (".k8s.io", ".kubernetes.io")
_APPROVAL = "api-approved.kubernetes.io"


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


def _read_schemas(obj: Object) -> list[str]:
    """Drops unknown words of schemas; returns their paths."""
    unknown = []
    for index, version in enumerate(items(obj, "spec", "versions")):
        schema = mapping(version, "schema", "openAPIV3Schema")
        path = f"spec.versions[{index}].schema.openAPIV3Schema"
        unknown += structural.drop_unknown(schema, path)
    return unknown


# Faults


def _check(obj: Object) -> Sequence[Fault]:
    spec = mapping(obj, "spec")
    found = [*_name_faults(obj, spec), *_conversion_faults(spec), *_version_faults(spec)]
    for index, version in enumerate(objects(spec, "versions")):
        found += _schema_faults(spec, version, index)
    return found


def _name_faults(obj: Object, spec: Object) -> Iterable[Fault]:
    group, plural = text(spec, "group"), text(spec, "names", "plural")
    if text(obj, "metadata", "name") != f"{plural}.{group}":
        said = 'must be spec.names.plural+"."+spec.group'
        yield faults.invalid("metadata.name", text(obj, "metadata", "name"), said)
    if not group:
        yield faults.required("spec.group")
    elif said := names.dns_subdomain(group):
        yield faults.invalid("spec.group", group, said)
    elif "." not in group:
        yield faults.invalid("spec.group", group, "should be a domain with at least one dot")
    is_protected = f".{group}".endswith(_PROTECTED)
    if is_protected and not text(obj, "metadata", "annotations", _APPROVAL):
        said = (
            f'protected groups must have approval annotation "{_APPROVAL}", see '
            "https://github.com/kubernetes/enhancements/pull/1111"
        )
        yield faults.required(f"metadata.annotations[{_APPROVAL}]", said)
    if (scope := text(spec, "scope")) not in ("Cluster", "Namespaced"):
        if scope:
            yield faults.not_supported("spec.scope", scope, ("Cluster", "Namespaced"))
        else:
            yield faults.required("spec.scope")
    if spec.get("preserveUnknownFields") is True:
        said = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in "
            "spec.versions[*].schema instead"
        )
        yield faults.invalid("spec.preserveUnknownFields", True, said)
    yield from _word_faults(mapping(spec, "names"))


def _word_faults(found: Object) -> Iterable[Fault]:
    for field in ("plural", "singular", "kind", "listKind"):
        word = text(found, field)
        if not word:
            yield faults.required(f"spec.names.{field}")
        elif said := names.dns_label_1035(
            word if field in ("plural", "singular") else word.lower()
        ):
            yield faults.invalid(f"spec.names.{field}", word, said)
    for field in ("shortNames", "categories"):
        for index, word in enumerate(texts(found, field)):
            if said := names.dns_label_1035(word):
                yield faults.invalid(f"spec.names.{field}[{index}]", word, said)
    if text(found, "kind") and text(found, "kind") == text(found, "listKind"):
        said = "kind and listKind may not be the same"
        yield faults.invalid("spec.names.listKind", text(found, "listKind"), said)


def _conversion_faults(spec: Object) -> Iterable[Fault]:
    strategy = text(spec, "conversion", "strategy")
    if strategy == "Webhook":
        said = "conversion webhooks are not called by the local origin, so they are not taken"
        yield faults.forbidden("spec.conversion.strategy", said)
    elif strategy != "None":
        yield faults.not_supported("spec.conversion.strategy", strategy, ("None", "Webhook"))


def _version_faults(spec: Object) -> Iterable[Fault]:
    versions = [text(version, "name") for version in objects(spec, "versions")]
    for index, name in enumerate(versions):
        if said := names.dns_label_1035(name):
            yield faults.invalid(f"spec.versions[{index}].name", name, said)
        elif name in versions[:index]:
            said = "must contain unique version names"
            yield faults.invalid("spec.versions", strings(versions), said)
    stored = [version for version in objects(spec, "versions") if version.get("storage") is True]
    if len(stored) != 1:
        said = "must have exactly one version marked as storage version"
        yield faults.invalid("spec.versions", strings(versions), said)
    if not stored:
        said = "must have at least one stored version"
        yield faults.invalid("status.storedVersions", None, said)


def _schema_faults(spec: Object, version: Object, index: int) -> Iterable[Fault]:
    raw = mapping(version, "schema", "openAPIV3Schema")
    path = schema_path(spec, index)
    if not isinstance(mapping(version, "schema").get("openAPIV3Schema"), dict):
        yield faults.required(f"spec.versions[{index}].schema.openAPIV3Schema")
        return
    found = structural.check(raw, path)
    yield from found
    if found:
        return
    yield from _default_faults(raw, read_schema(raw), path)
    yield from _selectable_faults(version, raw)


def _default_faults(raw: Object, schema: Schema, path: str) -> Iterable[Fault]:
    """Each default is a value of its own schema, with nothing left to prune."""
    if schema.has_default and schema.default is not None:
        value = copied(schema.default)
        where = f"{path}.default"
        if isinstance(value, dict) and not schema.is_embedded_resource and prune(value, schema):
            yield faults.invalid(where, schema.default, "must not have unknown fields")
        apply_defaults(value, schema)
        for fault in validate(value, schema, ""):
            yield Fault(fault.type, where + fault.path, fault.value, fault.detail)
    for name, child in schema.properties.items():
        inner = mapping(raw, "properties", name)
        yield from _default_faults(inner, child, f"{path}.properties[{name}]")
    for word, other in (("items", schema.items), ("additionalProperties", schema.additional)):
        if other is not None:
            yield from _default_faults(mapping(raw, word), other, f"{path}.{word}")


def _selectable_faults(version: Object, raw: Object) -> Iterable[Fault]:
    for index, field in enumerate(objects(version, "selectableFields")):
        path, where = text(field, "jsonPath"), f"spec.selectableFields[{index}].jsonPath"
        found = raw
        for name in path.removeprefix(".").split("."):
            found = mapping(found, "properties", name)
        if not path.startswith(".") or not found:
            said = "is an invalid path: does not refer to a valid field"
            yield faults.invalid(where, path, said)
        elif text(found, "type") not in ("string", "boolean", "integer"):
            said = (
                "must point to a field of type string, boolean or integer. Enum string fields and "
                "strings with formats are allowed."
            )
            yield faults.invalid(where, path, said)


def _check_update(obj: Object, current: Object) -> Sequence[Fault]:
    found = []
    for path in (("group",), ("scope",), ("names", "plural"), ("names", "kind")):
        new, old = text(obj, "spec", *path), text(current, "spec", *path)
        if new != old:
            where = ".".join(("spec", *path))
            found.append(faults.invalid(where, new, "field is immutable"))
    kept = {text(version, "name") for version in objects(obj, "spec", "versions")}
    for index, name in enumerate(texts(current, "status", "storedVersions")):
        if name not in kept:
            said = (
                f"missing from spec.versions; {name} was previously a storage version, and must "
                "remain in spec.versions until a storage migration ensures no data remains "
                f"persisted in {name} and removes {name} from status.storedVersions"
            )
            found.append(faults.invalid(f"status.storedVersions[{index}]", name, said))
    return found


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
        f"spec.versions[{index}].subresources.scale: not offered by the local origin"
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


DEFINITION = Strategy(
    demands_standard_finalizers=False,
    counts_generation=True,
    allows_unconditional_update=False,
    read_more=_read_schemas,
    default=_default,
    check=_check,
    check_update=_check_update,
)

__all__ = [
    "CLEANUP_FINALIZER",
    "DEFINITION",
    "DEFINITIONS",
    "accept",
    "is_established",
    "resources",
]
