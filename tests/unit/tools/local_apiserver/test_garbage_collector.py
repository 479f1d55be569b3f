"""The collector, over a storage that keeps writers waiting or fails as long as the test likes."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from edge_sidecars.apimachinery.resources import ResourceName
from tools.local_apiserver.core.api_resource import Catalog, Resource
from tools.local_apiserver.core.builtin.table import builtin_resources
from tools.local_apiserver.core.deletion import DeleteOptions
from tools.local_apiserver.garbage_collector import GarbageCollector
from tools.local_apiserver.object_store import ObjectStore
from tools.local_apiserver.storage import NotStored, ObjectRow, Settled, StoredObjects
from tools.local_apiserver.writer import ObjectWriter, Write

PATIENCE = 10.0


class HeldStorage:
    """Stores rows in their order; while `is_held`, only as many as are let through. The first
    `failing` deletions are not stored."""

    def __init__(self, settled: Settled, *, failing: int = 0) -> None:
        self.failure: str | None = None
        self.is_held = False
        self._settled = settled
        self._failing = failing
        self._waiting: asyncio.Queue[asyncio.Event] = asyncio.Queue()

    async def load(self) -> StoredObjects:
        return StoredObjects(0, "", ())

    async def commit(self, row: ObjectRow) -> None:
        if self.is_held:
            let_through = asyncio.Event()
            self._waiting.put_nowait(let_through)
            await let_through.wait()
        if row.raw is None and self._failing:
            self._failing -= 1
            raise NotStored("the disk is full")
        self._settled((row,))

    async def close(self) -> None:
        """Nothing to close."""

    async def let_through(self, count: int) -> None:
        for _ in range(count):
            (await self._waiting.get()).set()


class World:
    """A ledger with the built-in resources, a writer and a collector."""

    def __init__(self, **storage: Any) -> None:
        self.ledger = ObjectStore(Catalog(builtin_resources()), time.time)
        self.storage = HeldStorage(self.ledger.settled, **storage)
        self.ledger.restore(self.storage, StoredObjects(0, "", ()), "boot")
        self.writer = ObjectWriter(self.ledger, lambda: datetime.now(UTC))
        self.spaces = self.resource("namespaces")
        self.config_maps = self.resource("configmaps")

    def resource(self, plural: str) -> Resource:
        found = self.ledger.catalog.get(ResourceName("", "v1", plural))
        assert found is not None
        return found

    async def create(self, resource: Resource, name: str, *, namespace: str = "") -> None:
        await self.writer.create(Write(resource, namespace), {"metadata": {"name": name}})

    def names(self, resource: Resource) -> list[str]:
        return sorted(item.key[1] for item in self.ledger.stored(resource))

    async def until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, "it never came"
            await asyncio.sleep(0.002)


def play(work: Callable[[World], Awaitable[None]], **storage: Any) -> None:
    async def run() -> None:
        world = World(**storage)
        collecting = asyncio.create_task(GarbageCollector(world.ledger, world.writer).run())
        await work(world)
        collecting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await collecting

    asyncio.run(run())


def test_a_namespace_does_not_end_before_what_was_allowed_in_it_is_stored() -> None:
    async def work(world: World) -> None:
        await world.create(world.spaces, "n")
        world.storage.is_held = True
        end = world.writer.delete(Write(world.spaces, "", "n"), DeleteOptions())
        ending = asyncio.create_task(end)
        # Allowed, since the end is not stored, and so not true yet.
        allowed = asyncio.create_task(world.create(world.config_maps, "c", namespace="n"))
        await world.storage.let_through(1)
        await ending
        world.storage.is_held = False
        # Long enough for a collector that does not wait for what is on its way.
        await asyncio.sleep(0.05)
        assert world.names(world.spaces) == ["n"]
        await world.storage.let_through(1)
        await allowed
        await world.until(lambda: world.names(world.spaces) == [])
        assert world.names(world.config_maps) == []

    play(work)


def test_what_could_not_be_stored_is_tried_again() -> None:
    async def work(world: World) -> None:
        await world.create(world.spaces, "n")
        await world.create(world.config_maps, "c", namespace="n")
        await world.writer.delete(Write(world.spaces, "", "n"), DeleteOptions())
        await world.until(lambda: world.names(world.spaces) == [])

    play(work, failing=1)
