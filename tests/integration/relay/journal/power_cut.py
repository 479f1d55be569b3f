"""What a journal finds after power cuts: a file system on a file, mounted in a name space of this
process's own, in which a storm writes. What the kernel has written to that file by some moment is
what a power cut at that moment leaves. Run by `test_disks.py`; an assertion that fails ends
it with status 1.

Not in it: a disk that loses what it said to have written, or writes in another order.
"""

import os
import random
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Thread
from typing import IO

from relay_sidecar.journal.journal import Journal
from relay_sidecar.journal.records import Saved
from tests.integration.relay.journal.storm import SPACE
from tests.integration.relay.killed_storm import storm
from tests.unit.relay.journal.journal_history import cursors, load, moved, play

CUTS = 12
# With room for the WAL of a storm that outruns checkpoints.
DISK_SIZE = 512 * 1024 * 1024
# Each of them with a moment in which the kernel writes nothing to the file.
ATTEMPTS = 500


def power_cuts(folder: Path) -> None:
    """The storm never notices: each cut is a copy of the disk."""
    chance = random.Random(13)
    disk, said = folder / "disk", dict[str, int]()
    disk.touch()
    os.truncate(disk, DISK_SIZE)
    subprocess.run(["mkfs.ext4", "-q", disk], check=True)
    with mounted(disk) as directory, storm("journal.storm", directory / "data") as process:
        assert process.stdout is not None
        reader = Thread(target=listen, args=(process.stdout, said))
        reader.start()
        try:
            before = dict[str, int]()
            for _ in range(CUTS):
                time.sleep(chance.uniform(0.2, 1.0))
                copy = folder / "copy"
                copy_between_writes(disk, copy, directory)
                found = found_on(copy)
                assert all(found.get(name, 0) >= cursor for name, cursor in before.items())
                before = found
        finally:
            process.kill()
            reader.join()
    # A cut takes the last changes, not all.
    assert 0 < sum(before.values()) <= sum(said.values())


def listen(lines: IO[str], said: dict[str, int]) -> None:
    """What the storm says is committed, by stream."""
    for line in lines:
        if line.endswith("\n"):
            name, cursor = line.split()
            said[name] = int(cursor)


def copy_between_writes(disk: Path, copy: Path, directory: Path) -> None:
    for _ in range(ATTEMPTS):
        before = written(directory)
        # With its holes: the sooner it is done, the sooner nothing is written meanwhile.
        subprocess.run(["cp", "--sparse=auto", disk, copy], check=True)
        if before is not None and written(directory) == before:
            return
    raise AssertionError("the kernel never rests")


def written(directory: Path) -> tuple[str, ...] | None:
    """How much was written to the disk below a directory, None while something is; see
    Documentation/block/stat.rst of Linux."""
    device = directory.stat().st_dev
    path = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/stat")
    fields = path.read_text(encoding="ascii").split()
    writes, in_flight, discards = fields[4:7], fields[8], fields[11:14]
    return (*writes, *discards) if in_flight == "0" else None


def found_on(disk: Path) -> dict[str, int]:
    """The cursors, of which each is that of its objects; the journal goes on from there."""
    with mounted(disk) as directory:
        data = directory / "data"
        if not data.exists():
            return {}
        saved = load(data)
        assert saved.note is None, saved.note
        found = cursors(saved)
        # What was committed in one go is there in one piece.
        kept = {key.decode(): int(value) for key, value in saved.kept.get(SPACE, {}).items()}
        by_name = {scope.namespace: cursor for scope, cursor in found.items()}
        assert kept == {name: cursor for name, cursor in by_name.items() if cursor}

        async def go_on(journal: Journal, saved: Saved) -> None:
            for scope, cursor in found.items():
                await journal.commit(moved(scope, cursor, cursor + 1))
            assert journal.failure is None, journal.failure

        play(data, go_on)
        assert cursors(load(data)) == {scope: cursor + 1 for scope, cursor in found.items()}
        with closing(sqlite3.connect(data / "journal.sqlite3")) as database:
            assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return by_name


@contextmanager
def mounted(disk: Path) -> Iterator[Path]:
    directory = disk.with_name(f"{disk.name}-mounted")
    directory.mkdir(exist_ok=True)
    subprocess.run(["mount", "-o", "loop", disk, directory], check=True)
    try:
        yield directory
    finally:
        subprocess.run(["umount", directory], check=True)


if __name__ == "__main__":
    power_cuts(Path(sys.argv[1]))
