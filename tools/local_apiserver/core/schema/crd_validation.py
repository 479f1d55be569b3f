"""Which CustomResourceDefinitions are good.

Source: apiextensions-apiserver pkg/apis/apiextensions/validation/validation.go. Conversion webhooks
and CEL rules are refused: the API server would not keep to them.
"""

from collections.abc import Iterable, Sequence

from tools.local_apiserver.core import names
from tools.local_apiserver.core.schema import field_errors, structural
from tools.local_apiserver.core.schema.field_errors import FieldError
from tools.local_apiserver.core.schema.pruning import apply_defaults, prune
from tools.local_apiserver.core.schema.schema import Schema, read_schema
from tools.local_apiserver.core.schema.validation import validate
from tools.local_apiserver.core.unstructured import (
    Object,
    copied,
    is_equal,
    items,
    mapping,
    objects,
    strings,
    text,
    texts,
)

# Groups that are the Kubernetes community's (apiextensions helpers.IsProtectedCommunityGroup).
_PROTECTED = (".k8s.io", ".kubernetes.io")
_APPROVAL = "api-approved.kubernetes.io"


def check(obj: Object) -> Sequence[FieldError]:
    spec = mapping(obj, "spec")
    found = [*_name_faults(obj, spec), *_conversion_faults(spec), *_version_faults(spec)]
    for index, version in enumerate(objects(spec, "versions")):
        found += _schema_faults(spec, version, index)
    return found


def _name_faults(obj: Object, spec: Object) -> Iterable[FieldError]:
    group, plural = text(spec, "group"), text(spec, "names", "plural")
    if text(obj, "metadata", "name") != f"{plural}.{group}":
        said = 'must be spec.names.plural+"."+spec.group'
        yield field_errors.invalid("metadata.name", text(obj, "metadata", "name"), said)
    if not group:
        yield field_errors.required("spec.group")
    elif said := names.dns_subdomain(group):
        yield field_errors.invalid("spec.group", group, said)
    elif "." not in group:
        yield field_errors.invalid("spec.group", group, "should be a domain with at least one dot")
    is_protected = f".{group}".endswith(_PROTECTED)
    if is_protected and not text(obj, "metadata", "annotations", _APPROVAL):
        said = (
            f'protected groups must have approval annotation "{_APPROVAL}", see '
            "https://github.com/kubernetes/enhancements/pull/1111"
        )
        yield field_errors.required(f"metadata.annotations[{_APPROVAL}]", said)
    if (scope := text(spec, "scope")) not in ("Cluster", "Namespaced"):
        if scope:
            yield field_errors.not_supported("spec.scope", scope, ("Cluster", "Namespaced"))
        else:
            yield field_errors.required("spec.scope")
    if spec.get("preserveUnknownFields") is True:
        said = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in "
            "spec.versions[*].schema instead"
        )
        yield field_errors.invalid("spec.preserveUnknownFields", True, said)
    yield from _word_faults(mapping(spec, "names"))


def _word_faults(found: Object) -> Iterable[FieldError]:
    for field in ("plural", "singular", "kind", "listKind"):
        word = text(found, field)
        if not word:
            yield field_errors.required(f"spec.names.{field}")
        elif said := names.dns_label_1035(
            word if field in ("plural", "singular") else word.lower()
        ):
            yield field_errors.invalid(f"spec.names.{field}", word, said)
    for field in ("shortNames", "categories"):
        for index, word in enumerate(texts(found, field)):
            if said := names.dns_label_1035(word):
                yield field_errors.invalid(f"spec.names.{field}[{index}]", word, said)
    if text(found, "kind") and text(found, "kind") == text(found, "listKind"):
        said = "kind and listKind may not be the same"
        yield field_errors.invalid("spec.names.listKind", text(found, "listKind"), said)


def _conversion_faults(spec: Object) -> Iterable[FieldError]:
    strategy = text(spec, "conversion", "strategy")
    if strategy == "Webhook":
        said = "conversion webhooks are not called by this API server, so they are not taken"
        yield field_errors.forbidden("spec.conversion.strategy", said)
    elif strategy != "None":
        yield field_errors.not_supported("spec.conversion.strategy", strategy, ("None", "Webhook"))


def _version_faults(spec: Object) -> Iterable[FieldError]:
    versions = [text(version, "name") for version in objects(spec, "versions")]
    for index, name in enumerate(versions):
        if said := names.dns_label_1035(name):
            yield field_errors.invalid(f"spec.versions[{index}].name", name, said)
        elif name in versions[:index]:
            said = "must contain unique version names"
            yield field_errors.invalid("spec.versions", strings(versions), said)
    stored = [version for version in objects(spec, "versions") if version.get("storage") is True]
    if len(stored) != 1:
        said = "must have exactly one version marked as storage version"
        yield field_errors.invalid("spec.versions", strings(versions), said)
    if not stored:
        said = "must have at least one stored version"
        yield field_errors.invalid("status.storedVersions", None, said)


def _schema_faults(spec: Object, version: Object, index: int) -> Iterable[FieldError]:
    raw = mapping(version, "schema", "openAPIV3Schema")
    path = _schema_path(spec, index)
    if not isinstance(mapping(version, "schema").get("openAPIV3Schema"), dict):
        yield field_errors.required(f"spec.versions[{index}].schema.openAPIV3Schema")
        return
    found = structural.check(raw, path)
    yield from found
    if found:
        return
    yield from _default_faults(raw, read_schema(raw), path)
    yield from _selectable_faults(version, raw)


def _default_faults(raw: Object, schema: Schema, path: str) -> Iterable[FieldError]:
    """Each default is a value of its own schema, with nothing left to prune."""
    if schema.has_default and schema.default is not None:
        value = copied(schema.default)
        where = f"{path}.default"
        if isinstance(value, dict) and not schema.is_embedded_resource and prune(value, schema):
            yield field_errors.invalid(where, schema.default, "must not have unknown fields")
        apply_defaults(value, schema)
        for fault in validate(value, schema, ""):
            yield FieldError(fault.type, where + fault.path, fault.value, fault.detail)
    for name, child in schema.properties.items():
        inner = mapping(raw, "properties", name)
        yield from _default_faults(inner, child, f"{path}.properties[{name}]")
    for word, other in (("items", schema.items), ("additionalProperties", schema.additional)):
        if other is not None:
            yield from _default_faults(mapping(raw, word), other, f"{path}.{word}")


def _selectable_faults(version: Object, raw: Object) -> Iterable[FieldError]:
    for index, field in enumerate(objects(version, "selectableFields")):
        path, where = text(field, "jsonPath"), f"spec.selectableFields[{index}].jsonPath"
        found = raw
        for name in path.removeprefix(".").split("."):
            found = mapping(found, "properties", name)
        if not path.startswith(".") or not found:
            said = "is an invalid path: does not refer to a valid field"
            yield field_errors.invalid(where, path, said)
        elif text(found, "type") not in ("string", "boolean", "integer"):
            said = (
                "must point to a field of type string, boolean or integer. Enum string fields and "
                "strings with formats are allowed."
            )
            yield field_errors.invalid(where, path, said)


def check_update(obj: Object, current: Object) -> Sequence[FieldError]:
    found = []
    for path in (("group",), ("scope",), ("names", "plural"), ("names", "kind")):
        new, old = text(obj, "spec", *path), text(current, "spec", *path)
        if new != old:
            where = ".".join(("spec", *path))
            found.append(field_errors.invalid(where, new, "field is immutable"))
    kept = {text(version, "name") for version in objects(obj, "spec", "versions")}
    for index, name in enumerate(texts(current, "status", "storedVersions")):
        if name not in kept:
            said = (
                f"missing from spec.versions; {name} was previously a storage version, and must "
                "remain in spec.versions until a storage migration ensures no data remains "
                f"persisted in {name} and removes {name} from status.storedVersions"
            )
            found.append(field_errors.invalid(f"status.storedVersions[{index}]", name, said))
    return found


def _schema_path(spec: Object, index: int) -> str:
    """How kube-apiserver names the schema of a version: all being the same, it is one."""
    schemas = [mapping(one, "schema") for one in items(spec, "versions")]
    if all(is_equal(schema, schemas[0]) for schema in schemas):
        return "spec.validation.openAPIV3Schema"
    return f"spec.versions[{index}].schema.openAPIV3Schema"
