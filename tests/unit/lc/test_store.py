"""What the store answered is on disk, and is there again; what it refused has changed nothing."""

import asyncio
import os
import shutil
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from edge_sidecars.sedna_api.core.api_object import Document
from edge_sidecars.sedna_api.core.report import MAX_BODY, MalformedReport, Report
from edge_sidecars.walstore.database import Damaged
from edge_sidecars.walstore.files import DirectoryInUse
from lc.store import Change, OutboxFull, Store, StoreUnavailable, open_store, tables
from lc.store.database import LAYOUT, NAME, StoreDatabase
from lc.store.failures import NewerSchema
from lc.store.transaction import MAX_OUTBOX
from lc.store.writer import AGEING_INTERVAL, NOTES_KEPT
from tests.unit.lc.documents import dataset


class Heard:
    """Writes down what the store tells."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def object_changed(self, document: Document, change: Change) -> None:
        self.told.append(f"{change.value} {document.uid}")

    def object_gone(self, document: Document) -> None:
        self.told.append(f"gone {document.uid}")

    def report_enqueued(self, report: Report) -> None:
        self.told.append(f"report {report.seq}")


def within(directory: Path, work: Callable[[Store], Awaitable[None]]) -> None:
    async def opened() -> None:
        async with open_store(directory) as store:
            await work(store)

    asyncio.run(opened())


def _files(directory: Path) -> list[Path]:
    return list(directory.iterdir())


def state(n: int) -> bytes:
    return b'{"numberOfSamples":%d}' % n


def test_everything_is_there_again(tmp_path: Path) -> None:
    ids: list[str] = []

    async def first(store: Store) -> None:
        ids.append(store.store_id)
        await store.put(dataset("a", version=7))
        await store.put(dataset("b", version=9))
        await store.delete(dataset("b").key, "uid-b")
        await store.enqueue(dataset("a"), is_event=True, worker="w", body=b'{"phase":"Train"}')
        await store.save_learning_state(dataset("a"), b"learnt")
        await store.save_position(dataset("a"), b"position", report=state(3))

    async def second(store: Store) -> None:
        assert [store.store_id] == ids
        assert store.note == ""
        assert [it.raw for it in store.objects("dataset")] == [dataset("a", version=7).raw]
        # Of `b`, which left.
        assert store.known() == {"dataset": 9}
        assert [(it.seq, it.previous, it.body) for it in store.pending()] == [
            (1, 0, b'{"phase":"Train"}'),
            (2, 1, state(3)),
        ]
        assert store.learning_state("uid-a") == b"learnt"
        assert store.position("uid-a") == b"position"

    within(tmp_path, first)
    within(tmp_path, second)


def test_numbers_go_on_after_the_object_left_and_everything_was_acknowledged(
    tmp_path: Path,
) -> None:
    async def first(store: Store) -> None:
        await store.put(dataset("a"))
        await store.enqueue(dataset("a"), is_event=False, worker="", body=state(1))
        assert await store.acked("uid-a", 1) == 1
        await store.delete(dataset("a").key, "uid-a")

    async def second(store: Store) -> None:
        again = await store.enqueue(dataset("a"), is_event=False, worker="", body=state(1))
        assert again.seq == 1
        news = await store.enqueue(dataset("a"), is_event=False, worker="", body=state(2))
        assert news.seq == 2

    within(tmp_path, first)
    within(tmp_path, second)


def test_listeners_hear_in_order_what_is_durable(tmp_path: Path) -> None:
    heard = Heard()

    async def work(store: Store) -> None:
        store.subscribe(heard)
        asked = [
            store.put(dataset("a", version=1)),
            store.put(dataset("a", version=2)),
            store.put(dataset("a", version=2)),
            store.enqueue(dataset("a"), is_event=False, worker="", body=state(1)),
            store.put(dataset("a", uid="uid-2", version=1)),
            store.delete(dataset("a").key, "uid-a"),
            store.delete(dataset("a").key, "uid-2"),
        ]
        assert heard.told == []
        assert [await each for each in asked[:3]] == [Change.NEW, Change.UPDATED, Change.SAME]
        assert [await each for each in asked[4:]] == [Change.REPLACED, False, True]

    within(tmp_path, work)
    assert heard.told == [
        "new uid-a",
        "updated uid-a",
        "report 1",
        "gone uid-a",
        "replaced uid-2",
        "gone uid-2",
    ]


def test_what_left_is_known_by_its_version_until_the_history_is_rewound(tmp_path: Path) -> None:
    async def first(store: Store) -> None:
        for version, name in enumerate("abc", start=3):
            await store.put(dataset(name, version=version))
        await store.delete(dataset("a").key, "uid-a", version=8)
        assert store.known() == {"dataset": 8}
        await store.delete(dataset("b").key, "uid-b", version=7)
        await store.keep_only(())

    async def second(store: Store) -> None:
        assert store.known() == {"dataset": 8}
        await store.put(dataset("c", version=2))
        await store.keep_only({(dataset("c").key, "uid-c")}, is_rewound=True)
        assert store.known() == {"dataset": 2}

    async def third(store: Store) -> None:
        assert store.known() == {"dataset": 2}

    for work in (first, second, third):
        within(tmp_path, work)


def test_a_snapshot_drops_what_it_lacks_of_its_kinds_alone(tmp_path: Path) -> None:
    async def work(store: Store) -> None:
        model = Document.parse(b'{"metadata":{"name":"m","namespace":"shop","uid":"m"}}', "model")
        for each in (dataset("a"), dataset("b"), dataset("c"), model):
            await store.put(each)
        kept = {(dataset("a").key, "uid-a"), (dataset("b").key, "another")}
        assert await store.keep_only(kept, kinds={"dataset"}) == 2
        assert [it.name for it in store.objects("dataset")] == ["a"]
        assert store.kinds() == ("dataset", "model")
        assert await store.keep_only(kept) == 1
        assert await store.replace_all("dataset", [dataset("d"), dataset("e")]) == 1
        assert {it.name for it in store.objects("dataset")} == {"d", "e"}

    within(tmp_path, work)


def test_a_state_and_its_report_are_saved_both_or_neither(tmp_path: Path) -> None:
    big = b'{"x":"' + b"x" * (MAX_BODY - 100) + b'"}'

    async def fill(store: Store) -> None:
        await store.save_learning_state(dataset("a"), b"before")
        for n in range(MAX_OUTBOX // MAX_BODY - 3):
            body = big.replace(b'"x"', b'"y%d"' % n)
            await store.enqueue(dataset("a"), is_event=True, worker="", body=body)
        last = [
            store.enqueue(dataset("a"), is_event=True, worker=f"w{n}", body=big) for n in range(5)
        ]
        answers = await asyncio.gather(*last, return_exceptions=True)
        assert isinstance(answers[-1], OutboxFull)
        with pytest.raises(OutboxFull):
            await store.save_learning_state(dataset("a"), b"after", report=big)
        assert store.learning_state("uid-a") == b"before"

    async def look(store: Store) -> None:
        assert store.learning_state("uid-a") == b"before"
        waiting = len(list(store.pending()))
        # What is acknowledged makes room, also in a new process.
        await store.acked("uid-a", 1)
        await store.save_learning_state(dataset("a"), b"after", report=big)
        assert len(list(store.pending())) == waiting
        assert store.learning_state("uid-a") == b"after"

    within(tmp_path, fill)
    within(tmp_path, look)


def test_an_impossible_body_is_refused_at_once(tmp_path: Path) -> None:
    async def work(store: Store) -> None:
        for body in (b"[]", b"{", b'{"x":"' + b"x" * MAX_BODY + b'"}'):
            with pytest.raises(MalformedReport):
                store.enqueue(dataset("a"), is_event=True, worker="", body=body)

    within(tmp_path, work)


def test_refusals_are_counted_and_the_newest_are_shown(tmp_path: Path) -> None:
    count = tables.KEPT_REFUSALS + 5

    async def refuse(store: Store) -> None:
        for n in range(count):
            body = b'{"n":%d}' % n
            report = await store.enqueue(dataset("a"), is_event=True, worker="", body=body)
            assert await store.refused("uid-a", report.seq, f"reason {n}") == 1
        assert await store.refused("uid-a", 1, "once more") == 0

    async def look(store: Store) -> None:
        ever, shown = store.refusals()
        assert ever == count
        assert [it.reason for it in shown] == [f"reason {n}" for n in range(5, count)]
        assert shown[0].key == dataset("a").key
        assert list(store.pending()) == []

    within(tmp_path, refuse)
    within(tmp_path, look)


def test_another_store_id_goes_on_with_what_waits(tmp_path: Path) -> None:
    ids: list[str] = []

    async def renew(store: Store) -> None:
        ids.append(store.store_id)
        await store.enqueue(dataset("a"), is_event=True, worker="", body=state(1))
        await store.renew("the storeID is retired")
        ids.append(store.store_id)
        await store.enqueue(dataset("a"), is_event=True, worker="", body=state(2))
        assert [(it.store_id, it.seq) for it in store.pending()] == [(ids[1], 1), (ids[1], 2)]

    async def look(store: Store) -> None:
        assert store.store_id == ids[1]
        assert {it.store_id for it in store.pending()} == {ids[1]}

    within(tmp_path, renew)
    within(tmp_path, look)
    assert ids[0] != ids[1]


def test_who_stops_waiting_does_not_undo_it(tmp_path: Path) -> None:
    async def work(store: Store) -> None:
        async def ask() -> None:
            await store.put(dataset("a"))

        task = asyncio.create_task(ask())
        await asyncio.sleep(0)
        task.cancel()
        await store.put(dataset("b"))
        assert {it.name for it in store.objects("dataset")} == {"a", "b"}

    within(tmp_path, work)


def test_what_was_asked_for_by_the_end_is_written(tmp_path: Path) -> None:
    async def ask(store: Store) -> None:
        store.put(dataset("a"))
        store.put(dataset("b"))

    async def look(store: Store) -> None:
        assert len(store.objects("dataset")) == 2

    within(tmp_path, ask)
    within(tmp_path, look)


# ── what was learnt outlives its object for a day ──


def test_what_was_learnt_goes_a_day_of_lc_after_its_object(tmp_path: Path) -> None:
    async def learn(store: Store) -> None:
        for name in ("stays", "left", "back"):
            await store.put(dataset(name))
            await store.save_learning_state(dataset(name), b"learnt")
        for name in ("left", "back"):
            await store.delete(dataset(name).key, f"uid-{name}")
        await store.put(dataset("back"))

    within(tmp_path, learn)
    database = StoreDatabase(tmp_path)
    with closing(database):
        assert database.expire_notes(NOTES_KEPT - 1, limit=NOTES_KEPT) == []
        assert database.expire_notes(AGEING_INTERVAL, limit=NOTES_KEPT) == [
            ("learning", "uid-left")
        ]

    async def look(store: Store) -> None:
        assert store.learning_state("uid-left") is None
        assert store.learning_state("uid-stays") == store.learning_state("uid-back") == b"learnt"

    within(tmp_path, look)


def test_what_is_learnt_of_an_object_that_left_already_goes_too(tmp_path: Path) -> None:
    async def learn(store: Store) -> None:
        await store.save_learning_state(dataset("a"), b"late")

    within(tmp_path, learn)
    with closing(StoreDatabase(tmp_path)) as database:
        assert database.expire_notes(NOTES_KEPT, limit=NOTES_KEPT) == [("learning", "uid-a")]


# ── disks ──


@pytest.mark.slow  # a predecessor is waited for
def test_a_second_lc_in_the_same_directory_is_refused(tmp_path: Path) -> None:
    with closing(StoreDatabase(tmp_path)), pytest.raises(DirectoryInUse, match="--data-dir"):
        StoreDatabase(tmp_path)


@pytest.fixture
def aside(tmp_path: Path) -> Iterator[Path]:
    """Of a store with an object; what is set aside in a test is what was there."""

    async def fill(store: Store) -> None:
        await store.put(dataset("a"))
        await store.enqueue(dataset("a"), is_event=False, worker="", body=state(1))

    within(tmp_path, fill)
    yield tmp_path / NAME
    assert any(tmp_path.glob(f"{NAME}.aside-*"))


def _reopened(directory: Path) -> tuple[str, str, int]:
    found: list[tuple[str, str, int]] = []

    async def look(store: Store) -> None:
        found.append((store.store_id, store.note, len(store.objects("dataset"))))
        await store.put(dataset("b"))

    within(directory, look)
    return found[0]


def test_what_is_no_database_is_set_aside(aside: Path) -> None:
    aside.write_bytes(b"no database at all, but long enough to be looked at" * 100)
    store_id, note, objects = _reopened(aside.parent)
    assert objects == 0
    assert "set aside as" in note
    assert _reopened(aside.parent) == (store_id, "", 1)


def test_a_broken_page_is_set_aside(aside: Path) -> None:
    content = bytearray(aside.read_bytes())
    content[4096:] = os.urandom(len(content) - 4096)
    aside.write_bytes(content)
    _, note, objects = _reopened(aside.parent)
    assert objects == 0
    assert "set aside as" in note


def test_a_database_of_something_else_is_set_aside(aside: Path) -> None:
    aside.unlink()
    with closing(sqlite3.connect(aside)) as connection:
        connection.execute("CREATE TABLE of_others (it TEXT)")
    _, note, _ = _reopened(aside.parent)
    assert "something else" in note


def test_a_later_release_s_database_is_left_alone(tmp_path: Path) -> None:
    async def nothing(store: Store) -> None:
        """Only makes it."""

    within(tmp_path, nothing)
    with closing(sqlite3.connect(tmp_path / NAME)) as connection:
        connection.execute(f"PRAGMA user_version = {tables.SCHEMA_VERSION + 1}")
    with pytest.raises(NewerSchema, match="later release"):
        StoreDatabase(tmp_path)


def test_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    async def look(store: Store) -> None:
        await store.put(dataset("a"))
        found.update({file.name: file.stat().st_mode & 0o777 for file in _files(tmp_path)})

    found: dict[str, int] = {}
    within(tmp_path, look)
    assert set(found) == {NAME, f"{NAME}-wal", LAYOUT.lock_name}
    assert set(found.values()) == {0o600}


def test_a_file_that_was_removed_ends_the_process(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_store(tmp_path) as store:
            (tmp_path / NAME).unlink()
            await store.put(dataset("a"))

    with pytest.raises(BaseExceptionGroup) as caught:
        asyncio.run(work())
    assert caught.group_contains(Damaged, match="was removed or replaced")


def test_a_directory_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnavailable, match=r"Not a directory|File exists"):
        StoreDatabase(tmp_path / "file" / "data")


def test_a_wal_without_its_database_is_no_store(tmp_path: Path) -> None:
    async def fill(store: Store) -> None:
        await store.put(dataset("a"))
        for suffix in ("-wal",):
            source = tmp_path / f"{NAME}{suffix}"
            shutil.copy(source, tmp_path / "copy")

    within(tmp_path, fill)
    (tmp_path / NAME).unlink()
    (tmp_path / "copy").rename(tmp_path / f"{NAME}-wal")
    assert _reopened(tmp_path)[2] == 0
