"""What selectors and promises ask of an object besides its key and version.

Owns labels, the uid, its shard and fields by path; each is decoded when asked for, and only so far.
Knows no resource: whose field is called how is not its business.
"""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Struct

from edge_sidecars.apimachinery.objects import Item, decode
from edge_sidecars.apimachinery.selection.shard_ranges import fnv1a
from edge_sidecars.apimachinery.selection.shards import ShardSelector, namespace_hash


class _AttrsMetadata(Struct, gc=False):
    uid: str = ""
    name: str = ""
    namespace: str = ""
    labels: dict[str, str] | None = None


class _Labelled(Struct, gc=False):
    metadata: _AttrsMetadata


_LABELLED: Final = msgspec.json.Decoder(_Labelled)
_TREE: Final = msgspec.json.Decoder(dict[str, object])


class Attrs:
    """What selectors ask of an object; decoded when asked, and only so far."""

    __slots__ = ("_facts", "_raw", "_tree")

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._facts: _AttrsMetadata | None = None
        self._tree: dict[str, object] | None = None

    @property
    def labels(self) -> Mapping[str, str]:
        return self._known().labels or {}

    def field(self, path: str) -> str:
        """The text of a scalar at a dotted path, as selectors compare it; "" where missing."""
        if path == "metadata.name":
            return self._known().name
        if path == "metadata.namespace":
            return self._known().namespace
        return _text(self.value(path))

    def value(self, path: str) -> object:
        """The value at a dotted path (dict, list, str, int, float, bool), or None."""
        if self._tree is None:
            self._tree = decode(_TREE, self._raw)
        value: object = self._tree
        for name in path.split("."):
            if not isinstance(value, dict):
                return None
            value = value.get(name)
        return value

    def _known(self) -> _AttrsMetadata:
        if self._facts is None:
            self._facts = decode(_LABELLED, self._raw).metadata
        return self._facts


def uid(raw: bytes) -> str:
    """metadata.uid; "" where missing."""
    return decode(_LABELLED, raw).metadata.uid


def is_in_shard(item: Item, shards: ShardSelector) -> bool:
    """The hash of the uid is worked out once and kept with the item, whose uid never changes."""
    if shards.is_of_namespace:
        return shards.admits(namespace_hash(item.key[0]))
    if item.uid_hash is None:
        msgspec.structs.force_setattr(item, "uid_hash", fnv1a(uid(item.raw)))
    return shards.admits(item.uid_hash or 0)


def _text(value: object) -> str:
    """As Go prints it (k8s.io/client-go/util/jsonpath), which selectable fields of CRDs go by."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        # A JSON number with a fraction of zero is a valid integer.
        case float() if value.is_integer():
            return str(int(value))
        case _:
            return ""
