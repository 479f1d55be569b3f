"""What is committed to the journal is there after a restart, and nothing else."""

import asyncio
import os
import sqlite3
import stat
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_sidecars.apimachinery.objects import Item
from edge_sidecars.apimachinery.resources import ResourceName
from edge_sidecars.apimachinery.scope import ListScope
from edge_sidecars.apimachinery.selection.fields import FieldSelector
from edge_sidecars.apimachinery.selection.labels import LabelSelector
from edge_sidecars.walstore.files import DirectoryInUse
from relay_sidecar.core.caching import NODE_SCOPES
from relay_sidecar.journal.journal import Journal
from relay_sidecar.journal.records import (
    Blob,
    EventsApplied,
    ListAborted,
    ListChunk,
    ListReplaced,
    ObjectEvicted,
    ObjectSeen,
    Record,
    Saved,
    StreamDeleted,
    StreamTouched,
)
from relay_sidecar.journal.rows import Room
from relay_sidecar.journal.tables import scope_text
from tests.examples import examples
from tests.unit.relay.journal.journal_history import (
    PODS,
    cursors,
    listed,
    load,
    moved,
    objects,
    play,
    scope,
    state,
    step,
    until,
)

A, B = scope("a"), scope("b")
SECRET = b"c2VjcmV0LW9mLXRoZS1yZWxheQ"


def committed(directory: Path, *records: Record) -> None:
    async def commit(journal: Journal, saved: Saved) -> None:
        await journal.commit(*records)
        assert journal.failure is None

    play(directory, commit)


def on_disk(directory: Path) -> bytes:
    return b"".join(file.read_bytes() for file in directory.iterdir())


def test_a_stream_is_there_again_with_its_objects_and_cursor(tmp_path: Path) -> None:
    committed(tmp_path, listed(A, 30), moved(A, 30, 40), moved(A, 40, 41), listed(B, 7))
    assert cursors(load(tmp_path)) == {A: 41, B: 7}


BIG = 100_000


def big(name: str, *, used_at: float, count: int = 10) -> ListReplaced:
    """A stream with `count` objects of `BIG` bytes, which was read last at `used_at`."""
    items = [Item((name, str(number)), 1, bytes(BIG)) for number in range(count)]
    return ListReplaced(scope(name), "Pod", "v1", 1, items, used_at)


async def names_of(directory: Path, room: Room) -> list[str]:
    journal = await Journal.open(directory, room=room)
    try:
        saved = await journal.load()
    finally:
        await journal.close()
    return sorted(stream.scope.namespace for stream in saved.streams)


def test_l3_of_a_journal_that_is_too_large_what_was_read_last_is_read_and_the_rest_goes(
    tmp_path: Path,
) -> None:
    committed(tmp_path, *(big(f"s{number}", used_at=number) for number in range(10)))
    room = Room(streams=int(3.5 * 10 * BIG))
    assert asyncio.run(names_of(tmp_path, room)) == ["s7", "s8", "s9"]
    # What had no room has left the disk, and what is there is whole.
    assert asyncio.run(names_of(tmp_path, Room())) == ["s7", "s8", "s9"]
    committed(tmp_path, big("s0", used_at=99.0))
    assert asyncio.run(names_of(tmp_path, Room())) == ["s0", "s7", "s8", "s9"]


def test_l3_a_small_stream_has_room_where_a_big_one_that_was_read_as_long_ago_has_none(
    tmp_path: Path,
) -> None:
    sizes = {"small": 1, "big": 50, "middle": 5}
    committed(tmp_path, *(big(name, used_at=1.0, count=n) for name, n in sizes.items()))
    assert asyncio.run(names_of(tmp_path, Room(streams=10 * BIG))) == ["middle", "small"]


def test_l5_what_the_node_asked_for_is_read_first_though_others_were_read_later(
    tmp_path: Path,
) -> None:
    """By its own scope, or in a wider stream."""
    sizes = {"node": 10, "wide": 10, "later": 10, "last": 10}
    of_node = (scope("node"), ListScope(PODS.resource, "wide", LabelSelector.parse("x=1")))
    marks = [
        Blob(NODE_SCOPES, scope_text(it).encode(), b"", resource=it.resource) for it in of_node
    ]
    streams = (big(name, used_at=at, count=n) for at, (name, n) in enumerate(sizes.items()))
    committed(tmp_path, *marks, *streams)
    room = Room(streams=25 * BIG)
    assert asyncio.run(names_of(tmp_path, room)) == ["node", "wide"]


def pieces(stream: ListScope, cursor: int, size: int = 7) -> Iterator[ListChunk]:
    items = state(stream, cursor)
    for start in range(0, len(items), size):
        yield ListChunk(stream, items[start : start + size])


def test_a_first_list_that_was_kept_as_it_came_is_the_list(tmp_path: Path) -> None:
    committed(tmp_path, *pieces(A, 30), listed(B, 7), listed(A, 30), moved(A, 30, 41))
    saved = load(tmp_path)
    assert cursors(saved) == {A: 41, B: 7}
    assert {stream.scope: stream.used_at for stream in saved.streams} == {A: 30.0, B: 7.0}


def test_a_list_that_is_not_whole_is_not_there_and_leaves_nothing(tmp_path: Path) -> None:
    committed(tmp_path, *pieces(A, 30), listed(B, 7))
    assert cursors(load(tmp_path)) == {B: 7}
    committed(tmp_path, *pieces(A, 60), StreamDeleted(A), moved(B, 7, 8))
    assert cursors(load(tmp_path)) == {B: 8}
    with closing(sqlite3.connect(tmp_path / "journal.sqlite3")) as database:
        [(count,)] = database.execute("SELECT count(*) FROM stream").fetchall()
    assert count == 1


def test_of_a_first_list_that_is_abandoned_nothing_is_left_and_of_a_whole_one_all(
    tmp_path: Path,
) -> None:
    first, *rest = pieces(A, 90)
    committed(tmp_path, *pieces(B, 30), ListAborted(B), first, ListAborted(A), *rest, listed(A, 90))
    committed(tmp_path, ListAborted(A), moved(A, 90, 91), ListAborted(B))
    assert cursors(load(tmp_path)) == {A: 91}
    with closing(sqlite3.connect(tmp_path / "journal.sqlite3")) as database:
        [(count,)] = database.execute("SELECT count(*) FROM stream").fetchall()
    assert count == 1


def test_a_list_that_was_begun_again_holds_nothing_of_the_first_attempt(tmp_path: Path) -> None:
    committed(tmp_path, *pieces(A, 30), *pieces(A, 90), listed(A, 150))
    assert cursors(load(tmp_path)) == {A: 150}


def test_what_arrives_behind_a_whole_list_changes_nothing(tmp_path: Path) -> None:
    early, *late = pieces(A, 30)
    committed(tmp_path, early, listed(A, 50), *late, moved(A, 50, 60))
    assert cursors(load(tmp_path)) == {A: 60}


def test_a_scope_is_there_again_with_its_selectors(tmp_path: Path) -> None:
    picky = ListScope(
        ResourceName("apps", "v1", "deployments"),
        "a",
        LabelSelector.parse("app in (x,y),!old,tier!=web"),
        FieldSelector.parse(r"metadata.name!=a\,b,metadata.namespace=a"),
    )
    committed(
        tmp_path,
        ListReplaced(picky, "Deployment", "apps/v1", 3, [], 2.5),
        StreamTouched(picky, 9.25),
    )
    [stream] = load(tmp_path).streams
    assert stream.scope == picky
    assert (stream.kind, stream.api_version, stream.cursor) == ("Deployment", "apps/v1", 3)
    assert (stream.confirmed_at, stream.used_at) == (2.5, 9.25)
    assert list(stream.items) == []


def test_a_bookmark_moves_only_the_cursor(tmp_path: Path) -> None:
    committed(tmp_path, listed(A, 20), EventsApplied(A, 20, 500, [], 6.0))
    [stream] = load(tmp_path).streams
    assert (stream.cursor, stream.confirmed_at) == (500, 6.0)
    assert objects(stream.items) == objects(listed(A, 20).items)


def test_a_new_list_replaces_objects_whose_bytes_differ_at_equal_versions(tmp_path: Path) -> None:
    key = ("a", "pod")
    committed(tmp_path, ListReplaced(A, "Pod", "v1", 5, [Item(key, 3, b"old")], 1.0))
    committed(tmp_path, ListReplaced(A, "Pod", "v1", 5, [Item(key, 3, b"new")], 1.0))
    [stream] = load(tmp_path).streams
    assert objects(stream.items) == {key: (3, b"new")}


def test_a_list_that_says_the_same_writes_next_to_nothing(tmp_path: Path) -> None:
    items = [Item(("a", f"pod-{number}"), number, os.urandom(3000)) for number in range(1000)]

    async def replace_twice(journal: Journal, saved: Saved) -> None:
        await journal.commit(ListReplaced(A, "Pod", "v1", 1, items, 1.0))
        wal = tmp_path / "journal.sqlite3-wal"
        before = wal.stat().st_size
        other = Item(items[500].key, 2000, b"changed")
        again = [*items[:500], other, *items[501:]]
        await journal.commit(ListReplaced(A, "Pod", "v1", 2, again, 1.0))
        assert wal.stat().st_size - before < 100_000

    play(tmp_path, replace_twice)
    [stream] = load(tmp_path).streams
    assert objects(stream.items)[("a", "pod-500")] == (2000, b"changed")
    assert len(stream.items) == 1000


def test_commits_of_many_callers_at_once_all_come_back_and_are_all_there(tmp_path: Path) -> None:
    scopes = [scope(f"many-{number}") for number in range(20)]

    async def storm(journal: Journal, saved: Saved) -> None:
        async def follow(stream: ListScope) -> None:
            await journal.commit(listed(stream, 0))
            for version in range(50):
                await journal.commit(moved(stream, version, version + 1))

        await asyncio.gather(*map(follow, scopes))
        assert journal.failure is None

    play(tmp_path, storm)
    assert cursors(load(tmp_path)) == dict.fromkeys(scopes, 50)


def test_a_commit_whose_caller_was_cancelled_is_written_whole(tmp_path: Path) -> None:
    async def cancel(journal: Journal, saved: Saved) -> None:
        await journal.commit(listed(A, 1))
        task = asyncio.create_task(journal.commit(moved(A, 1, 9)))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await journal.commit(moved(A, 9, 10))
        assert journal.failure is None

    play(tmp_path, cancel)
    assert cursors(load(tmp_path)) == {A: 10}


def test_secrets_never_reach_the_disk(tmp_path: Path) -> None:
    secrets = ResourceName("", "v1", "secrets")
    item = Item(("a", "token"), 4, SECRET)
    harmless = Item(("a", "pod"), 5, b"harmless-bytes")

    async def commit(journal: Journal, saved: Saved) -> None:
        everything = ListScope(secrets)
        await journal.commit(ListReplaced(everything, "Secret", "v1", 4, [item], 1.0))
        await journal.commit(EventsApplied(everything, 4, 5, [(item.key, item)], 1.0))
        await journal.commit(ObjectSeen(secrets, item, 1.0), ObjectSeen(A.resource, harmless, 1.0))
        assert b"harmless-bytes" in on_disk(tmp_path)
        assert SECRET not in on_disk(tmp_path)

    play(tmp_path, commit)
    saved = load(tmp_path)
    assert saved.streams == []
    assert [seen.item.key for seen in saved.seen] == [("a", "pod")]
    assert SECRET not in on_disk(tmp_path)


def test_nobody_else_may_read_the_files(tmp_path: Path) -> None:
    directory = tmp_path / "new" / "data"
    umask = os.umask(0)
    try:

        async def look(journal: Journal, saved: Saved) -> None:
            await journal.commit(listed(A, 3))
            modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in directory.iterdir()}
            assert len(modes) >= 3
            assert set(modes.values()) == {0o600}
            assert stat.S_IMODE(directory.stat().st_mode) == 0o700

        play(directory, look)
        directory.chmod(0o755)
        (directory / "journal.sqlite3").chmod(0o644)
        play(directory, look)
    finally:
        os.umask(umask)


def test_without_a_directory_nothing_is_kept(tmp_path: Path) -> None:
    async def commit(journal: Journal, saved: Saved) -> Saved:
        await journal.commit(listed(A, 3))
        assert journal.failure is None
        return saved

    assert play(None, commit).streams == ()
    assert play(None, commit).streams == ()


def test_the_file_shrinks_when_much_is_dropped(tmp_path: Path) -> None:
    file = tmp_path / "journal.sqlite3"
    items = [Item(("a", f"pod-{number}"), number, os.urandom(3000)) for number in range(3000)]
    committed(tmp_path, ListReplaced(A, "Pod", "v1", 1, items, 1.0), listed(B, 20))
    full = file.stat().st_size
    assert full > 9_000_000

    async def drop(journal: Journal, saved: Saved) -> None:
        await journal.commit(StreamDeleted(A))
        await until(lambda: file.stat().st_size < full / 4)
        await journal.commit(moved(B, 20, 21))

    play(tmp_path, drop)
    assert cursors(load(tmp_path)) == {B: 21}


def test_a_second_relay_waits_for_the_first_to_end(tmp_path: Path) -> None:
    async def overlap(journal: Journal, saved: Saved) -> None:
        await journal.commit(listed(A, 5))
        successor = asyncio.create_task(Journal.open(tmp_path))
        await asyncio.sleep(0.3)
        assert not successor.done()
        await journal.commit(moved(A, 5, 6))
        await journal.close()
        after = await successor
        assert cursors(await after.load()) == {A: 6}
        await after.close()

    play(tmp_path, overlap)


@pytest.mark.slow
def test_two_relays_cannot_share_a_directory(tmp_path: Path) -> None:
    async def overlap(journal: Journal, saved: Saved) -> None:
        with pytest.raises(DirectoryInUse, match="--data-dir"):
            await Journal.open(tmp_path)
        await journal.commit(listed(A, 5))
        assert journal.failure is None

    play(tmp_path, overlap)


# ── against a model ──


class Model:
    """What should be there, told in dictionaries; makes only records that may be committed."""

    def __init__(self) -> None:
        self.cursors: dict[ListScope, int] = {}
        self.used: dict[ListScope, float] = {}
        self.seen: dict[tuple[str, str], tuple[int, float]] = {}
        self.kept: dict[tuple[str, bytes], bytes] = {}

    def record(self, choice: str, number: int, stream: ListScope) -> Record | None:
        cursor = self.cursors.get(stream)
        if choice == "list":
            target = max(number, cursor or 0)
            self.used.setdefault(stream, float(target))
            self.cursors[stream] = target
            return listed(stream, target)
        if choice == "arrive":
            # Of which nothing is told, whatever becomes of it.
            return ListChunk(stream, state(stream, number)[number % 3 :: 2])
        if choice == "abandon":
            return ListAborted(stream)
        if choice == "move" and cursor is not None:
            self.cursors[stream] = cursor + number
            return moved(stream, cursor, cursor + number)
        if choice == "drop":
            self.cursors.pop(stream, None)
            self.used.pop(stream, None)
            return StreamDeleted(stream)
        if choice == "use" and cursor is not None:
            self.used[stream] = number / 4
            return StreamTouched(stream, number / 4)
        return self._other(choice, number, stream)

    def _other(self, choice: str, number: int, stream: ListScope) -> Record | None:
        key, item = step(stream, number)
        if choice == "see" and item is not None:
            self.seen[key] = (number, float(number))
            return ObjectSeen(stream.resource, item, float(number))
        if choice == "forget":
            self.seen.pop(key, None)
            return ObjectEvicted(stream.resource, key)
        place = (stream.namespace, bytes([number % 5]))
        if choice == "keep":
            self.kept[place] = bytes(number)
            return Blob(*place, bytes(number))
        if choice == "release":
            self.kept.pop(place, None)
            return Blob(*place, None)
        return None

    def check(self, saved: Saved) -> None:
        assert saved.note is None
        assert cursors(saved) == self.cursors
        assert {stream.scope: stream.used_at for stream in saved.streams} == self.used
        assert {seen.item.key: (seen.item.version, seen.at) for seen in saved.seen} == self.seen
        for seen in saved.seen:
            item = step(scope(seen.item.key[0]), seen.item.version)[1]
            assert item is not None
            assert seen.item.raw == item.raw
        assert {
            (space, key): value
            for space, values in saved.kept.items()
            for key, value in values.items()
        } == self.kept


CHOICES = (
    "list",
    "arrive",
    "abandon",
    "move",
    "move",
    "move",
    "drop",
    "use",
    "see",
    "forget",
    "keep",
    "release",
)
STEPS = st.tuples(st.sampled_from(CHOICES), st.integers(0, 60), st.sampled_from([A, B]))
LIVES = st.lists(st.lists(st.lists(STEPS, max_size=5), max_size=8), max_size=4)


@settings(max_examples=examples(60), deadline=None)
@given(lives=LIVES)
def test_whatever_was_committed_in_whichever_order_is_what_is_loaded(
    lives: list[list[list[tuple[str, int, ListScope]]]],
) -> None:
    model = Model()

    def records(steps: list[tuple[str, int, ListScope]]) -> Iterator[Record]:
        for choice, number, stream in steps:
            record = model.record(choice, number, stream)
            if record is not None:
                yield record

    with tempfile.TemporaryDirectory() as folder:
        for commits in lives:

            async def live(
                journal: Journal,
                saved: Saved,
                commits: list[list[tuple[str, int, ListScope]]] = commits,
            ) -> None:
                model.check(saved)
                for steps in commits:
                    await journal.commit(*records(steps))
                assert journal.failure is None

            play(Path(folder), live)
        model.check(load(Path(folder)))


def test_what_is_deleted_is_overwritten_where_secrets_are_sealed(tmp_path: Path) -> None:
    """In the database's file; its WAL is gone once all of it is there."""
    content = os.urandom(6000)

    async def life() -> None:
        journal = await Journal.open(tmp_path, overwrites=True)
        await journal.load()
        await journal.commit(Blob("sealed", b"db", content))
        await journal.close()
        assert _holds(tmp_path, content)
        journal = await Journal.open(tmp_path, overwrites=True)
        await journal.load()
        await journal.commit(Blob("sealed", b"db", None))
        await journal.close()
        assert not _holds(tmp_path, content)

    asyncio.run(life())


def _holds(folder: Path, content: bytes) -> bool:
    """Any part of it, wherever SQLite cuts it."""
    files = b"".join(path.read_bytes() for path in folder.iterdir())
    return any(content[at : at + 64] in files for at in range(0, len(content) - 64, 32))
