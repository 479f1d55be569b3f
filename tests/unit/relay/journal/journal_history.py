"""Streams whose every state follows from their cursor, so that whatever a journal tells of them can
be checked; and what a journal tells, in a form that compares."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from hashlib import blake2b
from pathlib import Path
from typing import TypeVar

from edge_sidecars.apimachinery.objects import Item, Key
from edge_sidecars.apimachinery.resources import ResourceName
from edge_sidecars.apimachinery.scope import ListScope
from relay_sidecar.journal.journal import Journal
from relay_sidecar.journal.records import EventsApplied, ListReplaced, Saved

PODS = ListScope(ResourceName("", "v1", "pods"))
# Few, so that objects come, change and go all the time.
NAMES = 40
# Bytes; with a few of them, objects span pages of the file.
SIZES = (60, 700, 3000, 9000)

Objects = dict[Key, tuple[int, bytes]]
T = TypeVar("T")


def scope(name: str) -> ListScope:
    return ListScope(PODS.resource, name)


def step(stream: ListScope, version: int) -> tuple[Key, Item | None]:
    """What happens in a stream at a version."""
    chance = blake2b(f"{stream.namespace} {version}".encode(), digest_size=8).digest()
    key = (stream.namespace, f"pod-{chance[0] % NAMES}")
    if chance[1] % 4 == 0:
        return key, None
    raw = (chance * 2000)[: SIZES[chance[2] % len(SIZES)]]
    return key, Item(key, version, raw)


def state(stream: ListScope, cursor: int) -> list[Item]:
    """All that is there at a cursor."""
    changes = dict(step(stream, version) for version in range(1, cursor + 1))
    return [item for item in changes.values() if item is not None]


def listed(stream: ListScope, cursor: int) -> ListReplaced:
    return ListReplaced(stream, "Pod", "v1", cursor, state(stream, cursor), float(cursor))


def moved(stream: ListScope, after: int, cursor: int) -> EventsApplied:
    changes = [step(stream, version) for version in range(after + 1, cursor + 1)]
    return EventsApplied(stream, after, cursor, changes, float(cursor))


def objects(items: Iterable[Item]) -> Objects:
    return {item.key: (item.version, item.raw) for item in items}


def cursors(saved: Saved) -> dict[ListScope, int]:
    """Of all streams, whose objects must be those of their cursors."""
    for stream in saved.streams:
        assert objects(stream.items) == objects(state(stream.scope, stream.cursor))
        assert len(stream.items) == len({item.key for item in stream.items})
        assert (stream.kind, stream.api_version) == ("Pod", "v1")
        assert stream.confirmed_at == stream.cursor
    return {stream.scope: stream.cursor for stream in saved.streams}


def play(directory: Path | None, what: Callable[[Journal, Saved], Awaitable[T]]) -> T:
    """From a start of the relay to its end."""

    async def run() -> T:
        journal = await Journal.open(directory)
        try:
            return await what(journal, await journal.load())
        finally:
            await journal.close()

    return asyncio.run(run())


def load(directory: Path) -> Saved:
    """What a relay that starts now would find."""

    async def look(journal: Journal, saved: Saved) -> Saved:
        return saved

    return play(directory, look)


async def until(is_so: Callable[[], bool]) -> None:
    """Returns when it is; the test's own time limit is the only one."""
    while not is_so():  # noqa: ASYNC110 - of files, nobody tells
        await asyncio.sleep(0.01)
