"""What is remembered of one job, in memory exactly as it is on disk.

Guarantees: An event and the report that follows from it are saved together or not at all. One event
is saved at a time, each on what the one before left, also where the client has hung up in the
middle.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from edge_sidecars.runtime.log import fields, logger
from edge_sidecars.sedna_api.core.api_object import Document
from lc.core.learning.commands import Body, encoded
from lc.core.learning.state import Event, State
from lc.store import Store


class JobState:
    def __init__(self, document: Document, store: Store) -> None:
        self.state = _decoded(store.learning_state(document.uid), document)
        self._store = store
        self._saving = asyncio.Lock()
        self._under_way: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def exclusive(self) -> AsyncIterator[State]:
        """No other task changes the state, nor is about to."""
        async with self._saving:
            if self._under_way is not None and not self._under_way.done():
                await asyncio.wait({self._under_way})
            yield self.state

    async def record(self, document: Document, event: Event, report: Body | None = None) -> None:
        """Of LC itself. Raises StoreUnavailable."""
        async with self.exclusive():
            await self.save(document, event, report)

    async def save(
        self, document: Document, event: Event, report: Body | None = None, *, worker: str = ""
    ) -> None:
        """Within `exclusive`. `worker`: who reported it, "" for LC. Raises StoreUnavailable."""
        changed, body = self.state.after(event), None
        if report is not None:
            body = encoded(report)
            if not worker:
                changed = changed.saying(str(report["phase"]), int(str(report["round"])), body)
        # A task of its own: it is not done before the state here is what is on disk.
        saving = asyncio.create_task(self._write(document, changed, body, worker))
        saving.add_done_callback(_seen)
        self._under_way = saving
        await asyncio.shield(saving)

    async def _write(
        self, document: Document, changed: State, report: bytes | None, worker: str
    ) -> None:
        await self._store.save_learning_state(
            document, changed.encode(), worker=worker, report=report
        )
        self.state = changed


def _seen(done: asyncio.Task[None]) -> None:
    """The client may have hung up: then no other task looks at how it ended."""
    if not done.cancelled():
        done.exception()


def _decoded(saved: bytes | None, document: Document) -> State:
    try:
        return State.decode(saved)
    except ValueError as error:
        logger.error(
            "what was remembered of a job cannot be read; it begins anew",
            extra=fields(job=str(document.key), problem=error),
        )
        return State()
