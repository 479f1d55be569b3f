"""Data directories that release 0.2.0 wrote are read whole, and today's files are those of 0.2.0.

`data_0_2_0/` holds, for each program, a database that 0.2.0 closed and a later state of it as
kill -9 left it, with a WAL that is not checkpointed.
"""

import asyncio
import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from edge_sidecars.apimachinery.objects import Item
from edge_sidecars.apimachinery.resources import ResourceName
from edge_sidecars.apimachinery.scope import ListScope
from edge_sidecars.apimachinery.selection.fields import FieldSelector
from edge_sidecars.apimachinery.selection.labels import LabelSelector
from edge_sidecars.sedna_api.core.api_object import ObjectKey
from lc.store import Store, open_store
from relay_sidecar.access import authorization_store
from relay_sidecar.core.access.authorization import (
    AuthorizationCache,
    saved_clock,
)
from relay_sidecar.core.access.authorizer import Attributes, Decision
from relay_sidecar.core.access.expiry import OfflineClock
from relay_sidecar.journal.records import Saved
from relay_sidecar.streams import stream_journal
from tests.unit.relay.journal.journal_history import load, objects

DATA = Path(__file__).with_name("data_0_2_0")
ENDS = ["closed", "killed"]
FILES = {
    "journal": "journal.sqlite3",
    "lc": "lc.sqlite3",
}
PODS = ListScope(ResourceName("", "v1", "pods"), "shop")
DEPLOYMENTS = ListScope(
    ResourceName("apps", "v1", "deployments"),
    "",
    LabelSelector.parse("app in (x,y),!old"),
    FieldSelector.parse("metadata.name!=a"),
)
TOKEN = "token-of-anna"
BOOT_ID = "boot-of-0.2.0"


@pytest.fixture(params=ENDS)
def end(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def _copied(program: str, end: str, directory: Path) -> Path:
    shutil.copytree(DATA / program / end, directory, dirs_exist_ok=True)
    return directory


# ── the relay's journal ──


def _pod(name: str, version: int, note: str = "") -> Item:
    metadata = {"name": name, "namespace": "shop", "resourceVersion": str(version)}
    raw = json.dumps({"metadata": metadata, "note": note}, separators=(",", ":"))
    return Item(("shop", name), version, raw.encode())


def test_the_journal_has_its_streams_and_objects(tmp_path: Path, end: str) -> None:
    saved = load(_copied("journal", end, tmp_path))
    assert saved.note is None
    streams = {stream.scope: stream for stream in saved.streams}
    assert streams.keys() == {PODS, DEPLOYMENTS}
    pods, deployments = streams[PODS], streams[DEPLOYMENTS]
    items = [_pod("a", 3), _pod("c", 13, "moved")]
    if end == "killed":
        items.append(_pod("d", 15))
    assert objects(pods.items) == objects(items)
    assert (pods.kind, pods.api_version, pods.used_at) == ("Pod", "v1", 103.5)
    expected = {"closed": (14, 102.5), "killed": (15, 106.5)}
    assert (pods.cursor, pods.confirmed_at) == expected[end]
    assert (deployments.kind, deployments.api_version) == ("Deployment", "apps/v1")
    assert (deployments.cursor, deployments.used_at) == (12, 101.5)
    assert list(deployments.items) == []
    [seen] = saved.seen
    assert str(seen.resource) == str(ResourceName("", "v1", "nodes"))
    assert (seen.item.key, seen.item.version, seen.at) == (("", "edge-1"), 7, 104.5)
    assert seen.item.raw == b'{"metadata":{"name":"edge-1"}}'


def test_the_journal_has_what_its_owners_kept(tmp_path: Path, end: str) -> None:
    saved = load(_copied("journal", end, tmp_path))
    assert saved.kept.keys() == {"access", "documents", "equal"}
    assert saved.kept["documents"] == {b"/api application/json": b"\x00document"}
    [(key, value)] = saved.kept[stream_journal.SPACE].items()
    assert key == b'["","v1","pods","shop","",""]'
    assert value == b"\x83\xa6cursor\x0e\xa7versionc\xa2at\xcb\x40\x5a\x60\x00\x00\x00\x00\x00"


def test_a_caller_keeps_what_upstream_decided(tmp_path: Path, end: str) -> None:
    decisions = _decisions(load(_copied("journal", end, tmp_path)))
    pods = Attributes(verb="list", version="v1", resource="pods", namespace="shop")
    nodes = Attributes(verb="list", version="v1", resource="nodes")
    allowed = decisions.judge(TOKEN, pods, now=1060.0, is_online=False)
    assert isinstance(allowed, Decision)
    assert allowed.allowed
    found = decisions.judge(TOKEN, nodes, now=1060.0, is_online=False)
    assert isinstance(found, Decision)
    assert (found.allowed, found.user, found.reason) == (False, "anna", "policy")


def _decisions(saved: Saved) -> AuthorizationCache:
    kept = saved.kept[authorization_store.SPACE]
    assert kept[authorization_store.SALT] == bytes(range(authorization_store.SALT_LENGTH))
    readable = {
        key.decode(): value for key, value in kept.items() if key != authorization_store.SALT
    }
    clock = OfflineClock(boot_id=BOOT_ID, now=1060.0, saved=saved_clock(readable))
    decisions = AuthorizationCache(
        salt=kept[authorization_store.SALT], ttl=60.0, offline_ttl=86400.0, clock=clock
    )
    decisions.restore(readable, now=1060.0)
    return decisions


# ── LC's store ──


def _looked_at(directory: Path, look: Callable[[Store], None]) -> None:
    async def opened() -> None:
        async with open_store(directory) as store:
            look(store)

    asyncio.run(opened())


def test_the_store_has_its_objects_and_waiting_reports(tmp_path: Path, end: str) -> None:
    is_killed = end == "killed"

    def look(store: Store) -> None:
        assert store.note == ""
        assert len(store.store_id) == len("00000000-0000-0000-0000-000000000000")
        assert store.known() == {"dataset": 11 if is_killed else 7, "model": 9}
        found = store.get(ObjectKey("dataset", "shop", "a"))
        assert found is not None
        assert (found.uid, found.resource_version, found.generation) == ("uid-a", 7, 1)
        assert json.loads(found.raw)["spec"] == {"url": "/srv/d.txt", "format": "txt"}
        waiting = [
            (it.uid, it.seq, it.previous, it.is_event, it.worker, it.body) for it in store.pending()
        ]
        assert {it.store_id for it in store.pending()} == {store.store_id}
        expected = [
            ("uid-a", 1, 0, True, "w", b'{"phase":"Train"}'),
            ("uid-a", 3, 1, False, "", b'{"n":2}'),
        ]
        if is_killed:
            expected.append(("uid-b", 1, 0, False, "", b'{"killed":1}'))
        assert sorted(waiting) == expected

    _looked_at(_copied("lc", end, tmp_path), look)


def test_the_store_has_its_learning_state_and_refusals(tmp_path: Path, end: str) -> None:
    def look(store: Store) -> None:
        assert store.learning_state("uid-a") == b"learnt of a"
        assert store.learning_state("uid-left") == b"learnt of left"
        assert store.position("uid-a") == b"position of a"
        ever, [refusal] = store.refusals()
        assert ever == 1
        assert refusal.key == ObjectKey("model", "shop", "m")
        assert (refusal.uid, refusal.seq, refusal.reason) == ("uid-m", 1, "no such model")

    _looked_at(_copied("lc", end, tmp_path), look)


def test_the_store_has_its_unknown_jobs(tmp_path: Path, end: str) -> None:
    def look(store: Store) -> None:
        found = store.unknown_jobs
        job = ObjectKey("incrementallearningjob", "shop", "job")
        service = ObjectKey("jointinferenceservice", "shop", "given-up")
        assert [(it.number, it.key, it.worker, it.body) for it in found.reports.values()] == [
            (1, job, "w-1", b'{"unknown":1}'),
            (2, job, "w-2", b'{"unknown":2}'),
            (3, service, "w", b'{"old":1}'),
        ]
        # Each begins 10 s before 0, and 5 s passed.
        assert found.waited == {job: -5.0, service: -5.0}
        assert found.last == 3

    _looked_at(_copied("lc", end, tmp_path), look)


def test_the_numbers_of_reports_go_on(tmp_path: Path) -> None:
    async def enqueue() -> int:
        async with open_store(_copied("lc", "closed", tmp_path)) as store:
            model = store.get(ObjectKey("model", "shop", "m"))
            assert model is not None
            return (await store.enqueue(model, is_event=False, worker="", body=b'{"x":1}')).seq

    assert asyncio.run(enqueue()) == 3


# ── what today's code writes ──

OPEN: dict[str, Callable[[Path], object]] = {
    "journal": load,
    "lc": lambda directory: _looked_at(directory, lambda store: None),
}
HEADER = ("application_id", "user_version", "auto_vacuum", "page_size", "journal_mode", "encoding")


def _form(file: Path) -> tuple[object, ...]:
    """The settings and the schema of a database, whose text SQLite keeps byte for byte."""
    with closing(sqlite3.connect(file)) as connection:
        header = [connection.execute(f"PRAGMA {name}").fetchall() for name in HEADER]
        schema = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema")
        return header, schema.fetchall()


@pytest.mark.parametrize("program", FILES)
def test_a_new_file_has_the_name_and_form_that_0_2_0_gave_it(program: str, tmp_path: Path) -> None:
    OPEN[program](tmp_path / "new")
    old = _copied(program, "closed", tmp_path / "old") / FILES[program]
    assert _form(tmp_path / "new" / FILES[program]) == _form(old)


@pytest.mark.parametrize("program", FILES)
def test_a_file_of_0_2_0_keeps_its_form(program: str, tmp_path: Path, end: str) -> None:
    new = _copied(program, end, tmp_path / "new")
    OPEN[program](new)
    old = _copied(program, "closed", tmp_path / "old")
    assert _form(new / FILES[program]) == _form(old / FILES[program])
    assert not list(new.glob("*.aside-*"))
