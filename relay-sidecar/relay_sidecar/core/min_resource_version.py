"""How new an answer must be: reads are monotonic, no client of the relay goes backwards in time.

Owns the highest version that any client got, per resource, and of objects that were asked for by
name. Owns also at which version upstream held what a part of a stream holds: a list of a namespace
has etcd's version, which a wider stream gets with its next bookmark only. Owns the objects that a
write changed, whose new state no answer has shown.
Guarantees: A collection reaches the minimum only when it contains what was true of the scope at
that version or later. A version is given only for the very objects that upstream listed at it. Each
change counts until something newer is known. Bounded. Knows no streams and no requests.
"""

import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from edge_sidecars.apimachinery.objects import Item, Key
from edge_sidecars.apimachinery.resources import ResourceName
from edge_sidecars.apimachinery.scope import ListScope
from edge_sidecars.apimachinery.selection.attrs import uid
from edge_sidecars.apimachinery.store import Collection

MAX_SCOPES: Final = 1000
# Bytes of a scope with what is known of it (sys.getsizeof, rounded).
SCOPE_BYTES: Final = 1000


@dataclass(slots=True)
class _ListedState:
    """`compared`: with which objects of a stream, by their fingerprint, and whether its part was
    the same."""

    version: int
    fingerprint: int
    compared: tuple[int, bool] | None = None


class ListedStates:
    """Of all resources."""

    def __init__(self) -> None:
        self._states: OrderedDict[ListScope, _ListedState] = OrderedDict()
        # Called with each scope of which something else is known now.
        self.on_change: Callable[[ListScope], None] = lambda scope: None

    @property
    def size(self) -> int:
        """Bytes."""
        return SCOPE_BYTES * len(self._states)

    def listed(self, scope: ListScope, version: int, fingerprint: int) -> None:
        """Upstream held this at that version; `fingerprint` as `fingerprint_of` its items."""
        before = self._states.get(scope)
        if before is not None and before.version > version:
            return
        self._states[scope] = _ListedState(version, fingerprint)
        self._states.move_to_end(scope)
        self.on_change(scope)
        if len(self._states) > MAX_SCOPES:
            self.on_change(self._states.popitem(last=False)[0])

    def get(self, scope: ListScope) -> tuple[int, int] | None:
        """The version and the fingerprint that upstream's last list of it had."""
        state = self._states.get(scope)
        return None if state is None else (state.version, state.fingerprint)

    def version(
        self, scope: ListScope, version: int, *, whole: int, part: Callable[[], int]
    ) -> int:
        """The highest version at which upstream is known to have held what a stream holds of the
        scope, `version` at least. `whole` is the fingerprint of all that the stream holds, `part`
        makes that of the scope."""
        state = self._states.get(scope)
        if state is None or state.version <= version:
            return version
        if state.compared is None or state.compared[0] != whole:
            state.compared = (whole, part() == state.fingerprint)
        return state.version if state.compared[1] else version

    def went_back(self, resource: tuple[str, str], version: int) -> None:
        """What upstream held beyond `version` is of a lost history."""
        for scope, state in tuple(self._states.items()):
            if scope.resource.storage == resource and state.version > version:
                del self._states[scope]
                self.on_change(scope)


# A change is asked about with the next read of its object or collection.
MAX_CHANGES: Final = 1000
# Objects of a resource: upstream's cache is behind by less than so many answers.
MAX_SHOWN: Final = 200
# Namespaces of which all objects count as changed; past that, all namespaces do.
MAX_NAMESPACES: Final = 100


@dataclass(frozen=True, slots=True)
class _Change:
    """Answered at `at` (boot clock); `version` is the object's since then, None where the answer
    did not tell it."""

    at: float
    version: int | None

    def is_missing(self, version: int, asked_at: float) -> bool:
        """In what has come to `version`, and holds what upstream was asked for at `asked_at`."""
        return asked_at < self.at and (self.version is None or version < self.version)


class UnknownChanges:
    """Of one resource. A name "" is all of a namespace, both "" are all objects."""

    def __init__(self) -> None:
        self._changes: dict[Key, _Change] = {}
        self._wide: dict[str, _Change] = {}
        # Of all of them, the latest.
        self._latest = -math.inf

    def add(self, key: Key, at: float, version: int | None) -> None:
        namespace, name = key
        self._latest = max(self._latest, at)
        if not name:
            self._widen(namespace, _Change(at, None))
            return
        self._changes.pop(key, None)
        self._changes[key] = _Change(at, version)
        if len(self._changes) > MAX_CHANGES:
            oldest = next(iter(self._changes))
            self._widen(oldest[0], self._changes.pop(oldest))

    def has(self, key: Key, *, since: float) -> bool:
        """Whether the object has changed since then."""
        return self._latest >= since and any(it.at >= since for it in self._of_one(key))

    def seen(self, key: Key, version: int, *, asked_at: float) -> None:
        """This state of an object, asked for then, is known now."""
        change = self._changes.get(key)
        if change is not None and not change.is_missing(version, asked_at):
            del self._changes[key]

    def are_missing(self, scope: ListScope, version: int, *, asked_at: float) -> bool:
        """Whether what has come to `version`, and holds what upstream was asked for at `asked_at`,
        may lack one of a scope."""
        if asked_at >= self._latest:
            return False
        if scope.name is not None and scope.namespace:
            found = self._of_one((scope.namespace, scope.name))
        else:
            found = [it for key, it in self._changes.items() if _may_hold(scope, key)]
            found += [it for where, it in self._wide.items() if _may_hold(scope, (where, ""))]
        return any(change.is_missing(version, asked_at) for change in found)

    def _of_one(self, key: Key) -> list[_Change]:
        found = (self._changes.get(key), self._wide.get(key[0]), self._wide.get(""))
        return [change for change in found if change is not None]

    def _widen(self, namespace: str, change: _Change) -> None:
        if len(self._wide) >= MAX_NAMESPACES and namespace not in self._wide:
            latest = max([change, *self._wide.values()], key=lambda it: it.at)
            self._wide.clear()
            namespace, change = "", latest
        before = self._wide.get(namespace)
        if before is None or before.at <= change.at:
            self._wide[namespace] = _Change(change.at, None)


def _may_hold(scope: ListScope, key: Key) -> bool:
    namespace, name = key
    is_there = not scope.namespace or not namespace or scope.namespace == namespace
    return is_there and (scope.name is None or not name or scope.name == name)


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
    # The versions of objects that were read or written by name, 0 of those that were deleted; the
    # latest last.
    shown: OrderedDict[Key, int] = field(default_factory=OrderedDict)

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

    def show(self, resource: ResourceName, key: Key, version: int) -> None:
        """A state of one object is handed out, by its name; 0: that it is gone."""
        shown = self._bar(resource).shown
        shown[key] = version
        shown.move_to_end(key)
        if len(shown) > MAX_SHOWN:
            shown.popitem(last=False)

    def is_older(self, resource: ResourceName, key: Key, version: int) -> bool:
        """Whether a state of the object, 0 for none, may be older than what was handed out of it in
        any API version."""
        bar = self._bars.get(resource.storage)
        known = None if bar is None else bar.shown.get(key)
        return known is not None and (version < known or (known == 0 and version > 0))

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
        as all that was handed out, or `at` the minimum when it was asked for.
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
