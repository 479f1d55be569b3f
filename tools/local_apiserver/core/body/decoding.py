"""Reads an object of a built-in type as Go's decoder would, by its schema.

Works in place on a tree that the caller owns. Guarantees: afterwards every field is known and of
its type, times are in the one form in which Kubernetes writes them, and null, empty maps and
empty lists are gone, as if they had not been sent. What a custom resource says of its spec is read
by `pruning` instead; its metadata by this.
"""

import re
from datetime import datetime

from tools.local_apiserver.core.schema.formats import is_base64, is_in_range, moment
from tools.local_apiserver.core.schema.schema import Schema
from tools.local_apiserver.core.schema.validation import joined, type_of
from tools.local_apiserver.core.unstructured import Json, Object

# apimachinery pkg/api/resource/quantity.go
_QUANTITY = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?\d+)?", re.ASCII)
# apimachinery pkg/apis/meta/v1/micro_time.go: exactly six digits
_MICRO_TIME = re.compile(r".*:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)", re.ASCII)


class Undecodable(ValueError):
    """A value is not of its field's type: kube-apiserver's decoder would fail (400)."""


def decode(value: Object, schema: Schema, path: str = "") -> list[str]:
    """Reads a whole struct; returns the paths of the unknown fields, which it drops.

    Raises `Undecodable`.
    """
    unknown: list[str] = []
    _decode_struct(value, schema, path, unknown)
    return unknown


def _decode(value: Json, schema: Schema, path: str, unknown: list[str]) -> Json:
    if schema.is_int_or_string:
        if isinstance(value, int | str) and not isinstance(value, bool):
            return value
        raise _mismatch(value, "int or string", path)
    if schema.rules is not None and schema.rules.format == "quantity":
        return _quantity(value, path)
    match schema.type:
        case "object" if isinstance(value, dict):
            _decode_struct(value, schema, path, unknown)
            return value
        case "array" if isinstance(value, list):
            return _decode_list(value, schema, path, unknown)
        case "string" if isinstance(value, str):
            return _text(value, schema, path)
        case "boolean" if isinstance(value, bool):
            return value
        case "integer" if isinstance(value, int) and not isinstance(value, bool):
            if schema.rules is not None and not is_in_range(value, schema.rules.format):
                raise _unfit(f"number {value}", schema.rules.format, path)
            return value
        case "number" if isinstance(value, int | float) and not isinstance(value, bool):
            return value
        case "":
            return value
        case _:
            raise _mismatch(value, schema.type, path)


def _decode_struct(value: Object, schema: Schema, path: str, unknown: list[str]) -> None:
    for name in list(value):
        child = schema.properties.get(name) or schema.additional
        if child is None:
            if not schema.keeps_unknown:
                unknown.append(joined(path, name))
                del value[name]
            continue
        sent = value[name]
        if sent is None:
            if schema.is_map:
                value[name] = _zero(child)
            else:
                del value[name]
            continue
        read = _decode(sent, child, joined(path, name), unknown)
        if _is_left_out(read, child) and name not in schema.required and not schema.is_map:
            del value[name]
        else:
            value[name] = read


def _is_left_out(value: Json, schema: Schema) -> bool:
    """Go's omitempty drops empty lists and maps, not structs."""
    return value == [] or (value == {} and schema.is_map)


def _decode_list(value: list[Json], schema: Schema, path: str, unknown: list[str]) -> list[Json]:
    inner = schema.items
    if inner is None:
        return value
    return [
        _zero(inner) if item is None else _decode(item, inner, f"{path}[{index}]", unknown)
        for index, item in enumerate(value)
    ]


def _zero(schema: Schema) -> Json:
    """What Go makes of a null in a list."""
    match schema.type:
        case "object":
            return {}
        case "array":
            return []
        case "string":
            return ""
        case "boolean":
            return False
        case "integer" | "number":
            return 0
        case _:
            return None


def _text(value: str, schema: Schema, path: str) -> str:
    match schema.rules.format if schema.rules is not None else "":
        case "date-time":
            return written(_moment(value, path))
        case "micro-time":
            if _MICRO_TIME.fullmatch(value) is None:
                raise Undecodable(
                    f'{path}: parsing time "{value}" as "2006-01-02T15:04:05.000000Z07:00": '
                    "cannot parse"
                )
            return _moment(value, path).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        case "byte" if not is_base64(value):
            raise Undecodable(f"{path}: illegal base64 data")
        case _:
            return value


def _moment(value: str, path: str) -> datetime:
    found = moment(value)
    if found is None:
        raise Undecodable(
            f'{path}: parsing time "{value}" as "2006-01-02T15:04:05Z07:00": cannot parse'
        )
    return found


def written(when: datetime) -> str:
    """A moment as metav1.Time writes it."""
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")


def _quantity(value: Json, path: str) -> Json:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value:g}" if isinstance(value, float) else str(value)
    if isinstance(value, str) and _QUANTITY.fullmatch(value):
        return value
    raise Undecodable(
        f"{path}: quantities must match the regular expression "
        "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )


def _mismatch(value: Json, wanted: str, path: str) -> Undecodable:
    kind = type_of(value)
    return _unfit("number" if kind == "integer" else kind, wanted, path)


def _unfit(shown: str, wanted: str, path: str) -> Undecodable:
    return Undecodable(
        f"json: cannot unmarshal {shown} into Go struct field {path} of type {wanted}"
    )


def fill(value: Object, schema: Schema) -> None:
    """Writes the fields that Go writes though nobody sent them: structs and required ones."""
    for name, child in schema.properties.items():
        if child.has_default and name not in value:
            if child.default == {}:
                value[name] = {}
            elif child.default is not None:
                value[name] = child.default
        _fill_inside(value.get(name), child)
    if schema.additional is not None:
        for found in value.values():
            _fill_inside(found, schema.additional)


def _fill_inside(value: Json, schema: Schema) -> None:
    if isinstance(value, dict):
        fill(value, schema)
    elif isinstance(value, list) and schema.items is not None:
        for item in value:
            _fill_inside(item, schema.items)
