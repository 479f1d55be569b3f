"""Disks that are really full, really read-only, or cut off from power in the middle of a storm."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.relay.journal.disks import SCENARIOS

# A mount that nobody else sees, gone with the process.
OWN_MOUNTS = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_journal_survives(scenario: str, tmp_path: Path) -> None:
    if subprocess.run([*OWN_MOUNTS, "true"], check=False, capture_output=True).returncode:
        pytest.skip("this machine lets nobody mount anything")
    run("journal.disks", scenario, str(tmp_path / "data"))


@pytest.mark.long
@pytest.mark.slow
def test_a_power_cut_leaves_the_journal_whole_as_of_one_cursor(tmp_path: Path) -> None:
    """Objects and cursor go back together, to a state that was."""
    if os.geteuid() or not Path("/dev/loop-control").exists() or shutil.which("mkfs.ext4") is None:
        pytest.skip("needs root, loop devices and mkfs.ext4: a file system on a file")
    if subprocess.run([*OWN_MOUNTS, "true"], check=False, capture_output=True).returncode:
        pytest.skip("this machine lets nobody mount anything")
    run("journal.power_cut", str(tmp_path))


def run(module: str, *arguments: str) -> None:
    command = [sys.executable, "-m", f"tests.integration.relay.{module}", *arguments]
    done = subprocess.run([*OWN_MOUNTS, *command], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
