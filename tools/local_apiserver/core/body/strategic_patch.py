"""Strategic merge patch: a merge patch that knows by which key the items of a list are the same.

Source: apimachinery pkg/util/strategicpatch/patch.go. Keys and strategies are those of the
built-in types; `kubectl apply` sends nothing else for them. Guarantees: neither the object nor the
patch is changed.
"""

from collections.abc import Sequence
from typing import Final

from tools.local_apiserver.core.schema.schema import Schema
from tools.local_apiserver.core.unstructured import Json, Object, copied, is_equal, texts

_DIRECTIVE: Final = "$patch"
_RETAIN: Final = "$retainKeys"
_DELETE_PREFIX: Final = "$deleteFromPrimitiveList/"
_ORDER_PREFIX: Final = "$setElementOrder/"
_UNKNOWN: Final = Schema()


class BadStrategicPatch(ValueError):
    """Directives that make no sense (400)."""


def strategic_merge(target: Object, patch: Object, schema: Schema) -> Object:
    """Raises `BadStrategicPatch`."""
    match patch.get(_DIRECTIVE):
        case None:
            pass
        case "replace":
            return {
                name: _without_nulls(value) for name, value in patch.items() if name != _DIRECTIVE
            }
        case "delete":
            return {}
        case "merge":
            pass
        case other:
            raise BadStrategicPatch(f"unknown patch type: {other}")
    merged = dict(target)
    if _RETAIN in patch:
        kept = texts(patch, _RETAIN)
        merged = {name: value for name, value in merged.items() if name in kept}
    for name, value in patch.items():
        if name.startswith("$"):
            continue
        child = schema.properties.get(name) or schema.additional or _UNKNOWN
        if value is None:
            merged.pop(name, None)
        elif name in merged or f"{_DELETE_PREFIX}{name}" in patch:
            merged[name] = _merged(merged.get(name), value, child, patch, name)
        else:
            merged[name] = _without_directives(value)
    _apply_list_directives(merged, target, patch, schema)
    return merged


def _merged(target: Json, value: Json, schema: Schema, patch: Object, name: str) -> Json:
    if isinstance(target, dict) and isinstance(value, dict):
        if "replace" in schema.patch_strategy:
            return _without_directives(value)
        return strategic_merge(target, value, schema)
    if isinstance(target, list) and isinstance(value, list):
        if "merge" in schema.patch_strategy:
            return _merged_list(target, value, schema)
        return _without_directives(value)
    return _without_directives(value)


def _merged_list(target: list[Json], patch: list[Json], schema: Schema) -> list[Json]:
    """What the patch names comes in its order; the rest stands between that as it did."""
    if not all(isinstance(item, dict) for item in (*target, *patch)):
        return _ordered(_unique([*target, *patch]), patch, target, "")
    merged = _merged_objects(target, patch, schema)
    return _ordered(merged, patch, target, schema.merge_key)


def _merged_objects(target: list[Json], patch: list[Json], schema: Schema) -> list[Json]:
    inner, key = schema.items or _UNKNOWN, schema.merge_key
    merged = list(target)
    added: list[Object] = []
    is_replaced = False
    for item in patch:
        assert isinstance(item, dict)
        match item.get(_DIRECTIVE):
            case "delete":
                wanted = _key(item, key)
                merged = [one for one in merged if not _has_key(one, key, wanted)]
            case "replace":
                is_replaced = True
            case _:
                added.append(item)
    if is_replaced:
        return [_without_directives(item) for item in added]
    for item in added:
        wanted = _key(item, key)
        places = [at for at, one in enumerate(merged) if _has_key(one, key, wanted)]
        if not places:
            merged.append(_without_directives(item))
            continue
        former = merged[places[0]]
        assert isinstance(former, dict)
        merged[places[0]] = strategic_merge(former, item, inner)
    return merged


def _apply_list_directives(merged: Object, target: Object, patch: Object, schema: Schema) -> None:
    for directive, value in patch.items():
        if directive.startswith(_DELETE_PREFIX):
            name = directive.removeprefix(_DELETE_PREFIX)
            if not isinstance(value, list):
                raise BadStrategicPatch(f"{directive} must be a list")
            found = merged.get(name)
            if isinstance(found, list):
                merged[name] = [one for one in found if not _is_in(one, value)]
    for directive, value in patch.items():
        if directive.startswith(_ORDER_PREFIX):
            name = directive.removeprefix(_ORDER_PREFIX)
            if not isinstance(value, list):
                raise BadStrategicPatch(f"{directive} must be a list")
            key = (schema.properties.get(name) or _UNKNOWN).merge_key
            found, former = merged.get(name), target.get(name)
            if isinstance(found, list):
                live = former if isinstance(former, list) else []
                merged[name] = _ordered(found, value, live, key)


def _ordered(found: list[Json], order: list[Json], live: list[Json], key: str) -> list[Json]:
    """The items that the client ordered in its order, the others as they stood between them."""

    def place(item: Json, among: Sequence[Json]) -> int:
        for at, other in enumerate(among):
            if _is_same(item, other, key):
                return at
        return -1

    theirs = sorted((one for one in found if place(one, order) >= 0), key=lambda x: place(x, order))
    others = [one for one in found if place(one, order) < 0]
    others.sort(key=lambda one: place(one, live) if place(one, live) >= 0 else len(live))
    ordered: list[Json] = []
    while theirs and others:
        left, right = place(others[0], live), place(theirs[0], live)
        ordered.append(others.pop(0) if 0 <= left < right else theirs.pop(0))
    return [*ordered, *others, *theirs]


def _is_same(one: Json, other: Json, key: str) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return key in one and key in other and is_equal(one[key], other[key])
    return is_equal(one, other)


def _key(item: Object, key: str) -> Json:
    if not key or key not in item:
        raise BadStrategicPatch(f"map does not contain declared merge key: {key or '(none)'}")
    return item[key]


def _has_key(item: Json, key: str, wanted: Json) -> bool:
    return isinstance(item, dict) and key in item and is_equal(item[key], wanted)


def _unique(items: list[Json]) -> list[Json]:
    found: list[Json] = []
    for item in items:
        if not _is_in(item, found):
            found.append(item)
    return found


def _is_in(item: Json, items: Sequence[Json]) -> bool:
    return any(is_equal(item, other) for other in items)


def _without_directives(value: Json) -> Json:
    """What a patch adds that was not there before: without directives, nulls delete nothing."""
    if isinstance(value, dict):
        if value.get(_DIRECTIVE) == "delete":
            return {}
        return {
            name: _without_directives(child)
            for name, child in value.items()
            if child is not None and not name.startswith("$")
        }
    if isinstance(value, list):
        return [
            _without_directives(item)
            for item in value
            if not (isinstance(item, dict) and item.get(_DIRECTIVE) in ("delete", "replace"))
        ]
    return value


def _without_nulls(value: Json) -> Json:
    if isinstance(value, dict):
        return {name: _without_nulls(one) for name, one in value.items() if one is not None}
    return copied(value)
