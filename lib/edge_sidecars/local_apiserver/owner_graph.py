"""Who owns whom, of all objects, by uid. Kept by the changes of the ledger."""

from collections.abc import Collection as Sized
from collections.abc import Iterable
from typing import NamedTuple

from edge_sidecars.apimachinery.objects import Item, Key
from edge_sidecars.apimachinery.resource_name import ResourceName
from edge_sidecars.local_apiserver.core.owner_references import Facts, Owner, facts


class Place(NamedTuple):
    """Where an object is stored."""

    storage: ResourceName
    key: Key


class Relations:
    """An index; empty at first."""

    def __init__(self) -> None:
        self._facts: dict[Place, Facts] = {}
        self._places: dict[str, Place] = {}
        self._dependents: dict[str, set[Place]] = {}

    def learn(self, place: Place, item: Item) -> Facts:
        """An object is there in this state."""
        self._unlink(place)
        found = facts(item.raw)
        self._facts[place] = found
        self._places[found.uid] = place
        for owner in found.owner_references:
            self._dependents.setdefault(owner.uid, set()).add(place)
        return found

    def forget(self, place: Place) -> Facts | None:
        """An object has gone; what was known of it."""
        self._unlink(place)
        found = self._facts.pop(place, None)
        if found is not None and self._places.get(found.uid) == place:
            del self._places[found.uid]
        return found

    def facts(self, place: Place) -> Facts | None:
        return self._facts.get(place)

    def place(self, uid: str) -> Place | None:
        return self._places.get(uid)

    def dependents(self, uid: str) -> Sized[Place]:
        return tuple(self._dependents.get(uid, ()))

    def owners(self, found: Facts) -> Iterable[Place]:
        """Those that are there."""
        for owner in found.owner_references:
            place = self._places.get(owner.uid)
            if place is not None:
                yield place

    def blocks(self, place: Place, owner_uid: str) -> bool:
        """Whether a dependent keeps an owner that is deleted in the foreground."""
        found = self._facts.get(place)
        return found is not None and any(
            owner.uid == owner_uid and owner.blocks for owner in found.owner_references
        )

    def is_where_told(self, owner: Owner, place: Place, dependent: Place) -> bool:
        """Whether an owner is what its reference says: of that name, and in reach."""
        namespace, name = place.key
        return name == owner.name and namespace in ("", dependent.key[0])

    def _unlink(self, place: Place) -> None:
        former = self._facts.get(place)
        for owner in former.owner_references if former is not None else ():
            linked = self._dependents.get(owner.uid)
            if linked is not None:
                linked.discard(place)
                if not linked:
                    del self._dependents[owner.uid]
