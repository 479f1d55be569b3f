"""What kube-apiserver does to a custom resource between decoding and validating it.

Source: apiextensions-apiserver pkg/apiserver/schema/pruning and schema/defaulting. Both work in
place, on a tree that the caller owns. A whole object keeps apiVersion, kind and metadata, whatever
its schema says.
"""

from tools.local_apiserver.core.schema.schema import Schema
from tools.local_apiserver.core.schema.validation import joined
from tools.local_apiserver.core.unstructured import Json, Object, copied

# Of every object, also of one that is embedded in another.
_OF_EVERY_OBJECT = frozenset({"apiVersion", "kind", "metadata"})


def prune(value: Object, schema: Schema) -> list[str]:
    """Drops the fields of a whole object that its schema does not name; returns their paths."""
    dropped: list[str] = []
    _prune_object(value, schema, "", dropped, is_resource=True)
    return sorted(dropped)


def _prune(value: Json, schema: Schema, path: str, dropped: list[str]) -> None:
    if isinstance(value, dict):
        _prune_object(value, schema, path, dropped, is_resource=schema.is_embedded_resource)
    elif isinstance(value, list) and schema.items is not None:
        for index, child in enumerate(value):
            _prune(child, schema.items, f"{path}[{index}]", dropped)


def _prune_object(
    value: Object, schema: Schema, path: str, dropped: list[str], *, is_resource: bool
) -> None:
    for name in list(value):
        if is_resource and name in _OF_EVERY_OBJECT:
            continue
        child = schema.properties.get(name) or schema.additional
        if child is not None:
            _prune(value[name], child, joined(path, name), dropped)
        elif not schema.keeps_unknown:
            dropped.append(joined(path, name))
            del value[name]


def drop_nulls(value: Json, schema: Schema) -> None:
    """Drops properties that are null, may not be, and have no default to take instead."""
    if isinstance(value, dict):
        for name in list(value):
            child = schema.properties.get(name) or schema.additional
            if child is None:
                continue
            if value[name] is None and not child.is_nullable and not child.has_default:
                del value[name]
            else:
                drop_nulls(value[name], child)
    elif isinstance(value, list) and schema.items is not None:
        for item in value:
            drop_nulls(item, schema.items)


def apply_defaults(value: Json, schema: Schema) -> None:
    """Fills what is missing, or null where null is not allowed, and has a default."""
    if isinstance(value, dict):
        for name, child in schema.properties.items():
            if child.has_default and child.default is not None and _is_missing(value, name, child):
                value[name] = copied(child.default)
            if name in value:
                apply_defaults(value[name], child)
        if schema.additional is not None:
            for name in value.keys() - schema.properties.keys():
                _fill(value, name, schema.additional)
    elif isinstance(value, list) and schema.items is not None:
        for index, item in enumerate(value):
            if item is None and schema.items.has_default and not schema.items.is_nullable:
                value[index] = copied(schema.items.default)
            apply_defaults(value[index], schema.items)


def _fill(value: Object, name: str, child: Schema) -> None:
    if child.has_default and child.default is not None and _is_missing(value, name, child):
        value[name] = copied(child.default)
    apply_defaults(value[name], child)


def _is_missing(value: Object, name: str, child: Schema) -> bool:
    return name not in value or (value[name] is None and not child.is_nullable)
