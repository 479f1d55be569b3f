"""Whether a CRD's schema may be read at all: structural, and within what the API server enforces.

Source: apiextensions-apiserver pkg/apiserver/schema/{structural,validation}.go and
pkg/apis/apiextensions/validation/validation.go. What kube-apiserver enforces and this server
does not (CEL rules) is refused: a schema that was taken is kept to.
"""

from collections.abc import Iterable

from tools.local_apiserver.core.schema import field_errors
from tools.local_apiserver.core.schema.field_errors import FieldError
from tools.local_apiserver.core.schema.pattern import BadPattern, Pattern
from tools.local_apiserver.core.unstructured import (
    Json,
    Object,
    items,
    mapping,
    text,
    texts,
)

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_JUNCTORS = ("allOf", "anyOf", "oneOf")
_LIST_TYPES = ("atomic", "map", "set")
# JSONSchemaProps (apiextensions v1)
_WORDS = frozenset(
    {
        *("id", "$schema", "$ref", "description", "type", "format", "title", "default"),
        *("maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum", "multipleOf"),
        *("maxLength", "minLength", "pattern", "maxItems", "minItems", "uniqueItems", "enum"),
        *("maxProperties", "minProperties", "required", "items", *_JUNCTORS, "not"),
        *("properties", "additionalProperties", "patternProperties", "dependencies"),
        *("additionalItems", "definitions", "externalDocs", "example", "nullable"),
        *("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"),
        *("x-kubernetes-int-or-string", "x-kubernetes-list-map-keys", "x-kubernetes-list-type"),
        *("x-kubernetes-map-type", "x-kubernetes-validations"),
    }
)
_NOT_SUPPORTED = (
    "$ref",
    "definitions",
    "dependencies",
    "patternProperties",
    "additionalItems",
    "id",
)
# What says more than a value validation; it may not stand inside of junctors.
_SHAPING = {
    "type": "must be empty to be structural",
    "description": "must be empty to be structural",
    "title": "must be empty to be structural",
    "default": "must be undefined to be structural",
    "additionalProperties": "must be undefined to be structural",
    "nullable": "must be false to be structural",
    "x-kubernetes-preserve-unknown-fields": "must be false to be structural",
    "x-kubernetes-embedded-resource": "must be false to be structural",
    "x-kubernetes-int-or-string": "must be false to be structural",
    "x-kubernetes-list-type": "must be undefined to be structural",
    "x-kubernetes-list-map-keys": "must be empty to be structural",
    "x-kubernetes-map-type": "must be undefined to be structural",
}
_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]


def drop_unknown(schema: Object, path: str) -> list[str]:
    """Drops words that are none of JSONSchemaProps; returns their paths."""
    found = []
    for word in list(schema):
        if word not in _WORDS:
            found.append(f"{path}.{word}")
            del schema[word]
        elif schema[word] is None and word != "default":
            del schema[word]
    if schema.get("default", 0) is None:
        del schema["default"]
    for child_path, child in _children(schema, path, ".{}"):
        found += drop_unknown(child, child_path)
    return found


def check(schema: Object, path: str) -> list[FieldError]:
    """What is wrong with the schema of a whole object."""
    found = list(_root_faults(schema, path))
    found += _node_faults(schema, path, is_root=True)
    return found


def _root_faults(schema: Object, path: str) -> Iterable[FieldError]:
    if schema.get("nullable") is True:
        yield field_errors.forbidden(f"{path}.nullable", "nullable cannot be true at the root")
    if not text(schema, "type"):
        if schema.get("x-kubernetes-preserve-unknown-fields") is not True:
            yield field_errors.required(f"{path}.type", "must not be empty at the root")
    elif text(schema, "type") != "object":
        yield field_errors.invalid(
            f"{path}.type", text(schema, "type"), "must be object at the root"
        )
    yield from _object_head_faults(schema, path)


def _object_head_faults(schema: Object, path: str) -> Iterable[FieldError]:
    """What a whole object always has may only be said again, not otherwise."""
    properties = mapping(schema, "properties")
    for name, wanted in (("apiVersion", "string"), ("kind", "string"), ("metadata", "object")):
        found = text(properties, name, "type")
        if name in properties and found != wanted:
            where = f"{path}.properties[{name}].type"
            yield field_errors.invalid(where, found, f"must be {wanted}")
    if set(mapping(properties, "metadata", "properties")) - {"name", "generateName"}:
        said = (
            "must not specify anything other than name and generateName, but metadata is "
            "implicitly specified"
        )
        yield field_errors.forbidden(f"{path}.properties[metadata]", said)


def _node_faults(schema: Object, path: str, *, is_root: bool = False) -> Iterable[FieldError]:
    kind = text(schema, "type")
    if kind and kind not in _TYPES:
        yield field_errors.not_supported(f"{path}.type", kind, _TYPES)
    for word in _NOT_SUPPORTED:
        if word in schema:
            yield field_errors.forbidden(f"{path}.{word}", f"{word} is not supported")
    if schema.get("uniqueItems") is True:
        said = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield field_errors.forbidden(f"{path}.uniqueItems", said)
    if "properties" in schema and "additionalProperties" in schema:
        said = "additionalProperties and properties are mutual exclusive"
        yield field_errors.forbidden(f"{path}.additionalProperties", said)
    yield from _extension_faults(schema, path, is_root=is_root)
    yield from _list_faults(schema, path)
    yield from _value_faults(schema, path)
    yield from _type_faults(schema, path)
    for child_path, child in _children(schema, path, "[{}]"):
        if _is_value_part(child_path, path):
            yield from _value_part_faults(child, child_path, schema)
        else:
            yield from _node_faults(child, child_path)


def _type_faults(schema: Object, path: str) -> Iterable[FieldError]:
    """Each child says its type."""
    for name, child in mapping(schema, "properties").items():
        if not _has_type(child):
            said = "must not be empty for specified object fields"
            yield field_errors.required(f"{path}.properties[{name}].type", said)
    if isinstance(child := schema.get("additionalProperties"), dict) and not _has_type(child):
        said = "must not be empty for specified object fields"
        yield field_errors.required(f"{path}.additionalProperties.type", said)
    if isinstance(child := schema.get("items"), dict) and not _has_type(child):
        said = "must not be empty for specified array items"
        yield field_errors.required(f"{path}.items.type", said)


def _has_type(schema: Json) -> bool:
    return isinstance(schema, dict) and (
        bool(text(schema, "type"))
        or schema.get("x-kubernetes-int-or-string") is True
        or schema.get("x-kubernetes-preserve-unknown-fields") is True
    )


def _extension_faults(schema: Object, path: str, *, is_root: bool) -> Iterable[FieldError]:
    keeps = schema.get("x-kubernetes-preserve-unknown-fields")
    if keeps is False:
        where = f"{path}.x-kubernetes-preserve-unknown-fields"
        yield field_errors.invalid(where, False, "must be true or undefined")
    if schema.get("x-kubernetes-embedded-resource") is True:
        if text(schema, "type") != "object":
            said = "must be object if x-kubernetes-embedded-resource is true"
            yield field_errors.invalid(f"{path}.type", text(schema, "type"), said)
        if not mapping(schema, "properties") and keeps is not True:
            said = (
                "must not be empty if x-kubernetes-embedded-resource is true without "
                "x-kubernetes-preserve-unknown-fields"
            )
            yield field_errors.required(f"{path}.properties", said)
        if not is_root:
            yield from _object_head_faults(schema, path)
    if "x-kubernetes-validations" in schema:
        said = "CEL rules are not enforced by this API server, so they are not taken"
        yield field_errors.forbidden(f"{path}.x-kubernetes-validations", said)


def _list_faults(schema: Object, path: str) -> Iterable[FieldError]:
    if text(schema, "type") == "array":
        if isinstance(schema.get("items"), list):
            said = "items must be a schema object and not an array"
            yield field_errors.forbidden(f"{path}.items", said)
        elif "items" not in schema:
            yield field_errors.required(f"{path}.items", "must be specified")
    kind = text(schema, "x-kubernetes-list-type")
    if kind and kind not in _LIST_TYPES:
        yield field_errors.not_supported(f"{path}.x-kubernetes-list-type", kind, _LIST_TYPES)
    keys = texts(schema, "x-kubernetes-list-map-keys")
    where = f"{path}.x-kubernetes-list-map-keys"
    if kind == "map":
        if not keys:
            said = "must not be empty if x-kubernetes-list-type is map"
            yield field_errors.required(where, said)
        yield from _map_key_faults(mapping(schema, "items"), keys, f"{path}.items")
    elif keys:
        yield field_errors.forbidden(where, "must be empty if x-kubernetes-list-type is not map")
    inner = mapping(schema, "items")
    if (
        kind == "set"
        and text(inner, "type") == "object"
        and text(inner, "x-kubernetes-map-type") != "atomic"
    ):
        said = "must be atomic as item of a list with x-kubernetes-list-type=set"
        yield field_errors.invalid(f"{path}.items.x-kubernetes-map-type", None, said)


def _map_key_faults(inner: Object, keys: Iterable[str], path: str) -> Iterable[FieldError]:
    for key in keys:
        where = f"{path}.properties[{key}]"
        found = mapping(inner, "properties", key)
        if not found:
            yield field_errors.invalid(where, key, "must refer to a property of the items")
        elif "default" not in found and key not in texts(inner, "required"):
            said = (
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be "
                "a required property"
            )
            yield field_errors.required(f"{where}.default", said)


def _value_faults(schema: Object, path: str) -> Iterable[FieldError]:
    if pattern := text(schema, "pattern"):
        try:
            Pattern(pattern)
        except BadPattern as error:
            said = f"must be a valid regular expression, but isn't: {error}"
            yield field_errors.invalid(f"{path}.pattern", pattern, said)


def _value_part_faults(schema: Object, path: str, parent: Object) -> Iterable[FieldError]:
    """Inside of junctors only value validations stand."""
    is_said_type = parent.get("x-kubernetes-int-or-string") is True and set(schema) <= {
        "type",
        *_JUNCTORS,
    }
    for word, said in _SHAPING.items():
        if word in schema and schema[word] is not False and not (word == "type" and is_said_type):
            yield field_errors.forbidden(f"{path}.{word}", said)
    if "x-kubernetes-validations" in schema:
        yield from _extension_faults(schema, path, is_root=False)
    yield from _value_faults(schema, path)
    passed_on = parent if parent.get("x-kubernetes-int-or-string") is True else schema
    for child_path, child in _children(schema, path, "[{}]"):
        inner = passed_on if _is_value_part(child_path, path) else schema
        yield from _value_part_faults(child, child_path, inner)


def _is_value_part(child_path: str, path: str) -> bool:
    word = child_path.removeprefix(path + ".").partition("[")[0]
    return word in (*_JUNCTORS, "not")


def _children(schema: Object, path: str, key: str) -> Iterable[tuple[str, Object]]:
    """All schemas right below; `key` is how the name of a property is written in a path."""
    for name, child in mapping(schema, "properties").items():
        if isinstance(child, dict):
            yield f"{path}.properties{key.format(name)}", child
    for word in ("additionalProperties", "items", "not"):
        if isinstance(child := schema.get(word), dict):
            yield f"{path}.{word}", child
    for word in _JUNCTORS:
        for index, child in enumerate(items(schema, word)):
            if isinstance(child, dict):
                yield f"{path}.{word}[{index}]", child
