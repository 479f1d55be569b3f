"""Entries that wait while the disk is busy go to it together, in the order they were added."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from itertools import chain

from edge_sidecars.walstore.disk_thread import Commit, DiskThread, GroupCommit


class Disk:
    """Writes nothing before `gate` is open; `groups`: what was written together."""

    def __init__(self, limit: int) -> None:
        self.gate = threading.Event()
        self.groups: list[list[int]] = []
        self.heard: list[int] = []
        self.thread = DiskThread("disk", failures=(), ended=RuntimeError("ended"))
        self.commits = GroupCommit(self.thread, self._write, self._written, limit=limit)

    def add(self, number: int) -> asyncio.Future[None]:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.commits.add(Commit(number, done))
        return done

    def _write(self, entries: Sequence[Commit[int]]) -> int:
        self.gate.wait(timeout=10)
        self.groups.append([entry.payload for entry in entries])
        return len(entries)

    def _written(self, entries: Sequence[Commit[int]], count: int) -> None:
        assert len(entries) == count
        for entry in entries:
            self.heard.append(entry.payload)
            entry.settle()


def _play(what: Callable[[Disk], Awaitable[None]], *, limit: int = 1000) -> Disk:
    async def run() -> Disk:
        disk = Disk(limit)
        try:
            await what(disk)
            assert not disk.commits.pending
        finally:
            disk.gate.set()
            disk.thread.end()
            disk.thread.join()
        return disk

    return asyncio.run(run())


def test_what_waits_is_one_group_and_all_is_heard_in_order() -> None:
    async def add(disk: Disk) -> None:
        waiting = [disk.add(number) for number in range(50)]
        assert len(disk.commits.pending) == 50
        disk.gate.set()
        await asyncio.gather(*waiting)

    disk = _play(add)
    # The thread may have begun with the first before the second was there.
    assert len(disk.groups) <= 2
    assert list(chain(*disk.groups)) == disk.heard == list(range(50))


def test_no_group_is_longer_than_its_limit() -> None:
    async def add(disk: Disk) -> None:
        waiting = [disk.add(number) for number in range(50)]
        disk.gate.set()
        await asyncio.gather(*waiting)

    disk = _play(add, limit=8)
    assert max(map(len, disk.groups)) == 8
    assert list(chain(*disk.groups)) == list(range(50))


def test_what_is_added_alone_keeps_its_place() -> None:
    async def add(disk: Disk) -> None:
        before = [disk.add(number) for number in range(3)]

        def alone() -> int:
            disk.groups.append([-1])
            return 1

        disk.commits.add_alone(Commit(-1, None), alone)
        after = [disk.add(number) for number in range(3, 6)]
        disk.gate.set()
        await asyncio.gather(*before, *after)

    disk = _play(add)
    assert list(chain(*disk.groups)) == disk.heard == [0, 1, 2, -1, 3, 4, 5]


def test_every_entry_is_written_once_however_the_threads_meet() -> None:
    async def add(disk: Disk) -> None:
        disk.gate.set()

        async def writer(first: int) -> None:
            for number in range(first, first + 300):
                await disk.add(number)

        await asyncio.gather(*(writer(1000 * number) for number in range(8)))

    disk = _play(add, limit=5)
    written = list(chain(*disk.groups))
    assert written == disk.heard
    assert len(written) == len(set(written)) == 2400
