"""A database is what its owner said, or is set aside, or is left alone; all or nothing is in it."""

import os
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from edge_sidecars.walstore.database import Damaged, Layout, WalDatabase, opened_read_only


class OtherVersion(Exception):
    """As an owner's."""


def _other(path: Path, version: int) -> Exception | None:
    return OtherVersion(f"schema {version}") if version > 3 else None


LAYOUT = Layout(
    name="a.sqlite3",
    lock_name="a.lock",
    owner="test",
    is_private=True,
    application_id=77,
    schema_version=3,
    schema="CREATE TABLE word (it TEXT UNIQUE);",
    settings=("synchronous = NORMAL",),
    other_version=_other,
    translate=lambda error, path: Damaged(str(error)),
    sets_aside=True,
    watched=("", "-wal"),
)


def _opened(directory: Path, layout: Layout = LAYOUT) -> WalDatabase:
    return WalDatabase(directory, layout, prepare=lambda connection: None)


def _words(database: WalDatabase) -> list[str]:
    return [word for (word,) in database.connection.execute("SELECT it FROM word").fetchall()]


def _put(database: WalDatabase, *words: str) -> None:
    with database.transaction():
        database.connection.executemany("INSERT INTO word VALUES (?)", [(it,) for it in words])


def test_a_transaction_is_there_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    with closing(_opened(tmp_path)) as database:
        _put(database, "a", "b")
        with pytest.raises(Damaged, match="UNIQUE"):
            _put(database, "c", "a")
        assert _words(database) == ["a", "b"]
        _put(database, "e")
    with closing(_opened(tmp_path)) as database:
        assert _words(database) == ["a", "b", "e"]
        assert database.note == ""


def _something_else(directory: Path) -> bytes:
    with closing(sqlite3.connect(directory / LAYOUT.name)) as connection:
        connection.execute("CREATE TABLE of_others (it TEXT)")
    return (directory / LAYOUT.name).read_bytes()


def test_a_database_of_something_else_is_set_aside_unchanged(tmp_path: Path) -> None:
    before = _something_else(tmp_path)
    with closing(_opened(tmp_path)) as database:
        assert database.note.endswith("of something else; set aside as a.sqlite3.aside-1")
        _put(database, "a")
    assert (tmp_path / "a.sqlite3.aside-1").read_bytes() == before


def test_it_is_left_alone_where_its_owner_has_nothing_else(tmp_path: Path) -> None:
    before = _something_else(tmp_path)
    with pytest.raises(Damaged, match="something else"):
        _opened(tmp_path, replace(LAYOUT, sets_aside=False))
    assert (tmp_path / LAYOUT.name).read_bytes() == before
    # And the lock is free again.
    _opened(tmp_path).close()


@pytest.mark.parametrize(("version", "is_opened"), [(2, True), (4, False)])
def test_the_owner_decides_about_another_version(
    tmp_path: Path, version: int, is_opened: bool
) -> None:
    with closing(_opened(tmp_path)) as database:
        _put(database, "a")
        database.connection.execute(f"PRAGMA user_version = {version}")
    if is_opened:
        with closing(_opened(tmp_path)) as database:
            assert _words(database) == ["a"]
    else:
        with pytest.raises(OtherVersion):
            _opened(tmp_path)
    assert not list(tmp_path.glob("*.aside-*"))


def test_what_the_owner_cannot_read_is_set_aside(tmp_path: Path) -> None:
    _opened(tmp_path).close()
    looks: list[int] = []

    def prepare(connection: sqlite3.Connection) -> None:
        looks.append(1)
        if len(looks) == 1:
            raise Damaged("no good")

    with closing(WalDatabase(tmp_path, LAYOUT, prepare=prepare)) as database:
        assert database.note == "no good; set aside as a.sqlite3.aside-1"
        database.renew("again")
        assert database.note == "again; set aside as a.sqlite3.aside-2"
    assert len(looks) == 3


def test_a_file_that_was_replaced_is_noticed(tmp_path: Path) -> None:
    with closing(_opened(tmp_path)) as database:
        _put(database, "a")
        assert database.is_in_place()
        copy = tmp_path / "copy"
        copy.write_bytes((tmp_path / LAYOUT.name).read_bytes())
        os.replace(copy, tmp_path / LAYOUT.name)
        assert not database.is_in_place()
        (tmp_path / LAYOUT.name).unlink()
        with pytest.raises(FileNotFoundError):
            database.is_in_place()


@pytest.mark.parametrize("is_closed", [True, False])
def test_a_file_is_read_where_nothing_can_be_written(tmp_path: Path, is_closed: bool) -> None:
    path = tmp_path / LAYOUT.name
    with opened_read_only(path, LAYOUT) as connection:
        assert connection is None
    database = _opened(tmp_path)
    _put(database, "a")
    if is_closed:
        database.close()
    names = sorted(file.name for file in tmp_path.iterdir())
    with opened_read_only(path, LAYOUT) as connection:
        assert connection is not None
        assert connection.execute("SELECT it FROM word").fetchall() == [("a",)]
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            connection.execute("INSERT INTO word VALUES ('b')")
    assert sorted(file.name for file in tmp_path.iterdir()) == names
    if not is_closed:
        database.close()
