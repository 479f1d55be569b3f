"""From a request's body to an object of its resource.

Owns: what a body must be, unknown and doubled fields (fieldValidation), and the refusals of that.
Guarantees: an object that was read has metadata and a body of the right shape; for a custom
resource it has been pruned and defaulted. Source: apiserver pkg/endpoints/handlers/{create,
update}.go, apiextensions-apiserver pkg/apiserver/customresource_handler.go.
"""

import json
from collections.abc import Iterator
from enum import StrEnum

import msgspec

from edge_sidecars.apimachinery.status import Refused
from tools.local_apiserver.core import api_errors
from tools.local_apiserver.core.api_resource import Resource
from tools.local_apiserver.core.body.decoding import Undecodable, decode
from tools.local_apiserver.core.builtin.builtin_types import object_meta
from tools.local_apiserver.core.schema import field_errors
from tools.local_apiserver.core.schema.pruning import apply_defaults, drop_nulls, prune
from tools.local_apiserver.core.schema.validation import joined
from tools.local_apiserver.core.unstructured import Json, Object, is_deeper, text

# Levels of objects and lists in each other. Who walks through an object later, however it came
# there, must not come to the end of Python's stack; schemas of thirty levels are the deepest known.
DEPTH_LIMIT = 100


class FieldValidation(StrEnum):
    """What is done about unknown and doubled fields."""

    IGNORE = "Ignore"
    WARN = "Warn"
    STRICT = "Strict"


class NotAnObject(ValueError):
    """The body is no JSON object; the message says why."""


def parse(body: bytes) -> Json:
    """Raises `NotAnObject` for what is no JSON."""
    try:
        parsed: Json = msgspec.json.decode(body)
    except (ValueError, RecursionError) as error:
        raise NotAnObject(f"json parse error: {error}") from error
    return parsed


def duplicate_fields_of(body: bytes) -> list[str]:
    """The paths of keys that stand more than once in an object of a JSON text."""
    found = False

    def pairs_to_dict(pairs: list[tuple[str, Json]]) -> Object:
        nonlocal found
        made = dict(pairs)
        if len(made) == len(pairs):
            return made
        found = True
        return _DuplicateFields(pairs)

    tree: Json = json.loads(body, object_pairs_hook=pairs_to_dict)
    return list(_duplicates_in(tree, "")) if found else []


class _DuplicateFields(dict[str, Json]):
    """An object some of whose keys stand more than once."""

    def __init__(self, pairs: list[tuple[str, Json]]) -> None:
        super().__init__(pairs)
        names = [name for name, _ in pairs]
        self.duplicate_fields = sorted({name for name in names if names.count(name) > 1})


def _duplicates_in(tree: Json, path: str) -> Iterator[str]:
    if isinstance(tree, _DuplicateFields):
        yield from (joined(path, name) for name in tree.duplicate_fields)
    if isinstance(tree, dict):
        for name, child in tree.items():
            yield from _duplicates_in(child, joined(path, name))
    elif isinstance(tree, list):
        for index, child in enumerate(tree):
            yield from _duplicates_in(child, f"{path}[{index}]")


def read(resource: Resource, tree: Object) -> list[str]:
    """Reads the tree in place; returns in words what was unknown, and dropped.

    Raises `Undecodable` where kube-apiserver's decoder fails.
    """
    if is_deeper(tree, DEPTH_LIMIT):
        raise Undecodable(f"nested deeper than {DEPTH_LIMIT} levels")
    if resource.is_custom:
        return _read_custom(resource, tree)
    return [f'unknown field "{path}"' for path in decode(tree, resource.schema)]


def _read_custom(resource: Resource, tree: Object) -> list[str]:
    meta = tree.get("metadata")
    if meta is None:
        tree["metadata"] = meta = {}
    if not isinstance(meta, dict):
        raise Undecodable("json: cannot unmarshal into Go struct field metadata of type ObjectMeta")
    unknown = decode(meta, object_meta(), "metadata")
    unknown += prune(tree, resource.schema)
    drop_nulls(tree, resource.schema)
    apply_defaults(tree, resource.schema)
    return [f'unknown field "{path}"' for path in unknown]


def check_kind(resource: Resource, tree: Object) -> None:
    """Raises Refused where the object says to be another one's. A built-in one may say nothing."""
    kind, api_version = text(tree, "kind"), text(tree, "apiVersion")
    if resource.is_custom and not kind:
        raise api_errors.bad(
            f"the object provided is unrecognized (must be of type {resource.kind}): "
            "Object 'Kind' is missing"
        )
    wanted = resource.name.api_version
    if resource.is_custom and kind != resource.kind:
        raise _other_kind(resource, tree)
    if kind not in ("", resource.kind):
        raise api_errors.bad(
            f'{kind} in version "{text(tree, "apiVersion")}" cannot be handled as a '
            f'{resource.kind}: no kind "{kind}" is served here'
        )
    if api_version not in ("", wanted):
        raise api_errors.bad(
            f"the API version in the data ({api_version}) does not match the expected API version "
            f"({wanted})"
        )


def check_patched_kind(resource: Resource, tree: Object) -> None:
    """What a patch may not make of an object. Raises Refused and `Undecodable`."""
    kind, api_version = text(tree, "kind"), text(tree, "apiVersion")
    if resource.is_custom and api_version == resource.name.api_version and kind != resource.kind:
        raise _other_kind(resource, tree)
    if (kind, api_version) != (resource.kind, resource.name.api_version):
        raise Undecodable(f'no kind "{kind}" is registered for version "{api_version}"')


def _other_kind(resource: Resource, tree: Object) -> Refused:
    kind, name = text(tree, "kind"), text(tree, "metadata", "name")
    fault = field_errors.invalid("kind", kind, f"must be {resource.kind}")
    return api_errors.invalid(resource.name.group, kind, name, [fault])


def undecodable(resource: Resource, error: Undecodable) -> Refused:
    kind = resource.kind
    return api_errors.bad(
        f'{kind} in version "{resource.name.version}" cannot be handled as a {kind}: {error}'
    )
