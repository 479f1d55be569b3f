"""kill -9 in the middle of a write storm: what is found was committed, and nothing is missing."""

import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.integration.relay.journal_storm import SPACE, STREAMS
from tests.unit.relay.journal_history import cursors, load

KILLS = 25


def storm(directory: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.integration.relay.journal_storm", str(directory)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def stormed(directory: Path, *, seconds: float) -> dict[str, int]:
    """Kills a storm so long after its first commit; the cursors that it said were committed."""
    with storm(directory) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline()]
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            lines.append(process.stdout.readline())
        process.kill()
        lines += process.stdout.readlines()
    assert process.returncode == -signal.SIGKILL
    said: dict[str, int] = {}
    for line in lines:
        # The last line may have been cut off with the process.
        if line.endswith("\n"):
            name, cursor = line.split()
            said[name] = int(cursor)
    return said


@pytest.mark.slow
def test_after_kill_9_everything_that_was_committed_is_there_as_of_one_cursor(
    tmp_path: Path,
) -> None:
    """Time and again on the same files, so that recovery meets what recovery left."""
    chance = random.Random(7)
    directory = tmp_path / "data"
    total = 0
    for number in range(KILLS):
        said = stormed(directory, seconds=chance.uniform(0, 0.4))
        copy = tmp_path / "copy"
        shutil.copytree(directory, copy)
        saved = load(copy)
        shutil.rmtree(copy)
        assert saved.note is None, number
        found = {scope.namespace: cursor for scope, cursor in cursors(saved).items()}
        assert len(found) == len(STREAMS)
        for name, cursor in said.items():
            assert found[name] >= cursor
        # What was committed in one go is there in one piece.
        kept = {key.decode(): int(value) for key, value in saved.kept[SPACE].items()}
        assert kept == {name: cursor for name, cursor in found.items() if cursor}
        assert sum(found.values()) > total
        total = sum(found.values())


@pytest.mark.slow
def test_kill_9_while_the_file_is_being_made_leaves_one_that_can_be_used(tmp_path: Path) -> None:
    chance = random.Random(11)
    for number in range(8):
        directory = tmp_path / str(number)
        with storm(directory) as process:
            while not directory.exists():
                assert process.poll() is None
                time.sleep(0.001)
            time.sleep(chance.uniform(0, 0.01))
            process.kill()
        saved = load(directory)
        assert saved.note is None
        cursors(saved)
        assert stormed(directory, seconds=0)
        assert cursors(load(directory))
