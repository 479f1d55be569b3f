"""A Kubernetes API in one process.

Owns the life of the store, and what HTTP is given of it. Knows no connection.
Guarantees: an answer that tells of a change comes after the change is stored; lists and watches see
changes in the order of their versions; a client that goes away does not stop a write half-way.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from edge_sidecars.apimachinery.request.request_info import RequestInfo
from edge_sidecars.apimachinery.resources import ResourceName
from edge_sidecars.apimachinery.store import Collection
from edge_sidecars.runtime.clock import boot_id
from tools.local_apiserver.core.api_resource import Catalog, Resource
from tools.local_apiserver.core.builtin.cluster import SYSTEM_NAMESPACES, system_namespace
from tools.local_apiserver.core.builtin.table import builtin_resources
from tools.local_apiserver.core.deletion import NAMESPACES
from tools.local_apiserver.custom_resources import Definitions
from tools.local_apiserver.documents import Documents
from tools.local_apiserver.garbage_collector import GarbageCollector
from tools.local_apiserver.object_store import ObjectStore, Subscriber
from tools.local_apiserver.requests import Requests
from tools.local_apiserver.response import Answer
from tools.local_apiserver.storage import MemoryStorage, SqliteStorage, Storage
from tools.local_apiserver.writer import ObjectWriter, Write


class LocalApiServer:
    """Made by `open`; `run` runs beside the requests; `close` comes last."""

    def __init__(self, ledger: ObjectStore, storage: Storage, now: Callable[[], datetime]) -> None:
        self._ledger = ledger
        self._storage = storage
        self._writer = ObjectWriter(ledger, now)
        self._requests = Requests(ledger, self._writer, now)
        self._documents = Documents(ledger.catalog)
        self._tasks: set[asyncio.Task[Answer]] = set()

    @classmethod
    async def open(cls, directory: Path | None) -> Self:
        """`directory` None: nothing is kept. Raises `Unusable` where what is there cannot be, and
        `DirectoryInUse` where another process has it."""
        ledger = ObjectStore(Catalog(builtin_resources()), time.time)
        boot = await asyncio.to_thread(boot_id)
        storage: Storage
        if directory is None:
            storage = MemoryStorage(ledger.settled)
        else:
            storage = SqliteStorage(directory, boot=boot, settled=ledger.settled)
        ledger.restore(storage, await storage.load(), boot)
        Definitions(ledger)
        server = cls(ledger, storage, lambda: datetime.now(UTC))
        await server._make_namespaces()
        return server

    async def run(self) -> None:
        """What goes on in the background (dependents, namespaces, old Events), until cancelled."""
        await GarbageCollector(self._ledger, self._writer).run()

    async def close(self) -> None:
        """Finishes the writes that were begun."""
        while self._tasks:
            await asyncio.wait(self._tasks)
        await self._storage.close()

    async def _make_namespaces(self) -> None:
        spaces = self._ledger.catalog.get(NAMESPACES)
        assert spaces is not None
        for name in SYSTEM_NAMESPACES:
            if self._ledger.find(spaces, ("", name)) is None:
                await self._writer.create(Write(spaces, ""), system_namespace(name))

    # Reading

    def resource(self, name: ResourceName) -> Resource | None:
        """None where it is not served."""
        return self._ledger.catalog.get(name)

    def collection(self, name: ResourceName) -> Collection:
        """Of a resource that is served; its cursor is the version of all resources."""
        resource = self._ledger.catalog.get(name)
        if resource is None:
            raise KeyError(name)
        return self._ledger.collection(resource)

    def subscribe(self, subscriber: Subscriber) -> None:
        """Is told of all changes after they are stored, in order, those of one resource at once."""
        self._ledger.subscribe(subscriber)

    def on_renewal(self, renewed: Callable[[ResourceName], None]) -> None:
        """Is told when a resource's collection began anew, or the resource is gone."""
        self._ledger.on_renewal(renewed)

    @property
    def failure(self) -> str | None:
        """Why the last change could not be stored; None if it could."""
        return self._storage.failure

    async def document(self, path: str, accept: str) -> Answer | None:
        """Discovery, OpenAPI, version and health; None where nothing is at the path."""
        return self._documents.answer(path, accept)

    # Writing

    async def write(self, info: RequestInfo, *, headers: Mapping[str, str], body: bytes) -> Answer:
        """Whatever is asked of a resource but get, list and watch of its objects."""
        task = asyncio.ensure_future(self._requests.answer(info, headers, body))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(task)
