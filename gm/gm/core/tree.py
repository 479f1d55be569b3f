"""The few ways to read a part of decoded JSON.

Guarantees: reading never raises and never changes the tree; what is missing or of another type
reads as empty. A pod template may hold anything, for its CRD keeps unknown fields.
"""

from collections.abc import Iterator
from typing import Final, TypeVar

from edge_sidecars.sedna_api.core.api_object import Json

# The API's integers are int64.
MAX_NUMBER: Final = 2**63 - 1


def part(tree: object, *path: str) -> object:
    """The value at a path of keys; None where there is none."""
    for key in path:
        if not isinstance(tree, dict):
            return None
        tree = tree.get(key)
    return tree


def mapping(tree: object, *path: str) -> Json:
    """The object at a path, or an empty one that is not part of the tree."""
    found = part(tree, *path)
    return found if isinstance(found, dict) else {}


def items(tree: object, *path: str) -> list[object]:
    """The list at a path, or an empty one that is not part of the tree."""
    found = part(tree, *path)
    return found if isinstance(found, list) else []


def objects(tree: object, *path: str) -> Iterator[Json]:
    """The objects among the items of the list at a path."""
    return (item for item in items(tree, *path) if isinstance(item, dict))


def text(tree: object, *path: str) -> str:
    """The string at a path, or ""."""
    found = part(tree, *path)
    return found if isinstance(found, str) else ""


def number(tree: object, *path: str, default: int = 0) -> int:
    """The integer at a path; true and false are none, nor is one that the API has not."""
    found = part(tree, *path)
    if not isinstance(found, int) or isinstance(found, bool) or abs(found) > MAX_NUMBER:
        return default
    return found


def flag(tree: object, *path: str) -> bool:
    """Whether true is at a path."""
    return part(tree, *path) is True


def values(tree: object, path: tuple[str, ...]) -> list[object]:
    """Those of `found`, without where they are, which costs more than to find them."""
    for index, key in enumerate(path):
        if key == "*":
            rest = path[index + 1 :]
            return [value for item in items(tree) for value in values(item, rest)]
        tree = tree.get(key) if isinstance(tree, dict) else None
    return [tree]


def found(tree: object, path: tuple[str, ...]) -> Iterator[tuple[str, object]]:
    """Each value at a path, with its place in Kubernetes' words; `*` is each item of a list.
    One that is missing at the end of its path comes as None."""
    return _found(tree, path, "")


def _found(tree: object, path: tuple[str, ...], where: str) -> Iterator[tuple[str, object]]:
    if not path:
        yield where, tree
        return
    head, rest = path[0], path[1:]
    if head == "*":
        for index, item in enumerate(items(tree)):
            yield from _found(item, rest, f"{where}[{index}]")
        return
    yield from _found(part(tree, head), rest, f"{where}.{head}" if where else head)


Tree = TypeVar("Tree")


def copied(tree: Tree) -> Tree:
    """Deeply; only of what JSON has, which copy.deepcopy takes five times as long for."""
    if isinstance(tree, dict):
        return {key: copied(value) for key, value in tree.items()}  # type: ignore[return-value]
    if isinstance(tree, list | tuple):
        return type(tree)(map(copied, tree))
    return tree
