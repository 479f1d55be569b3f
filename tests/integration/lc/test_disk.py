"""A disk that is full: workers are told to say it again, and nothing is lost."""

import json
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.lc.stocked import change, stocked, waiting
from tests.unit.lc.documents import dataset, document
from tools.harness.pods.lc import LcProcess

# A mount that nobody else sees, gone with the process.
OWN_MOUNTS = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
JOBS = [document("federatedlearningjob", f"job-{n}") for n in range(3)]
# $0: the directory, $1: an empty one beside it.
MOUNT = """mount -t tmpfs -o size=2m tmpfs "$1" && cp -a "$0/." "$1" && mount --bind "$1" "$0" &&
echo mounted && exec sleep infinity"""


class SmallDisk:
    """LC's data directory on a disk of its own, which outlives LC; `prefix` leads there."""

    def __init__(self, directory: Path, scratch: Path) -> None:
        command = [*OWN_MOUNTS, "sh", "-c", MOUNT, str(directory), str(scratch)]
        self._holder = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == b"mounted\n"
        self.prefix = ["nsenter", f"--mount=/proc/{self._holder.pid}/ns/mnt", "--"]
        # As it is seen from here.
        self.directory = Path(f"/proc/{self._holder.pid}/root{directory}")
        self._filler = self.directory / "filler"

    def fill(self) -> None:
        with self._filler.open("wb", buffering=0) as file:
            try:
                while file.write(b"x" * 4096):
                    pass
            except OSError:
                return

    def clean(self) -> None:
        self._filler.unlink()

    def stop(self) -> None:
        self._holder.kill()
        self._holder.wait()
        if self._holder.stdout is not None:
            self._holder.stdout.close()


@pytest.fixture
def small(tmp_path: Path) -> Iterator[tuple[LcProcess, SmallDisk]]:
    """An LC, not started, with a disk of 2 MiB."""
    may_mount = subprocess.run([*OWN_MOUNTS, "true"], check=False, capture_output=True)
    if may_mount.returncode or shutil.which("nsenter") is None:
        pytest.skip("this machine lets nobody mount anything")
    lc = stocked(*JOBS, dataset("a"))
    lc.write("/srv/d.txt", "1\n")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    disk = SmallDisk(lc.data_dir, scratch)
    lc.prefix += disk.prefix
    try:
        yield lc, disk
    finally:
        lc.stop()
        disk.stop()


def said(lc: LcProcess, number: int, count: int) -> int:
    told = {"namespace": "shop", "ownerName": f"job-{number}", "kind": "train"}
    told |= {"ownerKind": "federatedlearningjob", "status": "running"}
    answer = lc.report(f"w{number}", {**told, "ownerInfo": {"n": count, "x": "x" * 20_000}})
    assert answer is not None
    assert answer.status in (200, 503), answer
    if answer.status == 503:
        assert answer.headers["Retry-After"] == "3"
        assert "say it again" in answer.json()["Message"]
    return answer.status


def test_a_full_disk_is_told_to_workers_and_loses_nothing(
    small: tuple[LcProcess, SmallDisk],
) -> None:
    lc, disk = small
    lc.start()
    lc.until(lambda status: status["reports"]["waiting"] == 1)
    assert [said(lc, number, 1) for number in range(3)] == [200, 200, 200]
    disk.fill()
    count = 2
    while said(lc, 0, count) == 200:
        count += 1
    assert "database or disk is full" in lc.status()["store"]["failure"]
    assert "lc_store_failing 1" in lc.metrics()
    # It answers, and a new process has all of it, with a disk as full.
    assert lc.status()["reports"]["waiting"] == 4
    lc.kill()
    lc.start()
    assert lc.status()["reports"]["waiting"] == 4
    assert len(lc.status()["objects"]) == 4
    while said(lc, 1, count) == 200:
        count += 1
    disk.clean()
    assert said(lc, 0, count + 1) == 200
    assert lc.status()["store"]["failure"] == ""
    log = lc.log_text(all_lives=True)
    assert "the disk takes no changes" in log
    assert "the disk takes changes again" in log
    assert "Traceback" not in log


def test_a_dataset_that_changed_on_a_full_disk_is_reported_later(
    small: tuple[LcProcess, SmallDisk],
) -> None:
    lc, disk = small
    lc.start()
    lc.until(lambda status: status["reports"]["waiting"] == 1)
    disk.fill()
    count = 1
    while said(lc, 0, count) == 200:
        count += 1
    lc.write("/srv/d.txt", "1\n2\n3\n")
    lc.until(lambda status: _note(status) == "3 samples")
    assert _reported(lc, disk) == {"numberOfSamples": 1}
    disk.clean()
    lc.until(lambda status: _reported(lc, disk) == {"numberOfSamples": 3})


def _reported(lc: LcProcess, disk: SmallDisk) -> object:
    found = waiting(lc, directory=disk.directory)
    [body] = [json.loads(it.body) for it in found if it.kind == "dataset"]
    return body


def _note(status: dict[str, list[dict[str, str]]]) -> str:
    [note] = [it["note"] for it in status["objects"] if it["kind"] == "dataset"]
    return note


def test_a_database_that_somebody_holds_is_waited_for_at_the_start() -> None:

    with stocked(*JOBS) as lc:
        lc.kill()
        change(lc)
        connection = sqlite3.connect(lc.data_dir / "lc.sqlite3", isolation_level=None)
        try:
            connection.execute("BEGIN EXCLUSIVE")
            lc.start(wait=False)
            assert lc.wait() == 1
            assert "database is locked" in lc.log_text()
        finally:
            connection.close()
        lc.start()
        assert len(lc.status()["objects"]) == len(JOBS)
