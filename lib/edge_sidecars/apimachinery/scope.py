"""What a list, a watch or a stream is about: a resource, a namespace and selectors.

Owns: when one stream can serve another request, and what then remains to be filtered.
Guarantees: `covers` is sound: it is true only where each object of the other is in this one.
It does not reason beyond single requirements, so it may be false where it need not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import quote

from edge_sidecars.apimachinery.objects import Item
from edge_sidecars.apimachinery.resources import ResourceName, fields_of
from edge_sidecars.apimachinery.selection.attrs import Attrs, is_in_shard
from edge_sidecars.apimachinery.selection.fields import (
    NAME,
    NAMESPACE,
    FieldRequirement,
    FieldSelector,
)
from edge_sidecars.apimachinery.selection.labels import LabelSelector
from edge_sidecars.apimachinery.selection.shards import EVERYTHING, ShardSelector

__all__ = ["ListScope", "Predicate", "ResourceName"]

# An object's name and namespace never change.
_KEY_PATHS = frozenset({NAME, NAMESPACE})


@dataclass(frozen=True, slots=True)
class ListScope:
    """`namespace` "" is all namespaces, or none where the resource has none."""

    resource: ResourceName
    namespace: str = ""
    labels: LabelSelector = field(default_factory=LabelSelector)
    fields: FieldSelector = field(default_factory=FieldSelector)
    # With the namespace, which is a field like others: `metadata.namespace=`.
    _facts: FieldSelector = field(init=False, repr=False, compare=False)
    # Asked for with each event.
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        facts = self.fields
        if self.namespace:
            of_namespace = FieldRequirement(NAMESPACE, True, self.namespace)
            facts = FieldSelector.of((*facts.requirements, of_namespace))
        object.__setattr__(self, "_facts", facts)
        parts = (self.resource, self.namespace, self.labels, self.fields)
        object.__setattr__(self, "_hash", hash(parts))

    def __hash__(self) -> int:
        return self._hash

    @property
    def path(self) -> str:
        """The collection's path, percent-encoded."""
        namespace = f"/namespaces/{quote(self.namespace, safe='')}" if self.namespace else ""
        return f"{self.resource.api_path}{namespace}/{quote(self.resource.plural, safe='')}"

    @property
    def params(self) -> dict[str, str]:
        texts = {"labelSelector": str(self.labels), "fieldSelector": str(self.fields)}
        return {key: text for key, text in texts.items() if text}

    @property
    def name(self) -> str | None:
        """The one name that an object here can have, None where it is not given."""
        return self.fields.exact(NAME)

    def covers(self, other: ListScope) -> bool:
        """Whether each object of the other is in this scope."""
        return (
            self.resource == other.resource
            and self.labels.covers(other.labels)
            and self._facts.covers(other._facts)
        )

    def residual(
        self, narrower: ListScope, *, shards: ShardSelector = EVERYTHING
    ) -> Predicate | None:
        """What to filter of this scope's objects to get those of a scope that it covers, in these
        shards; None where that is all of them."""
        labels = narrower.labels.residual(self.labels)
        fields = narrower._facts.residual(self._facts)
        if labels.is_everything and fields.is_everything and shards.is_everything:
            return None
        return Predicate.of(self.resource, labels, fields, shards)

    def matches(self, item: Item) -> bool:
        """Whether an object of the resource is in this scope."""
        return Predicate.of(self.resource, self.labels, self._facts).matches(item)

    def __str__(self) -> str:
        query = "&".join(f"{key}={text}" for key, text in self.params.items())
        return f"{self.path}?{query}" if query else self.path


@dataclass(frozen=True, slots=True)
class Predicate:
    """A test of objects of one resource.

    `key` asks for no more than name and namespace, so that the object need not be decoded.
    """

    resource: ResourceName
    key: FieldSelector
    labels: LabelSelector
    fields: FieldSelector
    shards: ShardSelector = EVERYTHING

    @staticmethod
    def of(
        resource: ResourceName,
        labels: LabelSelector,
        fields: FieldSelector,
        shards: ShardSelector = EVERYTHING,
    ) -> Predicate:
        key, rest = fields.partition(_KEY_PATHS)
        return Predicate(resource, key, labels, rest, shards)

    def matches(self, item: Item, facets: Attrs | None = None) -> bool:
        """`facets` are the item's own, where several predicates look at it."""
        namespace, name = item.key
        if not self.key.matches(lambda path: name if path == NAME else namespace):
            return False
        if not self.shards.is_everything and not is_in_shard(item, self.shards):
            return False
        if self.labels.is_everything and self.fields.is_everything:
            return True
        seen = facets or Attrs(item.raw)
        return self.labels.matches(seen.labels) and (
            self.fields.is_everything or self.fields.matches(fields_of(self.resource, seen))
        )
