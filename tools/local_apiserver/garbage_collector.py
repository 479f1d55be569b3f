"""What goes in the background: dependents, contents of namespaces, custom resources, old Events.

Does by itself what kube-controller-manager does for a cluster. Guarantees: whatever was begun is
finished after a restart, since the reasons are stored in the objects; a change that could not be
stored is tried again; the end of a namespace or a definition comes after that of its contents.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from edge_sidecars.apimachinery.objects import Item
from edge_sidecars.apimachinery.resources import ResourceName
from edge_sidecars.apimachinery.status import Refused
from edge_sidecars.apimachinery.store import ObjectChange
from edge_sidecars.apimachinery.watch_events import EventType
from edge_sidecars.runtime.log import fields, logger
from tools.local_apiserver.core import (
    deletion,
    owner_references,
    server_metadata,
)
from tools.local_apiserver.core.api_resource import Resource
from tools.local_apiserver.core.builtin.event import EVENT_TTL
from tools.local_apiserver.core.crd import CLEANUP_FINALIZER, DEFINITIONS
from tools.local_apiserver.core.deletion import BACKGROUND, NAMESPACES, DeleteOptions
from tools.local_apiserver.core.owner_references import Facts, Owned, OwnerReference
from tools.local_apiserver.core.unstructured import Object, text
from tools.local_apiserver.object_store import ObjectStore
from tools.local_apiserver.owner_graph import ObjectRef, OwnerGraph
from tools.local_apiserver.storage import NotStored
from tools.local_apiserver.writer import ObjectWriter, Write

_EVENTS = ResourceName("", "v1", "events")
_NODES = ResourceName("", "v1", "nodes")
_PODS = ResourceName("", "v1", "pods")
# Seconds between two looks for Events that are over.
_EVENT_INTERVAL: Final = 60.0
# Seconds until a change that could not be stored is tried again.
_RETRY_DELAY: Final = 1.0


class GarbageCollector:
    """Learns of every change from its making on; acts while `run` runs."""

    def __init__(self, ledger: ObjectStore, writer: ObjectWriter) -> None:
        self._ledger = ledger
        self._writer = writer
        self._relations = OwnerGraph()
        # In order, each once.
        self._waiting: dict[ObjectRef, None] = {}
        self._woken = asyncio.Event()
        for resource in ledger.catalog.stored():
            for item in ledger.stored(resource):
                self._relations.learn(ObjectRef(resource.name, item.key), item)
        for resource in ledger.catalog.stored():
            for item in ledger.stored(resource):
                self._look_again(ObjectRef(resource.name, item.key))
        ledger.subscribe(self._learn)

    async def run(self) -> None:
        """Until it is cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._collect(), name="garbage-collector")
            tasks.create_task(self._expire(), name="event-expiry")

    # Learning

    def _learn(self, name: ResourceName, changes: Sequence[ObjectChange]) -> None:
        resource = self._ledger.catalog.find(name)
        if resource is None or resource.name != resource.storage:
            return
        for change in changes:
            place = ObjectRef(name, change.item.key)
            if change.type is EventType.DELETED:
                self._learn_end(place)
            else:
                self._learn_state(place, change.item)

    def _learn_state(self, place: ObjectRef, item: Item) -> None:
        former = self._relations.facts(place)
        found = self._relations.learn(place, item)
        self._look_again(place)
        # Whoever lost an owner may have kept it waiting; who began to go is waited for no more.
        if former is not None and former.owner_references != found.owner_references:
            self._look_at_owners(former)
        if found.is_ending and (former is None or not former.waits_for_dependents):
            for dependent in self._relations.dependents(found.uid):
                self._look_again(dependent)

    def _learn_end(self, place: ObjectRef) -> None:
        found = self._relations.forget(place)
        if found is None:
            return
        for dependent in self._relations.dependents(found.uid):
            self._look_again(dependent)
        self._look_at_owners(found)
        if place.key[0]:
            self._look_again(ObjectRef(NAMESPACES, ("", place.key[0])))
        resource = self._ledger.catalog.find(place.storage)
        if resource is not None and resource.is_ending:
            name = f"{place.storage.plural}.{place.storage.group}"
            self._look_again(ObjectRef(DEFINITIONS, ("", name)))

    def _look_at_owners(self, found: Facts) -> None:
        for owner in self._relations.owners(found):
            self._look_again(owner)

    def _look_again(self, place: ObjectRef) -> None:
        found = self._relations.facts(place)
        if found is not None and (found.is_ending or found.owner_references):
            self._waiting[place] = None
            self._woken.set()

    # Acting

    async def _collect(self) -> None:
        while True:
            while not self._waiting:
                self._woken.clear()
                await self._woken.wait()
            place = next(iter(self._waiting))
            del self._waiting[place]
            try:
                await self._settle(place)
            except (NotStored, Refused) as error:
                logger.warning(
                    "collecting failed, will be tried again",
                    extra=fields(object="/".join(place.key), reason=str(error)),
                )
                self._look_again(place)
                await asyncio.sleep(_RETRY_DELAY)

    async def _settle(self, place: ObjectRef) -> None:
        found = self._relations.facts(place)
        resource = self._ledger.catalog.find(place.storage)
        if found is None or resource is None:
            return
        if found.is_ending:
            if place.storage == NAMESPACES:
                await self._empty_namespace(resource, place)
            elif place.storage == DEFINITIONS:
                await self._empty_definition(resource, place)
            elif place.storage == _PODS:
                await self._end_lost_pod(resource, place)
            await self._end_owner(resource, place, found)
        else:
            await self._end_dependent(resource, place, found)

    async def _end_lost_pod(self, resource: Resource, place: ObjectRef) -> None:
        """A pod that is to end on a node that is not there will not be ended by its kubelet
        (pkg/controller/podgc)."""
        nodes = self._ledger.catalog.find(_NODES)
        pod = self._ledger.get(resource, place.key)
        node = text(pod, "spec", "nodeName")
        assert nodes is not None
        if node and self._ledger.find(nodes, ("", node)) is None:
            options = DeleteOptions(grace_seconds=0)
            await self._writer.delete_if_there(Write(resource, *place.key), options)

    async def _end_owner(self, resource: Resource, place: ObjectRef, found: Facts) -> None:
        if found.orphans:
            for dependent in self._relations.dependents(found.uid):
                await self._let_go(dependent, [found.uid])
            await self._drop_finalizer(resource, place, server_metadata.ORPHAN)
        elif found.waits_for_dependents:
            for dependent in self._relations.dependents(found.uid):
                self._look_again(dependent)
            if not any(
                self._relations.blocks(dependent, found.uid)
                for dependent in self._relations.dependents(found.uid)
            ):
                await self._drop_finalizer(resource, place, server_metadata.FOREGROUND)

    async def _end_dependent(self, resource: Resource, place: ObjectRef, found: Facts) -> None:
        def state(owner: OwnerReference) -> Owned:
            return self._state(owner, place)

        policy = owner_references.policy(found, state)
        if policy is not None:
            options = DeleteOptions(policy=policy, uid=found.uid)
            await self._writer.delete_if_there(Write(resource, *place.key), options)
        elif owner_references.has_dead_owner(found, state):
            dead = [
                owner.uid for owner in found.owner_references if state(owner) is not Owned.THERE
            ]
            await self._let_go(place, dead)

    def _state(self, owner: OwnerReference, dependent: ObjectRef) -> Owned:
        if self._ledger.catalog.of_kind(owner.api_version, owner.kind) is None:
            return Owned.THERE
        place = self._relations.place(owner.uid)
        if place is None or not self._relations.is_where_told(owner, place, dependent):
            return Owned.GONE
        found = self._relations.facts(place)
        waits = found is not None and found.waits_for_dependents
        return Owned.WAITING if waits and owner.blocks else Owned.THERE

    async def _let_go(self, place: ObjectRef, owners: Sequence[str]) -> None:
        resource = self._ledger.catalog.find(place.storage)
        if resource is not None:
            await self._writer.change(
                resource, place.key, lambda obj: owner_references.without_owners(obj, owners)
            )

    async def _drop_finalizer(self, resource: Resource, place: ObjectRef, finalizer: str) -> None:
        await self._writer.change(
            resource, place.key, lambda obj: owner_references.without_finalizer(obj, finalizer)
        )

    async def _empty_namespace(self, resource: Resource, place: ObjectRef) -> None:
        """Ends it if nothing is left; what has finalizers comes back here when it is gone."""
        name = place.key[1]
        # What was allowed before the namespace began to end may not be stored yet.
        await self._ledger.settle()
        for contained in self._ledger.catalog.stored():
            if contained.is_namespaced:
                inside = [item for item in self._ledger.stored(contained) if item.key[0] == name]
                await self._writer.delete_all(contained, inside, DeleteOptions(policy=BACKGROUND))
        if not any(
            item.key[0] == name
            for contained in self._ledger.catalog.stored()
            if contained.is_namespaced
            for item in self._ledger.stored(contained)
        ):
            await self._writer.change(resource, place.key, deletion.emptied_namespace)

    async def _empty_definition(self, resource: Resource, place: ObjectRef) -> None:
        definition = self._ledger.get(resource, place.key)
        await self._ledger.settle()
        custom = self._custom(definition)
        if custom is not None:
            options = DeleteOptions(policy=BACKGROUND)
            await self._writer.delete_all(custom, self._ledger.stored(custom), options)
            if self._ledger.stored(custom):
                return
        await self._drop_finalizer(resource, place, CLEANUP_FINALIZER)

    def _custom(self, definition: Object | None) -> Resource | None:
        group = text(definition, "spec", "group")
        plural = text(definition, "spec", "names", "plural")
        for resource in self._ledger.catalog.stored():
            if (resource.name.group, resource.name.plural) == (group, plural):
                return resource
        return None

    async def _expire(self) -> None:
        """Events end an hour after they were written last."""
        events = self._ledger.catalog.find(_EVENTS)
        assert events is not None
        while True:
            old = [
                item
                for item in self._ledger.stored(events)
                if self._ledger.age(events, item.key) > EVENT_TTL
            ]
            try:
                await self._writer.delete_all(events, old, DeleteOptions())
            except NotStored as error:
                logger.warning("old Events could not be removed", extra=fields(reason=str(error)))
            await asyncio.sleep(_EVENT_INTERVAL)
