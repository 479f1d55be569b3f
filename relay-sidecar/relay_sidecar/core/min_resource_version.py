"""How new an answer must be: reads are monotonic, no client of the relay goes backwards in time.

Owns the highest version that any client has got, per resource (in whichever of its API versions),
and what a collection must contain to be that new. Does not know streams, requests or how long a
request waits. Guarantee: a collection reaches the minimum only when it contains what was true of
the scope at that version or later; it may do so before this can be shown, since the cursor of a
quiet stream moves with bookmarks only.
"""

import math
from dataclasses import dataclass, field
from typing import Final

from edge_sidecars.apimachinery.objects import Item, Key
from edge_sidecars.apimachinery.resources import ResourceName
from edge_sidecars.apimachinery.scope import ListScope
from edge_sidecars.apimachinery.selection.attrs import uid
from edge_sidecars.apimachinery.store import Collection
from relay_sidecar.core.listed_states import ListedStates
from relay_sidecar.core.unknown_changes import UnknownChanges

# A live stream sees a deletion one round trip after the client that asked for it; so many deletions
# fit into none.
MAX_DELETED: Final = 1000
# From here on a resourceVersion is one of the endpoint view, never etcd's: a thousand writes a
# second take 35 years to get there.
FIRST_OF_VIEW: Final = 1 << 40


@dataclass(slots=True)
class _ResourceMinimum:
    """Of one resource. `lists` are those that upstream gave at exactly `version`; `source`: what
    was handed out at that version, an object or something of a scope; None where that is unknown.
    """

    version: int = 0
    source: Item | ListScope | None = None
    lists: set[tuple[ListScope, int]] = field(default_factory=set)
    # Keys and uids in the order of deletion. A name may be deleted several times while a stream
    # still has its first object.
    deleted: dict[tuple[Key, str], None] = field(default_factory=dict)
    changed: UnknownChanges = field(default_factory=UnknownChanges)

    def raise_to(self, version: int, source: Item | ListScope | None) -> None:
        if version > self.version:
            self.version, self.source = version, source
            self.lists.clear()


class MinResourceVersion:
    """Of all resources of one relay."""

    def __init__(self) -> None:
        self._bars: dict[tuple[str, str], _ResourceMinimum] = {}
        self.states = ListedStates()

    def of(self, resource: ResourceName) -> int:
        """The highest version that was handed out."""
        bar = self._bars.get(resource.storage)
        return bar.version if bar else 0

    def raise_to(
        self, resource: ResourceName, version: int, source: Item | ListScope | None = None
    ) -> None:
        """Something of this version is handed out: `source`, an object or something of a scope."""
        self._bar(resource).raise_to(version, source)

    def listed(self, scope: ListScope, version: int, fingerprint: int) -> None:
        """A whole list of upstream is handed out; `fingerprint` as `fingerprint_of` its items.

        Its version is that of the whole of etcd, which a stream of the scope gets with the next
        bookmark only; its objects may be the same long before.
        """
        self.states.listed(scope, version, fingerprint)
        bar = self._bar(scope.resource)
        bar.raise_to(version, scope)
        if version == bar.version:
            bar.lists.add((scope, fingerprint))

    def deleted(self, resource: ResourceName, key: Key, uid: str) -> None:
        """A deletion was answered without its version (the Status has the uid)."""
        bar = self._bar(resource)
        bar.deleted[key, uid] = None
        if len(bar.deleted) > MAX_DELETED:
            del bar.deleted[next(iter(bar.deleted))]

    def changed(self, resource: ResourceName, key: Key, at: float, version: int | None) -> None:
        """A write was answered at `at` (boot clock) without the object, with its version at most:
        what is known of it is old. A name "" is any."""
        self._bar(resource).changed.add(key, at, version)

    def has_changed(self, resource: ResourceName, key: Key, *, since: float) -> bool:
        """Only upstream's newest shows what a write since then (boot clock) made of the object."""
        bar = self._bars.get(resource.storage)
        return bar is not None and bar.changed.has(key, since=since)

    def seen(self, resource: ResourceName, key: Key, version: int, *, asked_at: float) -> None:
        """Upstream's newest of an object, asked for then (boot clock), is handed out."""
        bar = self._bars.get(resource.storage)
        if bar is not None:
            bar.changed.seen(key, version, asked_at=asked_at)

    def went_back(self, resource: ResourceName, version: int) -> None:
        """Upstream is at `version`: what was handed out beyond it is of a lost history."""
        self.states.went_back(resource.storage, version)
        bar = self._bars.get(resource.storage)
        if bar is not None and bar.version > version:
            self._bars[resource.storage] = _ResourceMinimum(version)

    def is_reached(
        self,
        scope: ListScope,
        collection: Collection,
        *,
        equal_at: int = 0,
        at: int | None = None,
        asked_at: float = -math.inf,
    ) -> bool:
        """Whether a list of `scope`, out of the collection of a stream that covers it, is as new
        as all that was handed out, or `at` the version that the floor had when it was asked for.
        `equal_at`: a version at which upstream held what the collection holds now; `asked_at`
        (boot clock): when upstream was asked for what is here, or for what came before it."""
        bar = self._bars.get(scope.resource.storage)
        if bar is None:
            return True
        bound = bar.version if at is None else at
        version = max(collection.cursor, equal_at)
        is_new = version >= bound or any(
            fingerprint == collection.fingerprint and listed.covers(scope)
            for listed, fingerprint in bar.lists
        )
        return (
            is_new
            and not any(self._is_left(collection, key, dead) for key, dead in bar.deleted)
            and not bar.changed.are_missing(scope, version, asked_at=asked_at)
        )

    def is_awaited(self, scope: ListScope, collection: Collection) -> bool:
        """Whether an event that brings the stream of `scope` closer to the minimum may be on its
        way: not where what was handed out happened elsewhere."""
        bar = self._bars.get(scope.resource.storage)
        if bar is None or any(self._is_left(collection, key, dead) for key, dead in bar.deleted):
            return bar is not None
        match bar.source:
            case Item() as item:
                return scope.matches(item)
            case ListScope() as listed:
                return listed == scope
        return True

    def _bar(self, resource: ResourceName) -> _ResourceMinimum:
        return self._bars.setdefault(resource.storage, _ResourceMinimum())

    @staticmethod
    def _is_left(collection: Collection, key: Key, dead: str) -> bool:
        item = collection.objects.get(key)
        return item is not None and uid(item.raw) == dead
