"""A journal that is damaged, cut short or not ours is set aside, loudly; never believed by half."""

import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from edge_sidecars.apimachinery.objects import Item
from relay_sidecar.journal.journal import Journal
from relay_sidecar.journal.records import Blob, EventsApplied, ListReplaced, ObjectSeen, Saved
from tests.unit.relay.journal.journal_history import (
    cursors,
    listed,
    load,
    moved,
    play,
    scope,
    step,
    until,
)

A, B = scope("a"), scope("b")
FILE = "journal.sqlite3"
PAGE = 4096


def written(directory: Path) -> None:
    """A journal with something in each table, closed."""

    async def write(journal: Journal, saved: Saved) -> None:
        await journal.commit(listed(A, 100), listed(B, 3))
        item = step(A, 2)[1]
        assert item is not None
        await journal.commit(
            ObjectSeen(A.resource, item, 2.0), Blob("documents", b"key", b"value" * 900)
        )

    play(directory, write)


def is_whole(saved: Saved) -> bool:
    """Whether it tells what `written` wrote; if not, nothing, and why."""
    if saved.note is None:
        assert cursors(saved) == {A: 100, B: 3}
        assert [(seen.item.version, seen.at) for seen in saved.seen] == [(2, 2.0)]
        assert saved.kept == {"documents": {b"key": b"value" * 900}}
        return True
    assert [*saved.streams, *saved.seen, *saved.kept] == []
    assert "set aside as journal.sqlite3.aside-1" in saved.note
    return False


def test_no_flipped_byte_makes_it_tell_something_else(tmp_path: Path) -> None:
    written(tmp_path / "good")
    good = (tmp_path / "good" / FILE).read_bytes()
    noticed = 0
    for position in range(0, len(good), 509):
        data = bytearray(good)
        data[position] ^= 0x41
        directory = tmp_path / str(position)
        directory.mkdir()
        (directory / FILE).write_bytes(data)
        if not is_whole(load(directory)):
            noticed += 1
            assert (directory / f"{FILE}.aside-1").stat().st_size == len(good)
            assert is_empty(load(directory))
        shutil.rmtree(directory)
    assert noticed > len(good) / 509 / 3


def is_empty(saved: Saved) -> bool:
    return not (saved.streams or saved.seen or saved.kept or saved.note)


def test_a_page_that_the_disk_forgot_to_write_is_noticed(tmp_path: Path) -> None:
    written(tmp_path)
    file = tmp_path / FILE
    old = file.read_bytes()

    async def go_on(journal: Journal, saved: Saved) -> None:
        for version in range(100, 130):
            await journal.commit(moved(A, version, version + 1))

    play(tmp_path, go_on)
    new = file.read_bytes()
    differing = 0
    for start in range(0, min(len(old), len(new)), PAGE):
        page = slice(start, start + PAGE)
        if old[page] == new[page]:
            continue
        differing += 1
        mixed = tmp_path / f"mixed-{start}"
        mixed.mkdir()
        (mixed / FILE).write_bytes(new[: page.start] + old[page] + new[page.stop :])
        saved = load(mixed)
        assert saved.note is not None or cursors(saved) == {A: 130, B: 3}
    assert differing > 5


@pytest.mark.parametrize(
    "content", [b"", b"\0" * 8192, b"not a database at all, but long enough to be read" * 400]
)
def test_a_file_that_is_no_database_is_set_aside(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE).write_bytes(content)
    saved = load(tmp_path)
    assert (saved.note is None) == (content == b"")
    written(tmp_path)
    assert is_whole(load(tmp_path))


def test_a_file_that_was_cut_short_is_set_aside(tmp_path: Path) -> None:
    written(tmp_path)
    file = tmp_path / FILE
    os.truncate(file, file.stat().st_size // 2)
    assert not is_whole(load(tmp_path))
    written(tmp_path)
    assert is_whole(load(tmp_path))


def edited(file: Path, script: str) -> None:
    connection = sqlite3.connect(file)
    connection.executescript(script)
    connection.close()


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("PRAGMA user_version = 7", "schema 7, this one knows 1"),
        ("PRAGMA application_id = 7", "something else"),
        ("UPDATE stream SET cursor = cursor + 1 WHERE objects > 0", "not those of its cursor"),
        ("UPDATE object SET version = version + 1", "checksum"),
        ("UPDATE object SET stream = 99", "not those of its cursor"),
        ("UPDATE seen SET name = 'other'", "checksum"),
        ("UPDATE kept SET value = x'00'", "checksum"),
        ("UPDATE stream SET scope = '[1,2]' WHERE id = 1", "not the scope of a stream"),
        ("UPDATE stream SET kind = 'Node'", "not those of its cursor"),
        ("UPDATE stream SET confirmed_at = 9", "not those of its cursor"),
        ("DROP TABLE seen", "seen"),
    ],
)
def test_contents_that_are_not_what_was_written_are_set_aside(
    tmp_path: Path, script: str, reason: str
) -> None:
    written(tmp_path)
    edited(tmp_path / FILE, script)
    saved = load(tmp_path)
    assert not is_whole(saved)
    assert saved.note is not None
    assert reason in saved.note
    assert is_empty(load(tmp_path))


def test_a_deleted_object_is_missed(tmp_path: Path) -> None:
    """Whoever deletes a row by hand, with the triggers gone, as a lost page would."""
    written(tmp_path)
    script = (
        "DROP TRIGGER object_deleted; DELETE FROM object WHERE id IN (SELECT min(id) FROM object)"
    )
    edited(tmp_path / FILE, script)
    assert not is_whole(load(tmp_path))


def test_what_was_set_aside_can_be_looked_at_and_at_most_three_are_kept(tmp_path: Path) -> None:
    for number in range(1, 6):
        written(tmp_path)
        edited(tmp_path / FILE, f"PRAGMA user_version = {10 + number}")
        note = load(tmp_path).note
        assert note is not None
        assert note.endswith(f"set aside as {FILE}.aside-{number}, everything begins anew")
    asides = sorted(file.name for file in tmp_path.glob("*.aside*"))
    assert asides == [f"{FILE}.aside-{number}" for number in (3, 4, 5)]
    connection = sqlite3.connect(tmp_path / asides[-1])
    assert connection.execute("SELECT count(*) FROM stream").fetchall() == [(2,)]
    connection.close()


def test_a_wal_that_ends_anywhere_is_a_state_that_was(tmp_path: Path) -> None:
    """What a loss of power leaves: of the WAL, any part of what was not yet synced may be gone."""
    source = tmp_path / "source"

    async def write(journal: Journal, saved: Saved) -> None:
        await journal.commit(listed(A, 0), listed(B, 0))
        for version in range(40):
            await journal.commit(moved(A, version, version + 1), moved(B, version, version + 1))
        shutil.copytree(source, tmp_path / "snapshot")

    play(source, write)
    snapshot = tmp_path / "snapshot"
    wal = (snapshot / f"{FILE}-wal").read_bytes()
    found = set()
    for end in range(0, len(wal), 7919):
        cut = tmp_path / "cut"
        shutil.copytree(snapshot, cut)
        (cut / f"{FILE}-shm").unlink()
        (cut / f"{FILE}-wal").write_bytes(wal[:end] + bytes(len(wal) - end))
        saved = load(cut)
        assert saved.note is None
        state = cursors(saved)
        assert state.get(A) == state.get(B)
        found.add(state.get(A))
        shutil.rmtree(cut)
    assert len(found) > 10


def damaged_while_open(directory: Path, damage: Callable[[Path], None]) -> None:
    """The journal of a relay that runs is damaged; it gets all from memory again."""
    items = [Item(("a", f"pod-{number}"), number + 1, os.urandom(3000)) for number in range(3000)]
    cursor = 3000

    async def prepare(journal: Journal, saved: Saved) -> None:
        await journal.commit(ListReplaced(A, "Pod", "v1", cursor, items, 1.0))

    async def run(journal: Journal, saved: Saved) -> None:
        nonlocal cursor
        journal.rewrite_from(lambda: [ListReplaced(A, "Pod", "v1", cursor, list(items), 1.0)])
        damage(directory / FILE)
        number = 0
        while journal.failure is None:
            item = Item(items[number].key, cursor + 1, b"new")
            await journal.commit(EventsApplied(A, cursor, cursor + 1, [(item.key, item)], 1.0))
            items[number] = item
            cursor += 1
            number += 1
        assert "damaged" in journal.failure
        await until(lambda: journal.failure is None)
        assert (directory / f"{FILE}.aside-1").exists()

    play(directory, prepare)
    play(directory, run)
    [stream] = load(directory).streams
    assert stream.cursor == cursor
    assert {item.key: item.raw for item in stream.items} == {item.key: item.raw for item in items}


def test_a_journal_that_is_damaged_while_it_is_open_is_rebuilt_from_memory(tmp_path: Path) -> None:
    def damage(file: Path) -> None:
        size = file.stat().st_size
        with file.open("r+b") as opened:
            opened.seek(PAGE)
            opened.write(b"\x5a" * (size - PAGE))

    damaged_while_open(tmp_path, damage)
