"""What each process leaves on its disk, and who may read it (docs/explanation/security.md)."""

import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.strangers.targets import (
    ELECTOR,
    GM,
    LC,
    POOL_CONTROLLER,
    RELAY,
    Running,
    Target,
    running,
)

# What the test itself lays there.
GIVEN = {"kubeconfig", "https", "token", "log", "ca.crt", "ca.key", "serving.crt", "serving.key"}


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def until_there(it: Running, path: Path) -> None:
    deadline = time.monotonic() + 10
    while not path.exists():
        assert time.monotonic() < deadline, it.log.read_text(encoding="utf-8")
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("target", "folder", "name"),
    [
        (RELAY, "data", "journal.sqlite3"),
        (LC, "var/lib/sedna", "lc.sqlite3"),
    ],
    ids=["relay", "lc"],
)
def test_a_database_is_for_its_process_alone(target: Target, folder: str, name: str) -> None:
    old = os.umask(0)
    try:
        with running(target) as it:
            os.umask(old)
            place = it.log.parent / folder
            until_there(it, place / name)
            found = {each.name: mode(each) for each in place.iterdir() if each.is_file()}
            assert found.keys() >= {name}
            assert set(found.values()) == {0o600}, found
            if target is not LC:  # which shares it with workers
                assert mode(place) == 0o700
    finally:
        os.umask(old)


@pytest.mark.parametrize(
    "target", [ELECTOR, GM, POOL_CONTROLLER], ids=["elector", "gm", "pool controller"]
)
def test_who_keeps_nothing_opens_no_file_to_write(target: Target) -> None:
    with running(target) as it:
        time.sleep(1.0)
        assert [*_written(it)] == []
        assert {path.name for path in it.log.parent.iterdir()} <= GIVEN


def _written(it: Running) -> Iterator[str]:
    """Files that it has open to write, apart from what it was started with."""
    for each in Path(f"/proc/{it.pid}/fdinfo").iterdir():
        opened = Path(f"/proc/{it.pid}/fd/{each.name}")
        if int(each.name) > 2 and opened.is_file():
            told = each.read_text(encoding="utf-8")
            [flags] = [it.split()[1] for it in told.splitlines() if it.startswith("flags:")]
            if int(flags, 8) & (os.O_WRONLY | os.O_RDWR):
                yield os.path.realpath(opened)
