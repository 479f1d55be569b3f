"""A client of the relay as client-go's Reflector is one: lists, follows, begins again at 410.

Asserts what a watcher may rely on: nothing at or below the version from which it started, nothing
twice, nothing backwards, ADDED only what is new and the others only what is there.
"""

from dataclasses import dataclass, field

from edge_sidecars.apimachinery.objects import Key, read_item
from edge_sidecars.apimachinery.store import Collection, Expired, ObjectChange, transition
from edge_sidecars.apimachinery.watch_events import EventType
from tests.unit.relay.streams.upstream import Selector


@dataclass
class Informer:
    selector: Selector
    version: int = 0
    state: dict[Key, bytes] = field(default_factory=dict)
    is_watching: bool = False
    lists: int = 0

    def list(self, collection: Collection) -> None:
        """From the relay's cache."""
        items = [item for item in collection.objects.values() if self.selector.matches(item)]
        self.state = {item.key: item.raw for item in items}
        self.version = collection.cursor
        self.is_watching = True
        self.lists += 1

    def watch(self, collection: Collection) -> None:
        """From where it stands; lists again where that is too old."""
        try:
            missed = collection.since(self.version)
        except Expired:
            self.list(collection)
            return
        self.is_watching = True
        for change in missed:
            self.follow(change)

    def follow(self, change: ObjectChange) -> None:
        seen = transition(change, self.selector.matches)
        if seen is not None:
            self._take(change, *seen)

    def bookmark(self, version: int) -> None:
        assert version >= self.version
        self.version = version

    def _take(self, change: ObjectChange, kind: EventType, raw: bytes) -> None:
        item = read_item(raw)
        # Several objects may end with one lease, at one version.
        is_same_lease = kind is EventType.DELETED and item.version == self.version
        assert item.version > self.version or is_same_lease
        assert item.version == change.version
        assert item.key == change.item.key
        assert (item.key in self.state) == (kind is not EventType.ADDED)
        self.version = item.version
        if kind is EventType.DELETED:
            del self.state[item.key]
        else:
            self.state[item.key] = raw
