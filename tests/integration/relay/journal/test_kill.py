"""kill -9 in the middle of a write storm: what is found was committed, and nothing is missing."""

import random
import shutil
import time
from pathlib import Path

import pytest

from tests.integration.relay.journal.storm import SPACE, STREAMS
from tests.integration.relay.killed_storm import storm, stormed
from tests.unit.relay.journal.journal_history import cursors, load

KILLS = 10


def said_before_the_kill(directory: Path, *, seconds: float) -> dict[str, int]:
    """The cursors that a storm said were committed."""
    lines = stormed("journal.storm", directory, seconds=seconds)
    return {name: int(cursor) for name, cursor in lines}


@pytest.mark.slow
def test_after_kill_9_everything_that_was_committed_is_there_as_of_one_cursor(
    tmp_path: Path,
) -> None:
    """Time and again on the same files, so that recovery meets what recovery left."""
    chance = random.Random(7)
    directory = tmp_path / "data"
    total = 0
    for number in range(KILLS):
        said = said_before_the_kill(directory, seconds=chance.uniform(0, 0.4))
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


@pytest.mark.long
@pytest.mark.slow
def test_kill_9_while_the_file_is_being_made_leaves_one_that_can_be_used(tmp_path: Path) -> None:
    chance = random.Random(11)
    for number in range(8):
        directory = tmp_path / str(number)
        with storm("journal.storm", directory) as process:
            while not directory.exists():
                assert process.poll() is None
                time.sleep(0.001)
            time.sleep(chance.uniform(0, 0.01))
            process.kill()
        saved = load(directory)
        assert saved.note is None
        cursors(saved)
        assert said_before_the_kill(directory, seconds=0)
        assert cursors(load(directory))
