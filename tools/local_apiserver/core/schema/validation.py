"""Judges a value by a schema, in the words of kube-apiserver's validation of custom resources.

Source: kube-openapi pkg/validation/validate, apiextensions-apiserver pkg/apiserver/validation.
Changes nothing; the value has been pruned and defaulted before.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tools.local_apiserver.core import names, server_metadata
from tools.local_apiserver.core.schema import field_errors
from tools.local_apiserver.core.schema.field_errors import FieldError
from tools.local_apiserver.core.schema.formats import FORMATS, is_in_range
from tools.local_apiserver.core.schema.schema import Rules, Schema
from tools.local_apiserver.core.unstructured import Json, Object, is_equal, mapping


def validate(value: Json, schema: Schema, path: str) -> list[FieldError]:
    """All faults of a value; `path` is "" for a whole object."""
    if value is None and schema.is_nullable:
        return []
    if wrong := list(_type_faults(value, schema, path)):
        return wrong
    found = list(_rule_faults(value, schema.rules, path)) if schema.rules else []
    if schema.is_embedded_resource and isinstance(value, dict):
        found += _embedded_faults(value, path)
    if isinstance(value, dict):
        found += _object_faults(value, schema, path)
    elif isinstance(value, list):
        found += _list_faults(value, schema, path)
    return found


def _type_faults(value: Json, schema: Schema, path: str) -> Iterable[FieldError]:
    kind = type_of(value)
    if schema.is_int_or_string:
        allowed = "integer,string"
        is_right = kind in ("integer", "string")
    else:
        allowed = schema.type
        is_right = not allowed or kind == allowed or (allowed == "number" and kind == "integer")
    if is_right:
        return
    yield field_errors.type_invalid(
        path, kind, f'{path} in body must be of type {allowed}: "{kind}"'
    )
    if (allowed, kind) == ("integer", "number"):
        format = schema.rules.format if schema.rules is not None else ""
        shown = f"with format {format}" if format else "(default format)"
        said = f"Checked value must be of type integer {shown} in {path}"
        yield field_errors.invalid("<nil>", "", said)


def type_of(value: Json) -> str:
    """JSON schema's name of a value's type; a number without a fraction is an integer."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "integer" if value.is_integer() else "number"
        case str():
            return "string"
        case list():
            return "array"
        case dict():
            return "object"


def _object_faults(value: Object, schema: Schema, path: str) -> Iterable[FieldError]:
    for name in schema.required:
        if name not in value:
            yield field_errors.required(joined(path, name))
    for name, child in value.items():
        inner = schema.properties.get(name) or schema.additional
        if inner is not None:
            yield from validate(child, inner, joined(path, name))


def _embedded_faults(value: Object, path: str) -> Iterable[FieldError]:
    """apiextensions-apiserver pkg/apiserver/schema/objectmeta/validation.go"""
    for name in ("apiVersion", "kind"):
        if not value.get(name):
            yield field_errors.required(joined(path, name))
    found = server_metadata.check(mapping(value, "metadata"), names.path_segment, is_embedded=True)
    for fault in found:
        yield replace(fault, path=joined(path, fault.path))


def _list_faults(value: list[Json], schema: Schema, path: str) -> Iterable[FieldError]:
    if schema.items is not None:
        for index, child in enumerate(value):
            yield from validate(child, schema.items, f"{path}[{index}]")
    if schema.list_type == "set":
        yield from _repeated(value, value, path)
    elif schema.list_type == "map":
        keys = [_map_key(child, schema.list_map_keys) for child in value]
        yield from _repeated(keys, keys, path)


def _map_key(item: Json, names: Sequence[str]) -> Json:
    if not isinstance(item, dict):
        return item
    return {name: item[name] for name in names if name in item}


def _repeated(keys: list[Json], shown: list[Json], path: str) -> Iterable[FieldError]:
    for index, key in enumerate(keys):
        if any(is_equal(key, former) for former in keys[:index]):
            yield field_errors.duplicate(f"{path}[{index}]", shown[index])


def _rule_faults(value: Json, rules: Rules, path: str) -> Iterable[FieldError]:
    if rules.enum is not None and not any(is_equal(value, one) for one in rules.enum):
        yield field_errors.not_supported(path, value, rules.enum)
    match value:
        case str():
            yield from _text_faults(value, rules, path)
        case bool():
            pass
        case int() | float():
            yield from _number_faults(value, rules, path)
        case list():
            yield from _count_faults(len(value), rules.min_items, rules.max_items, "items", path)
        case dict():
            least, most = rules.min_properties, rules.max_properties
            yield from _count_faults(len(value), least, most, "properties", path)
    yield from _composite_faults(value, rules, path)


def _text_faults(value: str, rules: Rules, path: str) -> Iterable[FieldError]:
    if rules.max_length is not None and len(value) > rules.max_length:
        yield field_errors.too_long(path, rules.max_length)
    if rules.min_length is not None and len(value) < rules.min_length:
        yield field_errors.invalid(
            path, value, f"{path} in body should be at least {rules.min_length} chars long"
        )
    if rules.pattern is not None and not rules.pattern.is_found_in(value):
        yield field_errors.invalid(
            path, value, f"{path} in body should match '{rules.pattern.text}'"
        )
    check = FORMATS.get(rules.format.replace("_", "-"))
    if check is not None and not check(value):
        said = f"{path} in body must be of type {rules.format}: {field_errors.shown(value)}"
        yield field_errors.type_invalid(path, value, said)


def _number_faults(value: int | float, rules: Rules, path: str) -> Iterable[FieldError]:
    def fault(said: str) -> FieldError:
        return field_errors.invalid(path, value, f"{path} in body should be {said}")

    if not is_in_range(value, rules.format):
        said = f"Checked value must be of type integer with format {rules.format} in {path}"
        yield field_errors.invalid("<nil>", "", said)
    if (divisor := rules.multiple_of) and not float(value / divisor).is_integer():
        yield fault(f"a multiple of {divisor:g}")
    if (limit := rules.maximum) is not None:
        bound = "less than" if rules.is_maximum_exclusive else "less than or equal to"
        if value > limit or (rules.is_maximum_exclusive and value == limit):
            yield fault(f"{bound} {limit:g}")
    if (limit := rules.minimum) is not None:
        bound = "greater than" if rules.is_minimum_exclusive else "greater than or equal to"
        if value < limit or (rules.is_minimum_exclusive and value == limit):
            yield fault(f"{bound} {limit:g}")


def _count_faults(
    count: int, least: int | None, most: int | None, what: str, path: str
) -> Iterable[FieldError]:
    if least is not None and count < least:
        said = f"{path} in body should have at least {least} {what}"
        yield field_errors.invalid(path, count, said)
    if most is not None and count > most:
        yield field_errors.too_many(path, count, most)


def _composite_faults(value: Json, rules: Rules, path: str) -> Iterable[FieldError]:
    def fault(said: str) -> FieldError:
        return field_errors.invalid("<nil>", "", f'"{path}" must {said}')

    for one in rules.all_of:
        if failed := validate(value, one, path):
            yield fault("validate all the schemas (allOf)")
            yield from failed
    if rules.any_of and all(validate(value, one, path) for one in rules.any_of):
        yield fault("validate at least one schema (anyOf)")
        yield from validate(value, rules.any_of[0], path)
    if rules.one_of:
        valid = sum(not validate(value, one, path) for one in rules.one_of)
        if valid != 1:
            count = f"Found {valid} valid alternatives" if valid else "Found none valid"
            yield fault(f"validate one and only one schema (oneOf). {count}")
            if not valid:
                yield from validate(value, rules.one_of[0], path)
    if rules.none_of is not None and not validate(value, rules.none_of, path):
        yield fault("not validate the schema (not)")


def joined(path: str, name: str) -> str:
    """The path of a property."""
    return f"{path}.{name}" if path else name
