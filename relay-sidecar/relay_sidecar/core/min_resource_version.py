"""How new an answer must be: reads are monotonic, no client of the relay goes backwards in time.

Owns the highest version that any client has got, per resource, and what a collection must contain
to be that new. Does not know streams, requests or how long a request waits. Guarantee: a collection
reaches the minimum only when it contains what was true of the scope at that version or later; it
may do so before this can be shown, since the cursor of a quiet stream moves with bookmarks only.
"""

from dataclasses import dataclass, field
from typing import Final

from edge_sidecars.apimachinery.objects import Key
from edge_sidecars.apimachinery.resources import ResourceName
from edge_sidecars.apimachinery.scope import ListScope
from edge_sidecars.apimachinery.selection.attrs import uid
from edge_sidecars.apimachinery.store import Collection

# A live stream sees a deletion one round trip after the client that asked for it; so many deletions
# fit into none.
MAX_DELETED: Final = 1000


@dataclass(slots=True)
class _ResourceMinimum:
    """Of one resource. `lists` are those that upstream gave at exactly `version`."""

    version: int = 0
    lists: set[tuple[ListScope, int]] = field(default_factory=set)
    # Keys and uids in the order of deletion. A name may be deleted several times while a stream
    # still has its first object.
    deleted: dict[tuple[Key, str], None] = field(default_factory=dict)

    def raise_to(self, version: int) -> None:
        if version > self.version:
            self.version = version
            self.lists.clear()


class MinResourceVersion:
    """Of all resources of one relay."""

    def __init__(self) -> None:
        self._bars: dict[ResourceName, _ResourceMinimum] = {}

    def of(self, resource: ResourceName) -> int:
        """The highest version that was handed out."""
        bar = self._bars.get(resource)
        return bar.version if bar else 0

    def raise_to(self, resource: ResourceName, version: int) -> None:
        """Something of this version is handed out."""
        self._bar(resource).raise_to(version)

    def listed(self, scope: ListScope, version: int, fingerprint: int) -> None:
        """A whole list of upstream is handed out; `fingerprint` as `fingerprint_of` its items.

        Its version is that of the whole of etcd, which a stream of the scope gets with the next
        bookmark only; its objects may be the same long before.
        """
        bar = self._bar(scope.resource)
        bar.raise_to(version)
        if version == bar.version:
            bar.lists.add((scope, fingerprint))

    def deleted(self, resource: ResourceName, key: Key, uid: str) -> None:
        """A deletion was answered without its version (the Status has the uid)."""
        bar = self._bar(resource)
        bar.deleted[key, uid] = None
        if len(bar.deleted) > MAX_DELETED:
            del bar.deleted[next(iter(bar.deleted))]

    def went_back(self, resource: ResourceName, version: int) -> None:
        """Upstream is at `version`: what was handed out beyond it is of a lost history."""
        bar = self._bars.get(resource)
        if bar is not None and bar.version > version:
            self._bars[resource] = _ResourceMinimum(version)

    def is_reached(
        self, scope: ListScope, collection: Collection, *, equal_at: int = 0, at: int | None = None
    ) -> bool:
        """Whether a list of `scope`, out of the collection of a stream that covers it, is as new
        as all that was handed out, or `at` the version that the floor had when it was asked for.
        `equal_at`: a version at which upstream held what the collection holds now."""
        bar = self._bars.get(scope.resource)
        if bar is None:
            return True
        bound = bar.version if at is None else at
        is_new = max(collection.cursor, equal_at) >= bound or any(
            fingerprint == collection.fingerprint and listed.covers(scope)
            for listed, fingerprint in bar.lists
        )
        return is_new and not any(self._is_left(collection, key, dead) for key, dead in bar.deleted)

    def _bar(self, resource: ResourceName) -> _ResourceMinimum:
        return self._bars.setdefault(resource, _ResourceMinimum())

    @staticmethod
    def _is_left(collection: Collection, key: Key, dead: str) -> bool:
        item = collection.objects.get(key)
        return item is not None and uid(item.raw) == dead
