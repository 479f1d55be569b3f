"""JSON merge patch (RFC 7386) of decoded JSON. The given values are not changed."""

from typing import TypeAlias

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
Object: TypeAlias = dict[str, Json]


def merge_patch(target: Json, patch: Json) -> Json:
    """RFC 7386, section 2."""
    if not isinstance(patch, dict):
        return patch
    return merge_objects(target if isinstance(target, dict) else {}, patch)


def merge_objects(target: Object, patch: Object) -> Object:
    """`merge_patch` of objects."""
    merged = dict(target)
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), value)
    return merged
