"""Disks that are really full, or really read-only."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.relay.journal_disks import SCENARIOS

# A mount that nobody else sees, gone with the process.
OWN_MOUNTS = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_journal_survives(scenario: str, tmp_path: Path) -> None:
    if subprocess.run([*OWN_MOUNTS, "true"], check=False, capture_output=True).returncode:
        pytest.skip("this machine lets nobody mount anything")
    module = "tests.integration.relay.journal_disks"
    directory = tmp_path / "data"
    done = subprocess.run(
        [*OWN_MOUNTS, sys.executable, "-m", module, scenario, str(directory)],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
