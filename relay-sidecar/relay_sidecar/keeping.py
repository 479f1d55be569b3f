"""What of the streams outlasts a restart: told to the journal, and brought back from it.

A delivery waits until its step is in the journal, but not for ever: a disk that stalls makes the
relay forgetful, not deaf.
"""

import asyncio
import time
from collections.abc import Sequence
from typing import Protocol

from relay_sidecar.core.objects import Event, EventType, Item, Key, Page
from relay_sidecar.journal.records import Dropped, Moved, Record, Replaced, Saved, Seen, Used
from relay_sidecar.log import fields, logger
from relay_sidecar.stream import Stream
from relay_sidecar.streams import Streams

# Seconds that a delivery waits for the disk; a worn SD card takes tenths of one to erase a block.
LONGEST_COMMIT = 1.0


class Journal(Protocol):
    @property
    def needs_rewrite(self) -> bool: ...

    async def commit(self, *records: Record) -> None:
        """Returns when it is on disk, or when it cannot be."""
        ...


class Keeping:
    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._late: set[asyncio.Task[None]] = set()

    async def replaced(self, stream: Stream, page: Page) -> None:
        await self._commit(_whole(stream, page.kind, page.api_version, page.version, page.items))

    async def moved(self, stream: Stream, events: Sequence[Event]) -> None:
        after = stream.collection.cursor
        news = [event for event in events if event.version >= after]
        if not news:
            return
        changes: list[tuple[Key, Item | None]] = [
            (event.item.key, None if event.type is EventType.DELETED else event.item)
            for event in news
            if event.item is not None
        ]
        cursor = news[-1].version
        await self._commit(Moved(stream.scope, after, cursor, changes, time.time()))

    async def dropped(self, stream: Stream) -> None:
        await self._commit(Dropped(stream.scope))

    async def used(self, streams: Sequence[Stream]) -> None:
        now = time.time()
        await self._commit(*(Used(stream.scope, now) for stream in streams))

    async def seen(self, *records: Seen) -> None:
        await self._commit(*records)

    async def rewrite(self, streams: Streams) -> None:
        """Everything anew, where the disk missed something."""
        if not self._journal.needs_rewrite:
            return
        await self._journal.commit(
            *(
                _whole(
                    stream,
                    stream.list_kind,
                    stream.api_version,
                    stream.collection.cursor,
                    tuple(stream.collection.objects.values()),
                )
                for stream in streams
                if stream.collection.is_synced
            )
        )

    async def _commit(self, *records: Record) -> None:
        task = asyncio.ensure_future(self._journal.commit(*records))
        done, _ = await asyncio.wait([task], timeout=LONGEST_COMMIT)
        if done:
            task.result()
            return
        logger.warning("the disk is slow", extra=fields(waited=LONGEST_COMMIT))
        self._late.add(task)
        task.add_done_callback(self._late.discard)


def restore(streams: Streams, saved: Saved, *, now: float) -> None:
    """The streams and objects as the last run left them."""
    for one in saved.streams:
        page = Page(one.kind, one.api_version, one.cursor, "", one.items)
        streams.restore(one.scope, page, confirmed_at=one.confirmed_at, now=now)
    for seen in saved.seen:
        streams.remember(seen.resource, seen.item, at=seen.seen_at)


def _whole(
    stream: Stream, kind: str, api_version: str, cursor: int, items: Sequence[Item]
) -> Replaced:
    return Replaced(stream.scope, kind, api_version, cursor, items, time.time())
