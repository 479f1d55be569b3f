"""tools/scripts/bootstrap makes a .venv for the demo or for development, and completes it."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.unit.repository.checkout import ROOT

# Writes down what it is asked for, and makes a .venv whose Python it is itself.
PYTHON = """#!/bin/sh
case "$*" in
"-m venv "*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
*"--requirement"* | *" -r "*) echo "$*" >>"$CALLS" ;;
esac
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What bootstrap reads, in a folder of its own."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for name in ("tools/scripts", "tools/requirements"):
        shutil.copytree(ROOT / name, tmp_path / name)
    (tmp_path / "python").write_text(PYTHON, encoding="utf-8")
    (tmp_path / "python").chmod(0o755)
    return tmp_path


def installed(checkout: Path, *arguments: str) -> list[str]:
    """Runs bootstrap; returns the lock files that pip is given."""
    calls = checkout / "calls"
    calls.write_text("")
    done = subprocess.run(
        [checkout / "tools/scripts/bootstrap", *arguments],
        env={**os.environ, "PYTHON": str(checkout / "python"), "CALLS": str(calls)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return [line.split()[-1] for line in calls.read_text(encoding="utf-8").splitlines()]


def test_the_demo_gets_its_own_packages_and_later_tests_the_others(checkout: Path) -> None:
    assert installed(checkout, "demo") == ["tools/requirements/demo.txt"]
    assert installed(checkout, "demo") == []
    assert installed(checkout) == ["tools/requirements/dev.txt"]
    assert installed(checkout) == []
    assert installed(checkout, "demo") == []
    assert installed(checkout, "release") == []


def test_a_changed_lock_file_is_installed(checkout: Path) -> None:
    assert installed(checkout) == ["tools/requirements/dev.txt"]
    with (checkout / "tools/requirements/dev.txt").open("a", encoding="utf-8") as lock:
        lock.write("# changed\n")
    assert installed(checkout, "demo") == ["tools/requirements/demo.txt"]
    assert installed(checkout) == ["tools/requirements/dev.txt"]


def test_a_purpose_without_a_lock_file_is_refused(checkout: Path) -> None:
    done = subprocess.run(
        [checkout / "tools/scripts/bootstrap", "none"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert done.stderr == "bootstrap: no tools/requirements/none.txt\n"


def test_without_venv_root_and_sudo_the_one_command_that_helps_is_named(
    checkout: Path, tmp_path: Path
) -> None:
    """Programs that it calls are those of a folder: a Python without venv, no sudo, no root."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("sh", "dirname", "sed", "cat", "cksum", "flock"):
        (programs / name).symlink_to(str(shutil.which(name)))
    for name, text in {
        "python": """case "$*" in *venv*) exit 1 ;; *) cat >/dev/null ;; esac""",
        "id": "echo 1000",
        "apt-get": "exit 100",
    }.items():
        (programs / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        (programs / name).chmod(0o755)
    done = subprocess.run(
        [checkout / "tools/scripts/bootstrap", "demo"],
        env={"PATH": str(programs), "PYTHON": "python"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    assert "`apt-get install python3-venv` as root" in done.stderr
