"""The objects of all resources, their versions, and how a change becomes true.

Owns the one counter of resourceVersions, the collections and the turns of writers. Knows nothing
of HTTP or of what may be written. Guarantees: a change is seen by anybody only after it is stored;
changes are seen in the order of their versions; a writer who holds an object's turn decides on its
stored state, and nobody else writes it meanwhile.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Final

import msgspec

from edge_sidecars.apimachinery.objects import Event, Item, Key
from edge_sidecars.apimachinery.resources import ResourceName
from edge_sidecars.apimachinery.store import Collection, ObjectChange
from edge_sidecars.apimachinery.watch_events import EventType
from tools.local_apiserver.core import server_metadata
from tools.local_apiserver.core.api_resource import Catalog, Resource
from tools.local_apiserver.core.unstructured import Object, text
from tools.local_apiserver.storage import MemoryStorage, ObjectRow, Storage, StoredObjects

# Of each collection; a watcher who asks for more is sent to list again (410).
WINDOW_EVENTS: Final = 10_000
WINDOW_BYTES: Final = 16 * 1024 * 1024
# Versions that are left out after the machine went down, as the last of them may have been given
# out and lost: far more than are written between two syncs of the disk.
REBOOT_GAP: Final = 1_000_000

Subscriber = Callable[[ResourceName, Sequence[ObjectChange]], None]


class ObjectStore:
    """Is empty and keeps nothing until `restore` was called, which comes before all else."""

    def __init__(self, catalog: Catalog, wall: Callable[[], float]) -> None:
        self.catalog = catalog
        self._wall = wall
        self._storage: Storage = MemoryStorage(self.settled)
        # The versions that were given to changes, and that were seen by anybody.
        self._given = 0
        self._seen = 0
        self._written_at: dict[ResourceName, dict[Key, float]] = {}
        self._collections: dict[ResourceName, Collection] = {}
        self._turns: dict[tuple[ResourceName, Key], tuple[asyncio.Lock, int]] = {}
        self._deciding: dict[int, tuple[ResourceName, Item]] = {}
        self._idle = asyncio.Event()
        # What was stored of resources that are not served, by group and plural.
        self._unclaimed: dict[tuple[str, str], list[ObjectRow]] = {}
        self._renewals: list[Callable[[ResourceName], None]] = []
        self._subscribers: list[Subscriber] = []

    @property
    def version(self) -> int:
        """The highest version that anybody can have seen."""
        return self._seen

    def subscribe(self, subscriber: Subscriber) -> None:
        """Is called after each step with the changes of one resource, oldest first."""
        self._subscribers.append(subscriber)

    def on_renewal(self, renewed: Callable[[ResourceName], None]) -> None:
        """Is called when a resource's collection began anew, or the resource is gone."""
        self._renewals.append(renewed)

    # Reading

    def collection(self, resource: Resource) -> Collection:
        """All objects of a resource, in the form of its version, as of `version`."""
        found = self._collections.get(resource.name)
        if found is None:
            found = self._derived(resource)
        if found.cursor < self._seen:
            found.apply(Event(EventType.BOOKMARK, self._seen))
        return found

    def get(self, resource: Resource, key: Key) -> Object | None:
        """An own copy of an object, in the form of the resource's version."""
        found = self.find(resource, key)
        return None if found is None else resource.served(decoded(found.raw))

    def find(self, resource: Resource, key: Key) -> Item | None:
        """An object as it is stored."""
        return self._collections[resource.storage].objects.get(key)

    def stored(self, resource: Resource) -> Sequence[Item]:
        """All objects of a resource as they are stored."""
        return tuple(self._collections[resource.storage].objects.values())

    def age(self, resource: Resource, key: Key) -> float:
        """Seconds since an object was written."""
        now = self._wall()
        return now - self._written_at.get(resource.storage, {}).get(key, now)

    def _derived(self, resource: Resource) -> Collection:
        stored = self._collections[resource.storage]
        items = [_converted(item, resource) for item in stored.objects.values()]
        return self._begin(resource, items, self._seen)

    def _begin(self, resource: Resource, items: Iterable[Item], cursor: int) -> Collection:
        collection = Collection(window_bytes=WINDOW_BYTES, window_events=WINDOW_EVENTS)
        collection.replace(items, cursor, kind=resource.kind, api_version=resource.name.api_version)
        self._collections[resource.name] = collection
        return collection

    # Writing

    @asynccontextmanager
    async def turn(self, resource: Resource, key: Key) -> AsyncIterator[None]:
        """Waits until nobody else writes this object."""
        place = (resource.storage, key)
        lock, users = self._turns.get(place) or (asyncio.Lock(), 0)
        self._turns[place] = (lock, users + 1)
        try:
            async with lock:
                yield
        finally:
            lock, users = self._turns[place]
            if users == 1:
                del self._turns[place]
            else:
                self._turns[place] = (lock, users - 1)

    async def put(self, resource: Resource, obj: Object) -> Item:
        """Stores an object of the resource's version, whose turn the caller holds; returns it in
        that form. Raises `NotStored`. The object is used up."""
        return await self._commit(resource, obj, is_end=False)

    async def remove(self, resource: Resource, obj: Object) -> Item:
        """Removes an object; `obj` is its last state, which its end tells at a new version."""
        return await self._commit(resource, obj, is_end=True)

    async def _commit(self, resource: Resource, obj: Object, *, is_end: bool) -> Item:
        """Nothing is awaited before the change has its place in the order of changes."""
        self._given += 1
        version, storage = self._given, resource.storage
        server_metadata.of(obj)["resourceVersion"] = str(version)
        kept = resource.stored(obj)
        key = (text(kept, "metadata", "namespace"), text(kept, "metadata", "name"))
        item = Item(key, version, msgspec.json.encode(kept))
        self._deciding[version] = (storage, item)
        self._idle.clear()
        raw = None if is_end else item.raw
        try:
            await self._storage.commit(
                ObjectRow(storage.group, storage.plural, key, version, self._wall(), raw)
            )
        finally:
            self._deciding.pop(version, None)
            if not self._deciding:
                self._idle.set()
        return item if resource.name == storage else _converted(item, resource)

    async def settle(self) -> None:
        """Returns when all that is decided now is stored or has failed."""
        if self._deciding:
            await self._idle.wait()

    def settled(self, rows: Sequence[ObjectRow]) -> None:
        """The storage tells that these are stored: from now on they are true."""
        seen: dict[ResourceName, list[ObjectChange]] = {}
        for row in rows:
            storage, item = self._deciding.pop(row.version)
            self._seen = row.version
            self._note_time(storage, row)
            for resource in self.catalog.versions(storage):
                collection = self._collections.get(resource.name)
                if collection is None:
                    continue
                change = collection.apply(_event(item, row, resource))
                if change is not None:
                    seen.setdefault(resource.name, []).append(change)
        for name, changes in seen.items():
            for subscriber in self._subscribers:
                subscriber(name, changes)

    def _note_time(self, storage: ResourceName, row: ObjectRow) -> None:
        times = self._written_at.setdefault(storage, {})
        if row.raw is None:
            times.pop(row.key, None)
        else:
            times[row.key] = row.written_at

    # Beginning

    def restore(self, storage: Storage, saved: StoredObjects, boot: str) -> None:
        """Takes over what was stored; custom resources' objects wait until `serve`."""
        self._storage = storage
        # After a crash of the machine the disk may have lost what was answered: those versions
        # must not be given out again, nor may a watch go on from them.
        gap = REBOOT_GAP if saved.boot != boot and saved.version else 0
        self._given = self._seen = saved.version + gap
        self._unclaimed.clear()
        for row in saved.rows:
            self._unclaimed.setdefault((row.group, row.plural), []).append(row)
        for resource in self.catalog.stored():
            self.begin(resource)

    def begin(self, resource: Resource) -> None:
        """Opens the collection of a stored resource, with what was saved of it."""
        name = resource.name
        rows = self._unclaimed.pop((name.group, name.plural), [])
        items = [Item(row.key, row.version, row.raw) for row in rows if row.raw is not None]
        self._written_at[name] = {row.key: row.written_at for row in rows}
        if resource.is_custom:
            items = [_shaped(item, resource) for item in items]
        self._begin(resource, items, self._seen)

    def serve(self, group: str, plural: str, resources: Sequence[Resource]) -> None:
        """Serves custom resources in place of those that were served before, whose objects they
        take over; none: their objects were removed before. Watches of them begin anew."""
        former = self.catalog.withdraw(group, plural)
        self.catalog.serve(resources)
        names = {resource.name for resource in (*former, *resources)}
        collections = {name: self._collections.pop(name, None) for name in names}
        stored = next((one for one in resources if one.name == one.storage), None)
        if stored is not None:
            kept = collections.get(former[0].storage) if former else None
            if kept is None:
                self.begin(stored)
            else:
                self._written_at[stored.name] = self._written_at.pop(former[0].storage, {})
                items = [_shaped(item, stored) for item in kept.objects.values()]
                self._begin(stored, items, self._seen)
        for name in sorted(names):
            for renewed in self._renewals:
                renewed(name)


def _event(item: Item, row: ObjectRow, resource: Resource) -> Event:
    shown = item if resource.name == resource.storage else _converted(item, resource)
    kind = EventType.DELETED if row.raw is None else EventType.MODIFIED
    return Event(kind, row.version, shown)


def _shaped(item: Item, resource: Resource) -> Item:
    """A stored custom resource as the present schema and stored version show it."""
    obj = decoded(item.raw)
    if resource.convert is not None:
        obj = resource.convert(obj)
    obj["apiVersion"] = resource.name.api_version
    return Item(item.key, item.version, msgspec.json.encode(obj))


def _converted(item: Item, resource: Resource) -> Item:
    obj = resource.served(decoded(item.raw))
    return Item(item.key, item.version, msgspec.json.encode(obj))


def decoded(raw: bytes) -> Object:
    return msgspec.json.decode(raw, type=dict)
