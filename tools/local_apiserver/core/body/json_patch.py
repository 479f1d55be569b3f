"""JSON patch (RFC 6902) of an object.

Guarantees: the given object is not changed. Quirks are those of kube-apiserver's library,
github.com/evanphx/json-patch v4: a negative index counts from the end, `test` of a missing member
against null succeeds, and an operation without a value has the value null.
"""

from collections.abc import Callable

from tools.local_apiserver.core.unstructured import Json, Object, copied, is_equal, text

# apiserver pkg/endpoints/handlers/patch.go: maxJSONPatchOperations
OPERATIONS_LIMIT = 10_000
# Of `copy` operations, together (jsonpatch.AccumulatedCopySizeLimit, set by apiserver to the
# request's body limit of 3 MiB); here in values, not in bytes.
COPIED_LIMIT = 1_000_000


class BadPatch(ValueError):
    """Not a patch at all (400)."""


class Inapplicable(ValueError):
    """The patch does not fit the object (422)."""


def json_patch(target: Object, patch: Json) -> Object:
    """Raises `BadPatch` and `Inapplicable`."""
    if not isinstance(patch, list):
        raise BadPatch("json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp")
    if len(patch) > OPERATIONS_LIMIT:
        raise BadPatch(
            f"The allowed maximum operations in a JSON patch is {OPERATIONS_LIMIT}, "
            f"got {len(patch)}"
        )
    document: Json = copied(target)
    budget = COPIED_LIMIT
    for operation in patch:
        if not isinstance(operation, dict):
            raise BadPatch("json: cannot unmarshal into Go value of type handlers.jsonPatchOp")
        apply = _OPERATIONS.get(text(operation, "op"))
        if apply is None:
            raise Inapplicable(f"Unexpected kind: {text(operation, 'op')}")
        if apply is _copy:
            budget -= _size(_find(document, _pointer(operation, "from")))
            if budget < 0:
                raise Inapplicable("copies too much")
        document = apply(document, operation)
    if not isinstance(document, dict):
        raise Inapplicable("not an object any more")
    return document


def _add(document: Json, operation: Object) -> Json:
    return _inserted(document, _pointer(operation, "path"), copied(operation.get("value")))


def _inserted(document: Json, pointer: list[str], value: Json) -> Json:
    if not pointer:
        return value
    parent = _find(document, pointer[:-1])
    match parent:
        case dict():
            parent[pointer[-1]] = value
        case list():
            at = len(parent) if pointer[-1] == "-" else _index(pointer[-1], len(parent) + 1)
            parent.insert(at, value)
        case _:
            raise Inapplicable(f"add operation does not apply: {pointer}")
    return document


def _remove(document: Json, operation: Object) -> Json:
    _taken(document, _pointer(operation, "path"))
    return document


def _taken(document: Json, pointer: list[str]) -> Json:
    if not pointer:
        raise Inapplicable("the whole document cannot be removed")
    parent = _find(document, pointer[:-1])
    match parent:
        case dict() if pointer[-1] in parent:
            return parent.pop(pointer[-1])
        case list():
            return parent.pop(_index(pointer[-1], len(parent)))
        case _:
            raise Inapplicable(f"Unable to remove nonexistent key: {pointer[-1]}")


def _replace(document: Json, operation: Object) -> Json:
    pointer = _pointer(operation, "path")
    value = copied(operation.get("value"))
    if not pointer:
        return value
    parent = _find(document, pointer[:-1])
    match parent:
        case dict() if pointer[-1] in parent:
            parent[pointer[-1]] = value
        case list():
            parent[_index(pointer[-1], len(parent))] = value
        case _:
            raise Inapplicable(f"replace operation does not apply: missing key: {pointer[-1]}")
    return document


def _move(document: Json, operation: Object) -> Json:
    value = _taken(document, _pointer(operation, "from"))
    return _inserted(document, _pointer(operation, "path"), value)


def _copy(document: Json, operation: Object) -> Json:
    value = copied(_find(document, _pointer(operation, "from")))
    return _inserted(document, _pointer(operation, "path"), value)


def _test(document: Json, operation: Object) -> Json:
    pointer = _pointer(operation, "path")
    wanted = operation.get("value")
    try:
        found = _find(document, pointer)
    except Inapplicable:
        if wanted is not None:
            raise
        _find(document, pointer[:-1])
        return document
    if not is_equal(found, wanted):
        raise Inapplicable(f"testing value {pointer} failed")
    return document


_OPERATIONS: dict[str, Callable[[Json, Object], Json]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}


def _pointer(operation: Object, member: str) -> list[str]:
    """RFC 6901."""
    written = operation.get(member)
    if not isinstance(written, str):
        raise Inapplicable(f"operation without {member}")
    if not written:
        return []
    if not written.startswith("/"):
        raise Inapplicable(f"{member} {written!r} does not begin with /")
    return [part.replace("~1", "/").replace("~0", "~") for part in written[1:].split("/")]


def _find(document: Json, pointer: list[str]) -> Json:
    for part in pointer:
        match document:
            case dict() if part in document:
                document = document[part]
            case list():
                document = document[_index(part, len(document))]
            case _:
                raise Inapplicable(f"missing path: {'/'.join(pointer)}")
    return document


def _index(part: str, length: int) -> int:
    digits = part.removeprefix("-")
    if not digits.isascii() or not digits.isdigit():
        raise Inapplicable(f"{part!r} is no index")
    at = int(part)
    if at < 0:
        at += length
    if not 0 <= at < length:
        raise Inapplicable(f"Unable to access invalid index: {part}")
    return at


def _size(value: Json) -> int:
    match value:
        case dict():
            return 1 + sum(map(_size, value.values()))
        case list():
            return 1 + sum(map(_size, value))
        case _:
            return 1
