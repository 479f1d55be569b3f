"""JSON as decoded: the type, and the few ways to read a part of it.

Guarantees: reading a part never raises; what is missing or of another type reads as empty.
Writing goes through plain dict and list operations of whoever owns the tree.
"""

from collections.abc import Iterable, Iterator

from edge_sidecars.apimachinery.merge_patch import Json as Json
from edge_sidecars.apimachinery.merge_patch import Object as Object


def part(tree: Json, *path: str) -> Json:
    """The value at a path of object keys; None where there is none."""
    for key in path:
        if not isinstance(tree, dict):
            return None
        tree = tree.get(key)
    return tree


def mapping(tree: Json, *path: str) -> Object:
    """The object at a path, or an empty one that is not part of the tree."""
    found = part(tree, *path)
    return found if isinstance(found, dict) else {}


def made(tree: Object, *path: str) -> Object:
    """The object at a path, which is put there where there is none."""
    for key in path:
        found = tree.get(key)
        if not isinstance(found, dict):
            found = tree[key] = {}
        tree = found
    return tree


def items(tree: Json, *path: str) -> list[Json]:
    """The list at a path, or an empty one that is not part of the tree."""
    found = part(tree, *path)
    return found if isinstance(found, list) else []


def objects(tree: Json, *path: str) -> Iterator[Object]:
    """The objects among the items of the list at a path."""
    return (item for item in items(tree, *path) if isinstance(item, dict))


def text(tree: Json, *path: str) -> str:
    """The string at a path, or ""."""
    found = part(tree, *path)
    return found if isinstance(found, str) else ""


def texts(tree: Json, *path: str) -> list[str]:
    """The strings of the list at a path."""
    return [item for item in items(tree, *path) if isinstance(item, str)]


def number(tree: Json, *path: str) -> int | None:
    """The whole number at a path; JSON's true is none."""
    found = part(tree, *path)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def is_deeper(tree: Json, levels: int) -> bool:
    """Whether objects and lists are nested in each other more than so many levels."""
    level = [tree]
    for _ in range(levels + 1):
        level = [
            child
            for node in level
            if isinstance(node, dict | list)
            for child in (node.values() if isinstance(node, dict) else node)
            if isinstance(child, dict | list)
        ]
        if not level:
            return False
    return True


def copied(tree: Json) -> Json:
    """A tree that shares no object or list with the given one."""
    if isinstance(tree, dict):
        return {key: copied(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [copied(item) for item in tree]
    return tree


def copied_object(tree: Object) -> Object:
    """`copied` of an object."""
    return {key: copied(value) for key, value in tree.items()}


def strings(values: Iterable[str]) -> list[Json]:
    """A JSON list of strings."""
    return list(values)


def is_equal(one: Json, other: Json) -> bool:
    """Whether both are the same JSON; Python would take 1 and true for equal."""
    if isinstance(one, dict):
        return (
            isinstance(other, dict)
            and one.keys() == other.keys()
            and all(is_equal(value, other[key]) for key, value in one.items())
        )
    if isinstance(one, list):
        return (
            isinstance(other, list)
            and len(one) == len(other)
            and all(is_equal(*pair) for pair in zip(one, other, strict=True))
        )
    return isinstance(one, bool) is isinstance(other, bool) and one == other
