"""Who owns whom, of all objects, by uid. Kept by the changes of the ledger."""

from collections.abc import Collection as Sized
from collections.abc import Iterable
from typing import NamedTuple

from edge_sidecars.apimachinery.objects import Item, Key
from edge_sidecars.apimachinery.resources import ResourceName
from tools.local_apiserver.core.owner_references import Facts, OwnerReference, facts


class ObjectRef(NamedTuple):
    """Where an object is stored."""

    storage: ResourceName
    key: Key


class OwnerGraph:
    """An index; empty at first."""

    def __init__(self) -> None:
        self._facts: dict[ObjectRef, Facts] = {}
        self._places: dict[str, ObjectRef] = {}
        self._dependents: dict[str, set[ObjectRef]] = {}

    def learn(self, place: ObjectRef, item: Item) -> Facts:
        """An object is there in this state."""
        self._unlink(place)
        found = facts(item.raw)
        self._facts[place] = found
        self._places[found.uid] = place
        for owner in found.owner_references:
            self._dependents.setdefault(owner.uid, set()).add(place)
        return found

    def forget(self, place: ObjectRef) -> Facts | None:
        """An object has gone; what was known of it."""
        self._unlink(place)
        found = self._facts.pop(place, None)
        if found is not None and self._places.get(found.uid) == place:
            del self._places[found.uid]
        return found

    def facts(self, place: ObjectRef) -> Facts | None:
        return self._facts.get(place)

    def place(self, uid: str) -> ObjectRef | None:
        return self._places.get(uid)

    def dependents(self, uid: str) -> Sized[ObjectRef]:
        return tuple(self._dependents.get(uid, ()))

    def owners(self, found: Facts) -> Iterable[ObjectRef]:
        """Those that are there."""
        for owner in found.owner_references:
            place = self._places.get(owner.uid)
            if place is not None:
                yield place

    def blocks(self, place: ObjectRef, owner_uid: str) -> bool:
        """Whether a dependent keeps an owner that is deleted in the foreground."""
        found = self._facts.get(place)
        return found is not None and any(
            owner.uid == owner_uid and owner.blocks for owner in found.owner_references
        )

    def is_where_told(self, owner: OwnerReference, place: ObjectRef, dependent: ObjectRef) -> bool:
        """Whether an owner is what its reference says: of that name, and in reach."""
        namespace, name = place.key
        return name == owner.name and namespace in ("", dependent.key[0])

    def _unlink(self, place: ObjectRef) -> None:
        former = self._facts.get(place)
        for owner in former.owner_references if former is not None else ():
            linked = self._dependents.get(owner.uid)
            if linked is not None:
                linked.discard(place)
                if not linked:
                    del self._dependents[owner.uid]
