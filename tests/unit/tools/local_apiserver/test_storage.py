"""The origin's file: what is committed is there, in order; what cannot be stored is told."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from edge_sidecars.walstore.files import DirectoryInUse
from tools.local_apiserver.storage import (
    FILE_NAME,
    MemoryStorage,
    NotStored,
    ObjectRow,
    SqliteStorage,
    StoredObjects,
    Unusable,
)

Work = Callable[[SqliteStorage], Awaitable[None]]


def row(version: int, name: str = "a", raw: bytes | None = b"{}") -> ObjectRow:
    return ObjectRow("", "configmaps", ("default", name), version, 1.5, raw)


def with_storage(directory: Path, work: Work | None = None, *, boot: str = "b") -> StoredObjects:
    """What was there; then `work` is done."""

    async def run() -> StoredObjects:
        storage = SqliteStorage(directory, boot=boot, settled=lambda rows: None)
        saved = await storage.load()
        try:
            if work is not None:
                await work(storage)
        finally:
            await storage.close()
        return saved

    return asyncio.run(run())


def test_what_is_committed_is_loaded_again(tmp_path: Path) -> None:
    async def work(storage: SqliteStorage) -> None:
        await storage.commit(row(1, "a", b"first"))
        await storage.commit(row(2, "b", b"other"))
        await storage.commit(row(3, "a", b"second"))
        await storage.commit(row(4, "b", None))

    assert with_storage(tmp_path, work) == StoredObjects(0, "", [])
    assert with_storage(tmp_path) == StoredObjects(4, "b", [row(3, "a", b"second")])


def test_changes_settle_in_order_and_before_their_writers_go_on(tmp_path: Path) -> None:
    settled: list[int] = []
    seen: list[tuple[int, int]] = []

    async def run() -> None:
        def settle(rows: Sequence[ObjectRow]) -> None:
            settled.extend(found.version for found in rows)

        storage = SqliteStorage(tmp_path, boot="b", settled=settle)
        await storage.load()

        async def commit(version: int) -> None:
            await storage.commit(row(version, f"n{version}"))
            seen.append((version, len(settled)))

        await asyncio.gather(*map(commit, range(1, 1501)))
        await storage.close()

    asyncio.run(run())
    assert settled == list(range(1, 1501))
    assert all(count >= version for version, count in seen)


def test_a_group_that_fails_changes_nothing_and_says_so(tmp_path: Path) -> None:
    async def run() -> None:
        settled: list[int] = []
        storage = SqliteStorage(
            tmp_path, boot="b", settled=lambda rows: settled.extend(one.version for one in rows)
        )
        await storage.load()
        await storage.commit(row(1))
        # More than SQLite takes in one value (SQLITE_MAX_LENGTH).
        huge = bytes(1_000_000_001)
        results = await asyncio.gather(
            storage.commit(row(2, "b")), storage.commit(row(3, "c", huge)), return_exceptions=True
        )
        assert any(isinstance(result, NotStored) for result in results)
        failures = [storage.failure]
        assert 3 not in settled
        await storage.commit(row(4, "d"))
        failures.append(storage.failure)
        assert [failure is None for failure in failures] == [False, True]
        await storage.close()

    asyncio.run(run())
    names = {found.key[1] for found in with_storage(tmp_path).rows}
    assert {"a", "d"} <= names
    assert "c" not in names


def test_a_closed_storage_takes_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        storage = SqliteStorage(tmp_path, boot="b", settled=lambda rows: None)
        await storage.load()
        await storage.close()
        with pytest.raises(NotStored):
            await storage.commit(row(1))

    asyncio.run(run())


def test_the_last_boot_is_told(tmp_path: Path) -> None:
    assert with_storage(tmp_path, boot="first").boot == ""
    assert with_storage(tmp_path, boot="second").boot == "first"


@pytest.mark.slow
def test_two_processes_do_not_write_one_file(tmp_path: Path) -> None:
    async def work(storage: SqliteStorage) -> None:
        other = SqliteStorage(tmp_path, boot="b", settled=lambda rows: None)
        with pytest.raises(DirectoryInUse):
            await other.load()
        await other.close()

    with_storage(tmp_path, work)


def test_a_damaged_file_is_not_opened(tmp_path: Path) -> None:
    async def work(storage: SqliteStorage) -> None:
        for version in range(1, 200):
            await storage.commit(row(version, f"n{version}", b"x" * 500))

    with_storage(tmp_path, work)
    path = tmp_path / FILE_NAME
    with path.open("r+b") as file:
        file.seek(3 * 4096)
        file.write(b"\xff" * 4096)
    with pytest.raises(Unusable, match=FILE_NAME):
        with_storage(tmp_path)


def test_a_file_of_another_release_is_not_opened(tmp_path: Path) -> None:
    with_storage(tmp_path)
    connection = sqlite3.connect(tmp_path / FILE_NAME)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(Unusable, match="another release"):
        with_storage(tmp_path)


def test_only_the_owner_reads_the_file(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    with_storage(directory)
    assert directory.stat().st_mode & 0o777 == 0o700
    file = directory / FILE_NAME
    assert file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o644)
    with_storage(directory)
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_link_in_place_of_the_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Unusable, match=FILE_NAME):
        with_storage(tmp_path)
    assert not (tmp_path / "elsewhere").exists()


def test_memory_settles_at_once() -> None:
    async def run() -> list[ObjectRow]:
        settled: list[ObjectRow] = []
        storage = MemoryStorage(settled.extend)
        await storage.commit(row(1))
        return settled

    assert asyncio.run(run()) == [row(1)]
