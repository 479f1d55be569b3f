"""Objects that upstream answered to a GET or a write, outside of any stream.

Bounded: the one that was answered longest ago is evicted first. Knows no stream and no request.
"""

import math
from collections import OrderedDict
from collections.abc import Iterator

from edge_sidecars.apimachinery.objects import Item, Key
from edge_sidecars.apimachinery.resources import ResourceName


class SeenObjects:
    """Each with the wall time at which upstream answered it."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._seen: OrderedDict[tuple[ResourceName, Key], tuple[Item, float]] = OrderedDict()

    def __iter__(self) -> Iterator[tuple[ResourceName, Item, float]]:
        for (resource, _), (item, at) in tuple(self._seen.items()):
            yield resource, item, at

    def get(self, resource: ResourceName, key: Key) -> tuple[Item, float] | None:
        return self._seen.get((resource, key))

    def remember(
        self, resource: ResourceName, item: Item, *, at: float, asked_at: float = -math.inf
    ) -> bool:
        """An object that upstream answered at wall time `at`. `asked_at` where that is upstream's
        newest: what was known before then is older, whatever its version. Returns whether it is
        remembered, which it is not where a newer one is known."""
        place = (resource, item.key)
        known = self._seen.get(place)
        if known is not None and known[0].version > item.version and known[1] >= asked_at:
            return False
        self._seen[place] = (item, at)
        self._seen.move_to_end(place)
        while len(self._seen) > self._limit:
            self._seen.popitem(last=False)
        return True

    def forget(self, resource: ResourceName, key: Key) -> bool:
        """Whether it was remembered."""
        return self._seen.pop((resource, key), None) is not None

    def went_back(self, resource: ResourceName, version: int) -> list[Key]:
        """Forgets what is beyond `version`, and returns what that was."""
        keys = [
            key
            for (of, key), (item, _) in self._seen.items()
            if of == resource and item.version > version
        ]
        for key in keys:
            del self._seen[resource, key]
        return keys
