"""Rows about rights: who writes to the data directory lets no caller in, where there is a key."""

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from relay_sidecar.journal.journal import Journal
from relay_sidecar.journal.records import Blob, Saved
from relay_sidecar.journal.sealing.authentic_rows import SUM, without_tags
from relay_sidecar.journal.sealing.sealed_secrets import DATA_KEY, SPACE, SealedSecrets
from relay_sidecar.journal.sealing.sealer import Sealer
from relay_sidecar.journal.tables import kept_digest
from tests.unit.relay.journal.journal_history import play, until
from tests.unit.relay.journal.test_failures import no_file_longer_than

ROWS = {
    ("access", b"salt"): b"s" * 32,
    ("access", b"user/1"): b'[1.0,{"user":"a","user_key":"k"}]',
    ("access", b"right/1"): b'[1.0,{"allowed":false,"reason":""}]',
    ("token-families", b"f"): b"[]",
    ("node-certificates", b"accepted"): b"c" * 64,
    ("link", b"down"): b"",
}
Rows = dict[tuple[str, bytes], bytes]


class Disk:
    """A data directory, and the key beside it."""

    def __init__(self, folder: Path) -> None:
        self.directory, self.key = folder / "data", folder / "key"
        self.new_key()

    def new_key(self) -> None:
        self.key.unlink(missing_ok=True)
        self.key.touch(mode=0o600)
        self.key.write_bytes(os.urandom(32))

    def life(
        self, rows: dict[tuple[str, bytes], bytes | None] | None = None, *, fails: bool = False
    ) -> tuple[Rows, int]:
        """Of a relay that writes these; what it found, and how many rows it did not believe."""
        found: Rows = {}
        rejected = 0

        async def run(journal: Journal, saved: Saved) -> None:
            nonlocal rejected
            wrapped = saved.kept.get(SPACE, {}).get(DATA_KEY)
            try:
                sealer = Sealer.open(
                    self.key, data_dir=self.directory, credentials_dir=None, wrapped=wrapped
                )
            except ValueError as error:
                sealer = Sealer.without_key(str(error))
            secrets = SealedSecrets(sealer)
            known, outdated = secrets.restored(saved)
            journal.store_as(secrets.stored, secrets.all_stored)
            journal.rewrite_from(secrets.records)
            rejected = secrets.rows.rejected
            state = {
                (space, key): value
                for space, kept in known.kept.items()
                if space != SPACE
                for key, value in kept.items()
            }
            found.update(state)
            journal.rewrite_from(lambda: [Blob(*row, value) for row, value in state.items()])
            await journal.commit(*outdated)
            for row, value in (rows or {}).items():
                if value is None:
                    state.pop(row, None)
                else:
                    state[row] = value
                if fails:
                    with no_file_longer_than(4096):
                        while journal.failure is None:
                            await journal.commit(Blob("others", os.urandom(8), bytes(4096)))
                await journal.commit(Blob(*row, value))
            await until(lambda: journal.failure is None)

        play(self.directory, run)
        return found, rejected

    def sql(self, statement: str, *values: object) -> list[tuple[object, ...]]:
        with sqlite3.connect(self.directory / "journal.sqlite3") as connection:
            found = connection.execute(statement, values).fetchall()
        connection.close()
        return found

    def value(self, row: tuple[str, bytes]) -> bytes:
        [(value,)] = self.sql("SELECT value FROM kept WHERE space = ? AND key = ?", *row)
        assert isinstance(value, bytes)
        return value

    def forge(self, row: tuple[str, bytes], value: bytes) -> None:
        digest = kept_digest(*row, value)
        self.sql("DELETE FROM kept WHERE space = ? AND key = ?", *row)
        columns = "INSERT INTO kept (space, key, value, digest) VALUES (?, ?, ?, ?)"
        self.sql(columns, *row, value, digest)


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    found = Disk(tmp_path)
    found.life(dict(ROWS))
    return found


def test_what_a_relay_with_the_key_wrote_is_believed(disk: Disk) -> None:
    assert disk.life() == (ROWS, 0)
    assert disk.life({("access", b"user/1"): None}) == (ROWS, 0)
    left = {row: value for row, value in ROWS.items() if row != ("access", b"user/1")}
    assert disk.life() == (left, 0)


def test_a_row_that_is_added_is_deleted_and_counted_and_the_others_stay(disk: Disk) -> None:
    forged = ("access", b"user/forged")
    disk.forge(forged, ROWS["access", b"user/1"])
    assert disk.life() == (ROWS, 1)
    assert disk.life() == (ROWS, 0)


def changed(disk: Disk) -> None:
    row = ("access", b"right/1")
    disk.forge(row, disk.value(row).replace(b"false", b"true "))


def swapped(disk: Disk) -> None:
    disk.forge(("access", b"right/2"), disk.value(("access", b"right/1")))


def moved_to_another_space(disk: Disk) -> None:
    disk.forge(("token-families", b"right/1"), disk.value(("access", b"right/1")))


def without_its_tag(disk: Disk) -> None:
    disk.forge(("access", b"right/1"), ROWS["access", b"right/1"])


def an_older_state(disk: Disk) -> None:
    row = ("access", b"right/1")
    older = disk.value(row)
    disk.life({row: b'[2.0,{"allowed":true,"reason":""}]'})
    disk.forge(row, older)


def gone(disk: Disk) -> None:
    disk.sql("DELETE FROM kept WHERE key = ?", b"right/1")


def without_the_sum(disk: Disk) -> None:
    disk.sql("DELETE FROM kept WHERE key = ?", SUM)


def of_another_journal(disk: Disk) -> None:
    row = ("access", b"right/1")
    value = disk.value(row)
    for name in disk.directory.iterdir():
        name.unlink()
    disk.life({("access", b"salt"): b"t" * 32})
    disk.forge(row, value)


@pytest.mark.parametrize(
    "tamper",
    [
        changed,
        swapped,
        moved_to_another_space,
        without_its_tag,
        an_older_state,
        gone,
        without_the_sum,
        of_another_journal,
    ],
)
def test_no_row_is_believed_that_is_not_as_and_where_it_was_written(
    disk: Disk, tamper: Callable[[Disk], None]
) -> None:
    tamper(disk)
    found, rejected = disk.life()
    assert rejected > 0
    for row in (("access", b"right/1"), ("access", b"right/2"), ("token-families", b"right/1")):
        assert found.get(row, ROWS["access", b"right/1"]) == ROWS["access", b"right/1"]
    assert ("access", b"right/2") not in found
    assert ("token-families", b"right/1") not in found
    if tamper in (changed, without_its_tag, an_older_state, gone, without_the_sum):
        assert found == {}
    assert disk.life({("access", b"salt"): b"u" * 32})[1] == 0
    assert disk.life()[0]["access", b"salt"] == b"u" * 32


def test_of_a_journal_without_tags_nothing_is_believed(tmp_path: Path) -> None:
    disk = Disk(tmp_path)

    async def before(journal: Journal, saved: Saved) -> None:
        await journal.commit(*(Blob(*row, value) for row, value in ROWS.items()))

    play(disk.directory, before)
    assert disk.life() == ({}, len(ROWS))


@pytest.mark.parametrize("wrong", ["missing", "another"])
def test_without_the_right_key_rows_are_as_they_were_and_so_again_with_it(
    disk: Disk, wrong: str
) -> None:
    right = disk.key.read_bytes()
    if wrong == "missing":
        disk.key.unlink()
    else:
        disk.new_key()
    clock = {("access", b"clock"): b"later", ("link", b"down"): None}
    assert disk.life(clock) == (ROWS, 0)
    disk.key.touch(mode=0o600)
    disk.key.write_bytes(right)
    assert disk.life() == (ROWS, 0)


def test_without_the_flag_the_rows_are_read_as_they_are(disk: Disk) -> None:
    found: dict[str, dict[bytes, bytes]] = {}

    async def without(journal: Journal, saved: Saved) -> None:
        found.update({space: dict(it) for space, it in without_tags(saved).kept.items()})

    play(disk.directory, without)
    assert {(s, k): v for s, it in found.items() if s != SPACE for k, v in it.items()} == ROWS


def test_a_disk_that_was_full_has_rows_that_are_believed(disk: Disk) -> None:
    disk.life({("access", b"user/2"): b"[2]"}, fails=True)
    assert disk.life() == ({**ROWS, ("access", b"user/2"): b"[2]"}, 0)
