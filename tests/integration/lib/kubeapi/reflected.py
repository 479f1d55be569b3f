"""A collection that is followed while a test changes it, and where it is followed.

Guarantees: whatever a sink is told is held to what `Sink` promises: nothing before the first list,
versions that only grow, nothing deleted that was not there.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

from edge_sidecars.kubeapi import ApiClient, Credentials
from edge_sidecars.kubeapi.client import JSON
from edge_sidecars.kubeapi.reflector import reflect
from edge_sidecars.sedna_api.core.api_object import Document
from tools.harness.controlplane.settling import connections_closed

# Seconds until a change has arrived, on a busy machine.
PATIENCE = 20.0
POLL_INTERVAL = 0.01


@dataclass
class Mirror:
    """What stands there as far as it was told; `log` has (what, name) of each change."""

    objects: dict[str, Document] = field(default_factory=dict)
    version: int = -1
    lists: int = 0
    log: list[tuple[str, str]] = field(default_factory=list)

    def replaced(self, documents: Sequence[Document], version: int) -> None:
        self.objects = {it.name: it for it in documents}
        assert len(self.objects) == len(documents)
        assert all(it.resource_version <= version for it in documents)
        self.version = version
        self.lists += 1

    def changed(self, document: Document) -> None:
        self._moved(document.resource_version)
        self.objects[document.name] = document
        self.log.append(("changed", document.name))

    def deleted(self, document: Document) -> None:
        self._moved(document.resource_version)
        del self.objects[document.name]
        self.log.append(("deleted", document.name))

    def at(self, version: int) -> None:
        assert self.lists
        assert version >= self.version
        self.version = version

    def _moved(self, version: int) -> None:
        assert self.lists
        assert version > self.version
        self.version = version

    async def until(self, is_so: Callable[["Mirror"], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not is_so(self):
            assert time.monotonic() < deadline, (sorted(self.objects), self.log)
            await asyncio.sleep(POLL_INTERVAL)

    async def has(self, *names: str) -> None:
        """Returns when exactly these are there."""
        await self.until(lambda mirror: mirror.lists > 0 and set(mirror.objects) == set(names))


@asynccontextmanager
async def reflected(
    credentials: Credentials,
    path: str,
    *,
    params: Mapping[str, str] | None = None,
    accept: str = JSON,
    is_optional: bool = False,
    gather: float = 0.0,
) -> AsyncIterator[Mirror]:
    """A mirror of the collection while the block runs; what ends following ends the block."""
    api = ApiClient(credentials, user_agent="follow-test")
    mirror = Mirror()
    try:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(
                reflect(
                    api,
                    path,
                    decode=partial(Document.parse, kind="configmap"),
                    sink=mirror,
                    params=params,
                    accept=accept,
                    longest_delay=0.5,
                    is_optional=is_optional,
                    gather=gather,
                )
            )
            yield mirror
            task.cancel()
    finally:
        await api.close()
        await connections_closed()
