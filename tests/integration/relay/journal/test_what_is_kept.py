"""Limits: what is read by name is bounded in memory and on disk, for as long as a relay runs; what
was read last is there after a restart while cut."""

import asyncio
import os
import sqlite3
import time
from http import HTTPStatus
from pathlib import Path

import pytest

from edge_sidecars.apimachinery.objects import Item
from edge_sidecars.apimachinery.resources import ResourceName
from edge_sidecars.apimachinery.scope import ListScope
from relay_sidecar.journal.database import NAME
from relay_sidecar.journal.journal import Journal
from relay_sidecar.journal.records import ListReplaced
from tests.integration.relay.place import Kind, Place
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.observers.observer import wait_for
from tools.harness.pods.wire.caller import Reply
from tools.harness.relay_objects import Contents

# Bytes; a fourth of it is for objects that are read by name.
BUDGET = 8 * 1024 * 1024
SIZE = 200_000
# Of these, a fourth of the budget holds ten.
COUNT = 30
EVENTS = 300
SELECTORS = 1000
MIB = 1024 * 1024
# Lists of an earlier life, and objects of each.
LISTS, OBJECTS = 200, 5
# Bytes that a relay without objects has at most.
ITSELF = 60 * MIB


@pytest.fixture
def bounded(control_plane: ControlPlane, tmp_path: Path) -> Place:
    return Place(
        Kind.RELAY,
        control_plane,
        flags=[f"--memory-budget={BUDGET}"],
        data_dir=tmp_path / "data",
    )


def event(contents: Contents, number: int) -> dict[str, object]:
    return {
        "kind": "Event",
        "apiVersion": "v1",
        "metadata": {"name": f"e{number}", "namespace": contents.namespace},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": contents.namespace},
        "reason": "Pulled",
        "message": "m" * 900,
    }


def test_l5_events_that_are_written_push_out_nothing(bounded: Place, contents: Contents) -> None:
    contents.configmap("needed", k="v")
    with bounded as place:
        place.wait_up()
        needed = contents.path("configmaps", "needed")
        assert place.caller().get(needed).status == HTTPStatus.OK
        before = place.relay.status()["memory"]["seenBytes"]
        for number in range(EVENTS):
            body = event(contents, number)
            reply = place.caller().post(contents.path("events"), body)
            assert reply.status == HTTPStatus.CREATED
        assert place.relay.status()["memory"]["seenBytes"] == before
        place.cut()
        place.relay.kill()
        place.relay.start()
        assert place.caller().get(needed).status == HTTPStatus.OK


def test_l3_objects_that_are_read_by_name_are_bounded_in_memory_and_on_disk(
    bounded: Place, contents: Contents
) -> None:
    names = [contents.configmap(f"big-{n}", k="x" * SIZE)["metadata"]["name"] for n in range(COUNT)]
    with bounded as place:
        place.wait_up()
        for name in names:
            assert place.caller().get(contents.path("configmaps", name)).status == HTTPStatus.OK
        memory = place.relay.status()["memory"]
        assert memory["seenBytes"] <= memory["seenLimitBytes"] == BUDGET // 4
        assert memory["evictedObjects"] > 0
        assert rows(place.relay.data_dir) * SIZE <= BUDGET // 4

        place.cut()
        place.relay.kill()
        place.relay.start()
        # What was read last is there.
        found = [place.caller().get(contents.path("configmaps", it)).status for it in names]
        assert found[-8:] == [HTTPStatus.OK] * 8
        assert HTTPStatus.NOT_FOUND not in found


def test_l3_an_object_that_does_not_change_is_written_once(
    bounded: Place, contents: Contents
) -> None:
    contents.configmap("same", k="v" * 4000)
    with bounded as place:
        place.wait_up()
        same = contents.path("configmaps", "same")
        assert place.caller().get(same).status == HTTPStatus.OK
        before = written(place.relay.pid)
        for _ in range(200):
            assert place.caller().get(same).status == HTTPStatus.OK
        assert written(place.relay.pid) - before < 100_000


def test_l2_any_number_of_selectors_are_no_more_streams_than_the_limit(
    control_plane: ControlPlane, contents: Contents
) -> None:
    contents.configmap("a", labels={"job": "j7"})
    with Place(Kind.RELAY, control_plane, flags=["--max-streams=5"]) as place:
        place.wait_up()
        with place.caller().watch(contents.path("configmaps"), {"watch": "true"}) as watching:
            for number in range(40):
                query = {"labelSelector": f"job=j{number}", "resourceVersion": "0"}
                reply = place.caller().get(contents.path("secrets"), query)
                assert reply.status == HTTPStatus.OK
                assert place.relay.status()["memory"]["runningStreams"] <= 5
            contents.configmap("b")
            watching.wait_for(lambda it: any(e.name == "b" for e in it.seen), what="b")


@pytest.mark.slow
def test_l2_lists_by_ever_new_selectors_follow_nothing_and_are_known_while_cut(
    control_plane: ControlPlane, contents: Contents
) -> None:
    contents.configmap("a", labels={"job": f"j{SELECTORS - 1}"})
    path, needed = contents.path("configmaps"), contents.path("configmaps", "a")
    with Place(
        Kind.RELAY, control_plane, flags=["--max-streams=50"], prefix=["prlimit", "--nofile=1024"]
    ) as place:
        place.wait_up()
        for number in range(SELECTORS):
            assert by_selector(place, path, number).status == HTTPStatus.OK
            if number % 100 == 0:
                assert place.caller().get(needed).status == HTTPStatus.OK
                assert len(os.listdir(f"/proc/{place.relay.pid}/fd")) < 100
        memory = place.relay.status()["memory"]
        assert memory["runningStreams"] == 0
        assert len(place.relay.status()["streams"]) == 4 * 50
        assert memory["evictedStreams"] == SELECTORS - 4 * 50
        # What is asked for again is followed.
        assert by_selector(place, path, SELECTORS - 1).names == ["a"]
        assert place.relay.status()["memory"]["runningStreams"] == 1

        place.cut()
        for number in (SELECTORS - 1, SELECTORS - 2):
            kept = by_selector(place, path, number)
            assert kept.status == HTTPStatus.OK
            assert "Age" in kept.headers
        evicted = by_selector(place, path, 0)
        assert evicted.status == HTTPStatus.SERVICE_UNAVAILABLE
        assert b"--max-streams" in evicted.body
        assert place.relay.log_text().count("a limit is reached limit=--max-streams") >= 1
        assert "Traceback" not in place.relay.log_text()
        assert len(place.relay.log_text().splitlines()) < 20


@pytest.mark.long
def test_l3_a_start_needs_no_more_memory_than_the_budget(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    """However large the journal is that an earlier life left."""
    data_dir = tmp_path / "data"
    asyncio.run(write_lists(data_dir))
    size = (data_dir / NAME).stat().st_size
    assert size > LISTS * OBJECTS * SIZE
    with Place(
        Kind.RELAY, control_plane, flags=[f"--memory-budget={BUDGET}"], data_dir=data_dir
    ) as place:
        place.wait_up()
        memory = place.relay.status()["memory"]
        assert memory["usedBytes"] <= memory["limitBytes"]
        assert highest(place.relay.pid) < ITSELF + 2 * BUDGET
        found = {stream["namespace"] for stream in place.relay.status()["streams"]}
        assert f"n{LISTS - 1}" in found
        assert "n0" not in found
        wait_for(
            lambda: (data_dir / NAME).stat().st_size <= 2 * BUDGET + 16 * MIB,
            timeout=60,
            what="a smaller file",
            interval=0.2,
        )


async def write_lists(data_dir: Path) -> None:
    """200 MB, as of a relay that had another budget."""
    journal = await Journal.open(data_dir)
    try:
        await journal.load()
        for number in range(LISTS):
            name = f"n{number}"
            items = [
                Item((name, f"c{n}"), 1, b'{"metadata":{}}'.ljust(SIZE)) for n in range(OBJECTS)
            ]
            scope = ListScope(ResourceName("", "v1", "configmaps"), name)
            at = time.time() - LISTS + number
            await journal.commit(ListReplaced(scope, "ConfigMap", "v1", 1, items, at))
        assert journal.failure is None
    finally:
        await journal.close()


def highest(pid: int) -> int:
    """Bytes, the most that it ever had."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) * 1024


def by_selector(place: Place, path: str, number: int) -> Reply:
    return place.caller().get(path, {"labelSelector": f"job=j{number}"})


def rows(data_dir: Path) -> int:
    with sqlite3.connect(f"file:{data_dir}/journal.sqlite3?mode=ro", uri=True) as database:
        [(count,)] = database.execute("SELECT count(*) FROM seen").fetchall()
    return int(count)


def written(pid: int) -> int:
    """Bytes that the process wrote to files and sockets of the file system."""
    lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["write_bytes"])
