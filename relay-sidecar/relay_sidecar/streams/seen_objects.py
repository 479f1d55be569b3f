"""What clients asked for outside of any stream: objects by name, and lists asked for once.

Objects of a GET or a write are bounded in bytes, and evicted by when they were last asked for. What
the node asked for with its certificate is apart: others cannot evict it. A list by selectors is
worth a stream when the same scope is listed again within some minutes, so that a client that lists
by ever new selectors does not make the relay follow each. Knows no stream and no request.
"""

import math
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from msgspec import Struct

from edge_sidecars.apimachinery.objects import Item, Key
from edge_sidecars.apimachinery.resources import ResourceName
from edge_sidecars.apimachinery.scope import ListScope
from relay_sidecar.journal.records import ObjectEvicted, ObjectSeen

# Bytes of an object besides its own: the entry, its names and numbers (sys.getsizeof, rounded).
OVERHEAD: Final = 600
# Of the budget: what callers other than the node may take, and what the node may (limits.md, 3).
OTHERS_SHARE, NODE_SHARE = 0.25, 0.5
# Seconds; how exact the time of an object is on disk that upstream has confirmed since.
CONFIRMED_EVERY: Final = 60.0


@dataclass(slots=True)
class _Entry:
    item: Item
    at: float
    persisted_at: float
    is_of_node: bool

    @property
    def size(self) -> int:
        return len(self.item.raw) + OVERHEAD


_ObjectKey = tuple[ResourceName, Key]


def seen_budget(budget: int) -> int:
    """Bytes, of all that a relay may keep."""
    return int(budget * (NODE_SHARE + OTHERS_SHARE))


class SeenObjects:
    """`budget`: bytes that the relay may keep of all things."""

    def __init__(self, budget: int) -> None:
        self._limits = {True: int(budget * NODE_SHARE), False: int(budget * OTHERS_SHARE)}
        self._sizes = {True: 0, False: 0}
        # By class, what was asked for longest ago first.
        self._seen: dict[bool, OrderedDict[_ObjectKey, _Entry]] = {
            True: OrderedDict(),
            False: OrderedDict(),
        }
        # API versions in which an object was ever seen, by resource: discovery bounds them.
        self._versions: dict[tuple[str, str], set[ResourceName]] = {}
        # Objects that were evicted for want of room, ever.
        self.evicted = 0
        # Of these, objects were evicted.
        self.evicted_of: set[ResourceName] = set()

    def __iter__(self) -> Iterator[ObjectSeen]:
        for entries in self._seen.values():
            for named, entry in tuple(entries.items()):
                yield _record(named, entry)

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(self._sizes.values())

    @property
    def limit(self) -> int:
        """Bytes of which others than the node may use."""
        return self._limits[False]

    def get(self, resource: ResourceName, key: Key) -> tuple[Item, float] | None:
        """It counts as asked for."""
        named = (resource, key)
        for entries in self._seen.values():
            entry = entries.get(named)
            if entry is not None:
                entries.move_to_end(named)
                return entry.item, entry.at
        return None

    def remember(
        self,
        resource: ResourceName,
        item: Item,
        *,
        at: float,
        asked_at: float = -math.inf,
        is_of_node: bool = False,
    ) -> list[ObjectSeen | ObjectEvicted]:
        """An object that upstream answered at wall time `at`. `asked_at` where that is upstream's
        newest: what was known before then is older, whatever its version. It is not remembered
        where a newer one is known. What the node asked for once stays the node's. Returns what the
        disk does not have yet: nothing where upstream confirmed what it has a moment ago."""
        named = (resource, item.key)
        known = self._find(named)
        if known is not None and known.item.version > item.version and known.at >= asked_at:
            return []
        was_of_node = known is not None and known.is_of_node
        entry = _Entry(item, at, at, is_of_node or was_of_node)
        is_same = known is not None and _is_same(known.item, item)
        is_moved = known is not None and known.is_of_node is not entry.is_of_node
        if known is not None:
            self._pop(named)
            if is_same and not is_moved and abs(at - known.persisted_at) < CONFIRMED_EVERY:
                entry.persisted_at = known.persisted_at
        if entry.size > self._limits[entry.is_of_node]:
            return [] if known is None else [_eviction(named, known)]
        self._seen[entry.is_of_node][named] = entry
        self._versions.setdefault(resource.storage, set()).add(resource)
        self._sizes[entry.is_of_node] += entry.size
        records: list[ObjectSeen | ObjectEvicted] = list(self._evict(entry.is_of_node))
        if is_moved and known is not None:
            records.append(_eviction(named, known))
        if entry.persisted_at == at:
            records.append(_record(named, entry))
        return records

    def ended(self, resource: ResourceName, key: Key, version: int) -> list[ObjectEvicted]:
        """The object was deleted at that version. Returns what the disk is to lose."""
        known = self._find((resource, key))
        if known is None or known.item.version > version:
            return []
        return self.forget(resource, key)

    def forget(self, resource: ResourceName, key: Key) -> list[ObjectEvicted]:
        """In each API version. Returns what the disk is to lose."""
        versions = self._versions.get(resource.storage, ())
        keys = [(each, key) for each in versions]
        found = [(named, self._pop(named)) for named in keys]
        return [_eviction(named, entry) for named, entry in found if entry is not None]

    def went_back(self, resource: ResourceName, version: int) -> list[ObjectEvicted]:
        """Forgets what is beyond `version`, and returns what that was."""
        alike = (it for it in self if it.resource.storage == resource.storage)
        beyond = [it for it in alike if it.item.version > version]
        return [gone for it in beyond for gone in self.forget(resource, it.item.key)]

    def _find(self, named: _ObjectKey) -> _Entry | None:
        return self._seen[True].get(named) or self._seen[False].get(named)

    def _pop(self, named: _ObjectKey) -> _Entry | None:
        for of_node, entries in self._seen.items():
            entry = entries.pop(named, None)
            if entry is not None:
                self._sizes[of_node] -= entry.size
                return entry
        return None

    def _evict(self, of_node: bool) -> Iterator[ObjectEvicted]:
        entries = self._seen[of_node]
        while self._sizes[of_node] > self._limits[of_node]:
            named, entry = entries.popitem(last=False)
            self._sizes[of_node] -= entry.size
            self.evicted += 1
            self.evicted_of.add(named[0])
            yield _eviction(named, entry)


def _record(named: _ObjectKey, entry: _Entry) -> ObjectSeen:
    return ObjectSeen(named[0], entry.item, entry.at, entry.is_of_node)


def _eviction(named: _ObjectKey, entry: _Entry) -> ObjectEvicted:
    return ObjectEvicted(*named, entry.is_of_node)


def _is_same(one: Item, other: Item) -> bool:
    return one.version == other.version and one.raw == other.raw


# Scopes that are remembered.
MOST: Final = 1000
# Bytes of each (sys.getsizeof, rounded).
SCOPE_BYTES: Final = 1000


class _Asking(Struct):
    at: float
    is_again: bool = False


class Askings:
    """`within`: seconds."""

    def __init__(self, within: float) -> None:
        self._within = within
        self._askings: OrderedDict[ListScope, _Asking] = OrderedDict()

    @property
    def size(self) -> int:
        """Bytes."""
        return SCOPE_BYTES * len(self._askings)

    def asked(self, scope: ListScope, *, now: float) -> None:
        """A client began to list it."""
        before = self._askings.pop(scope, None)
        is_again = before is not None and now - before.at <= self._within
        self._askings[scope] = _Asking(now, is_again)
        while len(self._askings) > MOST:
            self._askings.popitem(last=False)

    def is_new(self, scope: ListScope, *, now: float) -> bool:
        """No client has begun to list it lately."""
        before = self._askings.get(scope)
        return before is None or now - before.at > self._within

    def are_worth_a_stream(self, scope: ListScope) -> bool:
        """Whether it was asked for twice in a row, or is a whole namespace or more: what clients
        ask for first of all, and again while the link is cut."""
        asking = self._askings.get(scope)
        return not scope.params or (asking is not None and asking.is_again)
