"""A disk that fails costs durability, never an answer: commits come back at once, what is on disk
stays one older state, and when the disk is good again all that is known is on it again."""

import asyncio
import resource
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from edge_sidecars.apimachinery.objects import Item
from edge_sidecars.apimachinery.resources import ResourceName
from edge_sidecars.apimachinery.scope import ListScope
from relay_sidecar.journal.journal import Journal
from relay_sidecar.journal.records import (
    Blob,
    ListReplaced,
    ObjectSeen,
    Record,
    Saved,
    StreamDeleted,
)
from tests.unit.relay.journal.journal_history import (
    cursors,
    listed,
    load,
    moved,
    play,
    scope,
    until,
)

A, B, C = scope("a"), scope("b"), scope("c")
FILE = "journal.sqlite3"


class Owner:
    """Knows streams, as the relay does, and commits each step before it takes it."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.cursors: dict[ListScope, int] = {}
        self.kept: dict[bytes, bytes] = {}
        journal.rewrite_from(self.streams)
        journal.rewrite_from(lambda: (Blob("k", key, value) for key, value in self.kept.items()))

    def streams(self) -> Iterator[Record]:
        for stream, cursor in self.cursors.items():
            yield listed(stream, cursor)

    async def list(self, stream: ListScope, cursor: int) -> None:
        await self.journal.commit(listed(stream, cursor))
        self.cursors[stream] = cursor

    async def move(self, stream: ListScope, steps: int = 1) -> None:
        cursor = self.cursors[stream]
        await self.journal.commit(moved(stream, cursor, cursor + steps))
        self.cursors[stream] = cursor + steps

    async def keep(self, key: bytes, value: bytes) -> None:
        await self.journal.commit(Blob("k", key, value))
        self.kept[key] = value

    async def move_until_failure(self) -> None:
        while self.journal.failure is None:
            await self.move(A)

    async def recovered(self) -> None:
        """Also while events go on."""
        while self.journal.failure is not None:
            for stream in self.cursors:
                await self.move(stream)
            await asyncio.sleep(0.005)

    def check(self, saved: Saved) -> None:
        assert saved.note is None
        assert cursors(saved) == self.cursors
        assert saved.kept.get("k", {}) == self.kept


@contextmanager
def no_file_longer_than(size: int) -> Iterator[None]:
    """Of those that this process writes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def after_a_kill(directory: Path) -> Saved:
    """What a relay would find that starts now."""
    copy = directory.with_name(f"{directory.name}-copy")
    with no_file_longer_than(resource.RLIM_INFINITY):
        shutil.copytree(directory, copy)
        saved = await asyncio.to_thread(load, copy)
    shutil.rmtree(copy)
    return saved


def test_a_disk_that_takes_nothing_more_keeps_one_older_state_and_then_gets_all(
    tmp_path: Path,
) -> None:
    directory = tmp_path / "data"

    async def run(journal: Journal, saved: Saved) -> dict[ListScope, int]:
        owner = Owner(journal)
        await owner.list(A, 10)
        await owner.list(B, 5)
        await owner.keep(b"one", b"1")
        with no_file_longer_than(4096):
            await owner.move_until_failure()
            assert "disk" in (journal.failure or "")
            await owner.move(A, 60)
            await owner.list(C, 9)
            await owner.keep(b"two", b"2")
            await journal.commit(StreamDeleted(B))
            del owner.cursors[B]
            on_disk = await after_a_kill(directory)
            assert on_disk.note is None
            assert cursors(on_disk) == {A: 10, B: 5}
            assert on_disk.kept == {"k": {b"one": b"1"}}
            # Long enough for a retry, which fails too.
            await asyncio.sleep(1.5)
            assert journal.failure is not None
        await owner.recovered()
        owner.check(await after_a_kill(directory))
        return owner.cursors

    expected = play(directory, run)
    assert expected.keys() == {A, C}
    assert cursors(load(directory)) == expected


def test_a_directory_that_is_deleted_is_made_again(tmp_path: Path) -> None:
    directory = tmp_path / "data"

    async def run(journal: Journal, saved: Saved) -> None:
        owner = Owner(journal)
        await owner.list(A, 10)
        await owner.list(B, 5)
        shutil.rmtree(directory)
        while journal.failure is None:
            await owner.move(A)
            await asyncio.sleep(0.01)
        await owner.recovered()
        owner.check(await after_a_kill(directory))

    play(directory, run)


def test_whoever_locks_the_file_holds_up_nobody_for_long(tmp_path: Path) -> None:
    async def run(journal: Journal, saved: Saved) -> dict[ListScope, int]:
        owner = Owner(journal)
        await owner.list(A, 10)
        with closing(sqlite3.connect(tmp_path / FILE, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            await owner.move_until_failure()
            assert "not answered" in (journal.failure or "")
            await owner.move(A, 30)
            other.execute("ROLLBACK")
        await owner.recovered()
        await owner.move(A)
        return owner.cursors

    expected = play(tmp_path, run)
    assert cursors(load(tmp_path)) == expected


def test_changes_that_do_not_follow_from_what_is_on_disk_are_not_written(tmp_path: Path) -> None:
    async def run(journal: Journal, saved: Saved) -> None:
        owner = Owner(journal)
        await owner.list(A, 10)
        await owner.list(B, 5)
        await journal.commit(moved(A, 11, 12))
        assert "at 10 on disk, its changes follow 11" in (journal.failure or "")
        assert cursors(await after_a_kill(tmp_path)) == {A: 10, B: 5}
        await owner.recovered()
        owner.check(await after_a_kill(tmp_path))

    play(tmp_path, run)


def test_a_caller_that_was_cancelled_before_it_took_the_step_gets_its_own_state_back(
    tmp_path: Path,
) -> None:
    async def run(journal: Journal, saved: Saved) -> None:
        owner = Owner(journal)
        await owner.list(A, 10)
        task = asyncio.create_task(owner.move(A, 5))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert owner.cursors == {A: 10}
        await owner.move_until_failure()
        await owner.recovered()
        owner.check(await after_a_kill(tmp_path))

    play(tmp_path, run)


def test_a_directory_that_cannot_be_made_is_used_when_it_can(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    directory = tmp_path / "file" / "data"

    async def run(journal: Journal, saved: Saved) -> None:
        assert journal.failure is not None
        assert not saved.streams
        owner = Owner(journal)
        await owner.list(A, 10)
        (tmp_path / "file").unlink()
        await owner.recovered()
        owner.check(await after_a_kill(directory))

    play(directory, run)


def on_disk(directory: Path) -> bytes:
    return b"".join(file.read_bytes() for file in directory.iterdir())


def test_what_could_not_be_read_at_the_start_is_never_written_over(tmp_path: Path) -> None:
    directory = tmp_path / "data"

    async def before(journal: Journal, saved: Saved) -> None:
        await journal.commit(listed(A, 10))

    async def run(journal: Journal, saved: Saved) -> None:
        assert journal.failure is not None
        assert not saved.streams
        owner = Owner(journal)
        await owner.list(B, 5)
        file.rmdir()
        hidden.rename(file)
        await until(lambda: journal.failure is None)

    play(directory, before)
    file, hidden = directory / FILE, tmp_path / "hidden"
    file.rename(hidden)
    file.mkdir()
    play(directory, run)
    assert cursors(load(directory)) == {B: 5}
    aside = directory / f"{FILE}.aside-1"
    aside.rename(file)
    assert cursors(load(directory)) == {A: 10}


def test_secrets_do_not_reach_the_disk_by_a_rewrite_either(tmp_path: Path) -> None:
    secrets = ListScope(ResourceName("", "v1", "secrets"))
    item = Item(("a", "token"), 4, b"c2VjcmV0LW9mLXRoZS1yZWxheQ")

    async def run(journal: Journal, saved: Saved) -> None:
        owner = Owner(journal)
        journal.rewrite_from(lambda: [ListReplaced(secrets, "Secret", "v1", 4, [item], 1.0)])
        journal.rewrite_from(lambda: [ObjectSeen(secrets.resource, item, 1.0)])
        await owner.list(A, 10)
        await journal.commit(moved(A, 11, 12))
        await owner.recovered()
        assert item.raw not in on_disk(tmp_path)

    play(tmp_path, run)
    assert load(tmp_path).streams[0].scope == A
