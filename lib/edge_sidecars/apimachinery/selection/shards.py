"""Shard selectors: which hashes they select, and their normalised text.

Guarantees: the text parses back to an equal value and is the one that kube-apiserver answers with
in `metadata.shardInfo`. Parsing and its messages: shard_parser.
Sources: KEP-5866; k8s.io/apimachinery v0.36, pkg/sharding/{selector,hash,accessor}.go.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache

from edge_sidecars.apimachinery.lru import lru
from edge_sidecars.apimachinery.selection.selector import CACHE_SIZE
from edge_sidecars.apimachinery.selection.shard_parser import NAMESPACE, ShardRange, parse_ranges
from edge_sidecars.apimachinery.selection.shard_ranges import fnv1a


def _union(spans: Iterable[tuple[int, int]]) -> list[int]:
    bounds: list[int] = []
    for start, end in sorted(spans):
        if bounds and start <= bounds[-1]:
            bounds[-1] = max(bounds[-1], end)
        else:
            bounds += (start, end)
    return bounds


@dataclass(frozen=True, slots=True)
class ShardSelector:
    """Any of the ranges holds; all are of one field. Without a range it selects everything."""

    ranges: tuple[ShardRange, ...] = ()
    # Start, end, start, end … of the union of the ranges, ascending.
    _bounds: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        spans = ((int(each.start, 16), int(each.end, 16)) for each in self.ranges)
        object.__setattr__(self, "_bounds", tuple(_union(spans)))

    @staticmethod
    def parse(text: str) -> ShardSelector:
        """An empty text is no selector. Raises BadSelector."""
        return _parse(text) if text else EVERYTHING

    @property
    def is_everything(self) -> bool:
        return not self.ranges

    @property
    def is_of_namespace(self) -> bool:
        """Whether the hash is that of the namespace, not that of the uid."""
        return bool(self.ranges) and self.ranges[0].field == NAMESPACE

    def admits(self, hashed: int) -> bool:
        """Whether an object may have this hash of the field."""
        return self.is_everything or bisect_right(self._bounds, hashed) % 2 == 1

    def matches(self, uid: str, namespace: str) -> bool:
        """Whether the object of this uid and namespace is selected."""
        return self.admits(namespace_hash(namespace) if self.is_of_namespace else fnv1a(uid))

    def __str__(self) -> str:
        return " || ".join(
            f"shardRange({each.field}, '{each.start}', '{each.end}')" for each in self.ranges
        )


EVERYTHING = ShardSelector()


@lru(CACHE_SIZE)
def _parse(text: str) -> ShardSelector:
    return ShardSelector(tuple(parse_ranges(text)))


# Few namespaces, many objects.
namespace_hash = lru_cache(CACHE_SIZE)(fnv1a)
