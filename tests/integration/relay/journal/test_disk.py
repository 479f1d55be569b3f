"""R5, R6: a data directory that fails costs what it would have kept, never an answer."""

import os
import sqlite3
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.integration.relay.conftest import check_logs
from tests.integration.relay.oracle import assert_snapshot
from tests.integration.relay.place import PATIENT, Kind, Place
from tests.integration.relay.upstream import of_relays, verbs
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.observers.observer import wait_for
from tools.harness.pods.wire.caller import Parameters
from tools.harness.relay_objects import Contents

ANY: Parameters = {"resourceVersion": "0"}
SOON = 30.0
# Seconds; a disk that failed, be it by being slow, is tried again after a minute at the latest.
RETRIED = 90.0


def know(place: Place, contents: Contents) -> str:
    path = contents.path("configmaps")
    place.caller().get(path, {"resourceVersion": contents.version()}).expect()
    return path


def assert_serves(place: Place, contents: Contents) -> None:
    """Everything but what needs the disk."""
    path = contents.path("configmaps")
    version = contents.version()
    reply = place.caller().get(path, {"resourceVersion": version})
    assert_snapshot(place, path, {}, reply)
    query: Parameters = {"resourceVersion": reply.version, "timeoutSeconds": 60}
    with place.caller().watch(path, query) as watching:
        made = contents.configmap(f"made-{version}")
        watching.wait_told(("ADDED", made["metadata"]["name"]))


def test_r5_where_the_disk_is_full_the_relay_serves_says_so_and_goes_on_when_there_is_room(
    control_plane: ControlPlane, contents: Contents, small_disk: Path
) -> None:
    with Place(Kind.RELAY, control_plane, data_dir=small_disk / "data") as place:
        path = know(place, contents)
        wait_kept(place)
        filler = small_disk / "filler"
        with pytest.raises(OSError, match="No space left"):
            fill(filler)
        contents.configmaps(20, prefix="full", size=20_000)
        assert_serves(place, contents)
        wait_for(lambda: is_told(place), timeout=SOON, what="a failing disk in /status")
        # What is on the disk now is old, and true at its version.
        place.link.refuse()
        place.relay.kill()
        place.relay.start()
        old = place.caller().get(path, ANY)
        assert_snapshot(place, path, {}, old)
        filler.unlink()
        place.heal()
        assert_serves(place, contents)
        wait_kept(place)
        newest = place.caller().get(path, {"resourceVersion": contents.version()})
        wait_kept(place)
        place.cut()
        place.relay.kill()
        place.relay.start()
        # Perhaps at an earlier version, since when nothing has happened to them.
        assert place.caller().get(path, ANY).json()["items"] == newest.json()["items"]
        check_logs(place)


@pytest.fixture
def patient(control_plane: ControlPlane) -> Iterator[Place]:
    """A relay whose upstream may think for seconds before its clients are told what is known."""
    with Place(Kind.RELAY, control_plane, flags=[PATIENT]) as place:
        yield place
        check_logs(place)


def test_r5_a_list_of_a_client_that_overtakes_the_streams_own_is_what_a_restart_finds(
    patient: Place, contents: Contents
) -> None:
    path = contents.path("configmaps")
    contents.configmap("a")
    with ThreadPoolExecutor() as pool:
        with busy(patient):
            asked = pool.submit(patient.caller().get, path, ANY)
            wait_for(
                lambda: verbs(of_relays(patient.plane, contents.namespace)) == ["list", "watch"],
                timeout=SOON,
                what="the stream's first list",
            )
            contents.configmap("b")
            overtaking = pool.submit(patient.caller().get, path)
            wait_for(lambda: objects(patient) == 2, timeout=SOON, what="the client's list")
        assert set(asked.result().names) <= {"a", "b"}
        told = overtaking.result()
    assert told.names == ["a", "b"]
    query: Parameters = {"resourceVersion": told.version, "timeoutSeconds": 60}
    with patient.caller().watch(path, query) as watching:
        contents.configmap("c")
        watching.wait_told(("ADDED", "c"))
        assert watching.told() == [("ADDED", "c")]
    assert "on disk, its changes follow" not in patient.relay.log_text()
    patient.cut()
    patient.relay.kill()
    patient.relay.start()
    assert patient.caller().get(path, ANY).names == ["a", "b", "c"]


@contextmanager
def busy(place: Place) -> Iterator[None]:
    """Somebody else writes to the journal meanwhile."""
    with closing(sqlite3.connect(place.relay.data_dir / "journal.sqlite3")) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")


def objects(place: Place) -> int:
    return sum(each["objects"] for each in place.relay.status()["streams"])


def fill(path: Path) -> None:
    """Writes until there is no room."""
    with path.open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)


def wait_kept(place: Place) -> None:
    """Returns when all that the relay has answered is on the disk: a slow one fails for a while."""
    wait_for(lambda: not is_told(place), timeout=RETRIED, what="a disk that works")


def is_told(place: Place) -> bool:
    """Whether the status names a failure of the journal."""
    return bool(place.relay.status()["journal"]["failure"])


def test_r5_a_database_that_is_garbage_is_set_aside_and_rebuilt(
    one_relay: Place, contents: Contents
) -> None:
    contents.configmap("a")
    path = know(one_relay, contents)
    one_relay.cut()
    one_relay.relay.kill()
    spoiled = []
    for file in one_relay.relay.data_dir.rglob("*"):
        if file.is_file():
            file.write_bytes(os.urandom(20_000))
            spoiled.append(file.read_bytes()[:64])
    assert spoiled
    one_relay.relay.start()
    assert "WARN" in one_relay.relay.log_text().upper()
    # Kept for whoever wants to know what happened.
    kept = [
        file.read_bytes()[:64] for file in one_relay.relay.data_dir.rglob("*") if file.is_file()
    ]
    assert set(spoiled) & set(kept)
    assert one_relay.caller().get(path, ANY).status == 503
    one_relay.heal()
    assert_serves(one_relay, contents)
    one_relay.cut()
    one_relay.relay.kill()
    one_relay.relay.start()
    assert "a" in one_relay.caller().get(path, ANY).names


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of two megabytes."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount(["-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)])
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


def mount(arguments: list[str]) -> None:
    """Skips where this user may not mount: no test can be had without a disk to fill."""
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"mount {' '.join(arguments)}: {done.stderr.strip()}")


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    """A file system that nobody can write to."""
    disk = tmp_path / "read-only"
    disk.mkdir()
    mount(["-t", "tmpfs", "-o", "ro,size=1m", "tmpfs", str(disk)])
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


def test_r5_a_read_only_data_directory_costs_what_it_would_have_kept(
    control_plane: ControlPlane, contents: Contents, read_only: Path
) -> None:
    with Place(Kind.RELAY, control_plane, data_dir=read_only) as place:
        know(place, contents)
        assert_serves(place, contents)
        assert "read" in str(place.relay.status()).lower()
        check_logs(place)
