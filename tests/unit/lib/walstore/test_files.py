"""A database's files: nobody else reads them, one process has them, what was there is not lost."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from edge_sidecars.walstore.files import KEPT_ASIDE, lock_directory, make_private, set_aside


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.sqlite3"


def _contents(directory: Path) -> Iterator[tuple[str, str]]:
    for file in sorted(directory.iterdir()):
        yield file.name, file.read_text()


def test_what_is_set_aside_keeps_its_wal_and_loses_its_index(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).write_text(suffix or "rows")
    assert set_aside(path) == path.with_name("a.sqlite3.aside-1")
    assert dict(_contents(path.parent)) == {
        "a.sqlite3.aside-1": "rows",
        "a.sqlite3.aside-1-wal": "-wal",
    }


def test_the_newest_three_stay_aside_and_other_files_are_left_alone(path: Path) -> None:
    path.with_name("b.sqlite3.aside-1").write_text("another's")
    for number in range(1, 13):
        path.write_text(str(number))
        path.with_name("a.sqlite3-wal").write_text(f"wal of {number}")
        set_aside(path)
    kept = {f"a.sqlite3.aside-{number}": str(number) for number in range(13 - KEPT_ASIDE, 13)}
    wals = {f"{name}-wal": f"wal of {text}" for name, text in kept.items()}
    assert dict(_contents(path.parent)) == {"b.sqlite3.aside-1": "another's", **kept, **wals}


def test_a_file_is_private_from_the_start_and_one_that_was_not_becomes_so(path: Path) -> None:
    make_private(path)
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o644)
    path.write_text("rows")
    make_private(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_text() == "rows"


def test_a_wal_without_its_database_is_not_believed(path: Path) -> None:
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).write_text("of one that is gone")
    make_private(path)
    assert dict(_contents(path.parent)) == {path.name: ""}


def test_a_link_is_not_followed(path: Path) -> None:
    path.symlink_to(path.with_name("elsewhere"))
    with pytest.raises(OSError, match="symbolic links"):
        make_private(path)
    assert not path.with_name("elsewhere").exists()


def test_a_lock_is_free_again_when_its_descriptor_is_closed(path: Path) -> None:
    for _ in range(2):
        os.close(lock_directory(path.parent, "a.lock", owner="relay", is_private=True))
    assert path.with_name("a.lock").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(("is_private", "mode"), [(True, 0o700), (False, 0o755)])
def test_a_directory_that_is_there_keeps_its_mode_unless_it_is_private(
    path: Path, is_private: bool, mode: int
) -> None:
    path.parent.chmod(0o755)
    os.close(lock_directory(path.parent, "a.lock", owner="LC", is_private=is_private))
    assert path.parent.stat().st_mode & 0o777 == mode
