"""The objects of one stream, the window of its latest changes, and the cursor between the two.

Owns what a stream knows at its cursor; does not know selectors, watchers or how it is kept on disk.
Guarantees: The collection is moved by its own events only, in their order. `since` returns every
change after a version or raises `Expired`, never part of them. The window stays within its bounds
by forgetting the oldest changes. Equal fingerprints mean the same objects at the same versions.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from edge_sidecars.apimachinery.objects import Event, Item, Key
from edge_sidecars.apimachinery.resource_version import with_version
from edge_sidecars.apimachinery.watch_events import EventType

# What a change costs in memory beyond the bytes of objects: itself, an item, its key and version.
_CHANGE_OVERHEAD: Final = 400
_FINGERPRINT_BYTES: Final = 16
_FINGERPRINT_MASK: Final = (1 << 8 * _FINGERPRINT_BYTES) - 1


class Expired(Exception):
    """The changes since this version are no longer all known: 410 Gone."""


class ObjectChange(Struct, frozen=True, eq=False, gc=False):
    """One step of a collection; `item` of DELETED is the last state at the version of its end."""

    type: EventType
    version: int
    item: Item
    previous: Item | None


class Collection:
    """Of one stream."""

    def __init__(self, *, window_bytes: int, window_events: int) -> None:
        self._window_bytes = window_bytes
        self._window_events = window_events
        self._objects: dict[Key, Item] = {}
        self._window: deque[ObjectChange] = deque()
        self._object_bytes = 0
        self._held_bytes = 0
        self.objects: Mapping[Key, Item] = MappingProxyType(self._objects)
        self.kind = ""
        self.api_version = ""
        self.cursor = 0
        self.window_start = 0
        self.is_synced = False
        self.fingerprint = 0

    @property
    def size_bytes(self) -> int:
        """Of all objects and of the window, in memory."""
        return self._object_bytes + self._held_bytes

    @property
    def is_whole(self) -> bool:
        """Whether every change at the cursor's version is known: deletions may share one."""
        if not self._window or self._window[-1].version < self.cursor:
            return True
        return self._window[-1].type is not EventType.DELETED

    def replace(self, items: Iterable[Item], cursor: int, *, kind: str, api_version: str) -> None:
        """A complete list at `cursor`; the window restarts there."""
        self._objects.clear()
        self._objects.update((item.key, item) for item in items)
        self._window.clear()
        self._object_bytes = sum(len(item.raw) for item in self._objects.values())
        self._held_bytes = 0
        self.kind = kind
        self.api_version = api_version
        self.cursor = self.window_start = cursor
        self.is_synced = True
        self.fingerprint = fingerprint_of(self._objects.values())

    def apply(self, event: Event) -> ObjectChange | None:
        """Moves the cursor to the event; the change that it made, if it made one."""
        if event.version < self.cursor:
            return None
        change = self._change(event) if event.item else None
        self.cursor = event.version
        if change is not None:
            self._take(change)
            self._remember(change)
        return change

    def clear(self) -> None:
        """Nothing is known any more."""
        self.replace((), 0, kind=self.kind, api_version=self.api_version)
        self.is_synced = False

    def fingerprint_at(self, version: int) -> int | None:
        """That of the objects as they were at an earlier version. None where that is not known any
        more, or not yet: above the cursor, and at it while deletions may come that share it."""
        if version > self.cursor or version < self.window_start:
            return None
        if version == self.cursor and not self.is_whole:
            return None
        found = self.fingerprint
        for change in reversed(self._window):
            if change.version <= version:
                break
            if change.type is not EventType.DELETED:
                found -= _digest(change.item)
            if change.previous is not None:
                found += _digest(change.previous)
        return found & _FINGERPRINT_MASK

    def since(self, version: int) -> list[ObjectChange]:
        """All changes after a version, oldest first. Raises `Expired`."""
        if version < self.window_start:
            raise Expired
        found: list[ObjectChange] = []
        for change in reversed(self._window):
            if change.version <= version:
                break
            found.append(change)
        found.reverse()
        return found

    def forget_up_to(self, version: int) -> int:
        """Takes the changes up to `version` out of the window; how many bytes these were."""
        before = self._held_bytes
        while self._window and self._window[0].version <= version:
            self._forget_oldest()
        return before - self._held_bytes

    def _change(self, event: Event) -> ObjectChange | None:
        assert event.item is not None
        previous = self._objects.get(event.item.key)
        # etcd ends a lease with one revision for all of its keys (Events share leases), so that
        # several deletions may carry the version of the cursor; what is known already may not.
        if event.version == self.cursor and (previous is None or previous.version >= event.version):
            return None
        if event.type is EventType.DELETED:
            if previous is None:
                return None
            return ObjectChange(EventType.DELETED, event.version, event.item, previous)
        kind = EventType.ADDED if previous is None else EventType.MODIFIED
        return ObjectChange(kind, event.version, event.item, previous)

    def _take(self, change: ObjectChange) -> None:
        fingerprint = self.fingerprint
        if change.previous is not None:
            fingerprint -= _digest(change.previous)
            self._object_bytes -= len(change.previous.raw)
        if change.type is EventType.DELETED:
            del self._objects[change.item.key]
        else:
            fingerprint += _digest(change.item)
            self._objects[change.item.key] = change.item
            self._object_bytes += len(change.item.raw)
        self.fingerprint = fingerprint & _FINGERPRINT_MASK

    def _remember(self, change: ObjectChange) -> None:
        self._window.append(change)
        self._held_bytes += _held(change)
        while self._window and (
            len(self._window) > self._window_events or self._held_bytes > self._window_bytes
        ):
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        oldest = self._window.popleft()
        self._held_bytes -= _held(oldest)
        self.window_start = oldest.version


def fingerprint_of(items: Iterable[Item]) -> int:
    """Of a set of objects at their versions, in whichever order."""
    return sum(map(_digest, items)) & _FINGERPRINT_MASK


def transition(
    change: ObjectChange, matches: Callable[[Item], bool]
) -> tuple[EventType, bytes] | None:
    """What a change is to a watcher with a selector, as kube-apiserver's `convertToWatchEvent`
    (k8s.io/apiserver/pkg/storage/cacher/cache_watcher.go) has it; None if it is nothing."""
    was_in = change.previous is not None and matches(change.previous)
    if change.type is EventType.DELETED:
        return (EventType.DELETED, change.item.raw) if was_in else None
    is_in = matches(change.item)
    if is_in:
        return (EventType.MODIFIED if was_in else EventType.ADDED), change.item.raw
    if was_in and change.previous is not None:
        return EventType.DELETED, with_version(change.previous.raw, change.version)
    return None


def _held(change: ObjectChange) -> int:
    """What only the window keeps alive: the former state, and a state that never was current.

    Each item is the `item` of one change and the `previous` of the next one, so that no bytes
    are counted twice, nor those of the objects themselves.
    """
    size = _CHANGE_OVERHEAD
    if change.previous is not None:
        size += len(change.previous.raw)
    if change.type is EventType.DELETED:
        size += len(change.item.raw)
    return size


def _digest(item: Item) -> int:
    namespace, name = item.key
    text = f"{item.version}/{namespace}/{name}"
    return int.from_bytes(blake2b(text.encode(), digest_size=_FINGERPRINT_BYTES).digest())
