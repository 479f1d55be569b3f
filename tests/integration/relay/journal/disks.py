"""What a journal does on disks that are full or read-only: real ones, mounted in a name space of
this process's own. Run by `test_disks.py`; an assertion that fails ends it with status 1.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from edge_sidecars.apimachinery.scope import ListScope
from relay_sidecar.journal.journal import Journal
from relay_sidecar.journal.records import Record, Saved
from tests.unit.relay.journal.journal_history import (
    cursors,
    listed,
    load,
    moved,
    play,
    scope,
    until,
)

A, B = scope("a"), scope("b")
DISK_SIZE = 2 * 1024 * 1024


def mount(directory: Path, options: str, *, is_there: bool = False) -> None:
    directory.mkdir(exist_ok=True)
    kind = () if is_there else ("-t", "tmpfs", "tmpfs")
    subprocess.run(["mount", *kind, "-o", options, directory], check=True)


def full_disk(directory: Path) -> None:
    """Others fill the disk while events go on, and clean it up later."""
    mount(directory, f"size={DISK_SIZE}")
    cursor = 0
    filler = directory / "filler"

    def state() -> list[Record]:
        return [listed(A, cursor), listed(B, 7)]

    async def run(journal: Journal, saved: Saved) -> None:
        nonlocal cursor
        journal.rewrite_from(state)
        await journal.commit(listed(A, 0), listed(B, 7))
        free = os.statvfs(directory)
        filler.write_bytes(bytes(free.f_bavail * free.f_bsize - 65536))

        async def move() -> None:
            nonlocal cursor
            await journal.commit(moved(A, cursor, cursor + 1))
            cursor += 1

        while journal.failure is None:
            await move()
        assert "full" in journal.failure
        refused_at = cursor
        for _ in range(100):
            await move()
        # One retry, which finds the disk as full.
        await asyncio.sleep(1.5)
        assert journal.failure is not None
        on_disk = cursors(await asyncio.to_thread(load, copied(directory)))
        assert on_disk[B] == 7
        assert refused_at - 1 <= on_disk[A] <= refused_at
        filler.unlink()
        while journal.failure is not None:
            await move()
            await asyncio.sleep(0.01)

    play(directory, run)
    saved = load(directory)
    assert saved.note is None
    assert cursors(saved) == {A: cursor, B: 7}


def copied(directory: Path) -> Path:
    """As after kill -9, on a disk with room."""
    copy = directory.with_name(f"{directory.name}-copy")
    copy.mkdir()
    for file in directory.glob("journal*"):
        (copy / file.name).write_bytes(file.read_bytes())
    return copy


def read_only_disk(directory: Path) -> None:
    """It was closed in an orderly way, and the disk is read-only from the start."""
    mount(directory, f"size={DISK_SIZE}")

    async def write(journal: Journal, saved: Saved) -> None:
        await journal.commit(listed(A, 30), listed(B, 7))

    play(directory, write)
    read_only_for_a_while(directory, {A: 30, B: 7})


def read_only_disk_after_kill(directory: Path) -> None:
    """What was committed is in the WAL only."""
    mount(directory, f"size={DISK_SIZE}")
    child = os.fork()
    if child == 0:
        asyncio.run(write_and_die(directory))
    os.waitpid(child, 0)
    assert (directory / "journal.sqlite3-wal").stat().st_size > 0
    read_only_for_a_while(directory, {A: 31, B: 7})


async def write_and_die(directory: Path) -> None:
    journal = await Journal.open(directory)
    await journal.load()
    await journal.commit(listed(A, 30), listed(B, 7))
    await journal.commit(moved(A, 30, 31))
    os._exit(0)


def read_only_for_a_while(directory: Path, expected: dict[ListScope, int]) -> None:
    cursor = expected[A]
    mount(directory, "remount,ro", is_there=True)

    async def run(journal: Journal, saved: Saved) -> None:
        nonlocal cursor
        assert "read-only" in (journal.failure or "").lower(), journal.failure
        assert saved.note is None
        assert cursors(saved) == expected
        journal.rewrite_from(lambda: [listed(A, cursor), listed(B, 7)])
        await journal.commit(moved(A, cursor, cursor + 1))
        cursor += 1
        mount(directory, "remount,rw", is_there=True)
        await until(lambda: journal.failure is None)

    play(directory, run)
    assert cursors(load(directory)) == {A: cursor, B: 7}


SCENARIOS: dict[str, Callable[[Path], None]] = {
    scenario.__name__: scenario
    for scenario in (full_disk, read_only_disk, read_only_disk_after_kill)
}

if __name__ == "__main__":
    SCENARIOS[sys.argv[1]](Path(sys.argv[2]))
