"""kill -9 in the middle of a write storm: what was answered is there, and nothing is half there."""

import random
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.integration.relay.killed_storm import stormed
from tests.integration.tools.local_apiserver.in_process import InProcess, Json
from tests.integration.tools.local_apiserver.storm import PATH, is_deletion

KILLS = 20


class Said(NamedTuple):
    """What a writer was told last: the number of its write, and the version of its object, 0
    where the write deleted it."""

    number: int
    version: int


def said_before_the_kill(directory: Path, *, first: int, seconds: float) -> dict[str, Said]:
    """By writer, what it was told last."""
    lines = stormed("local_apiserver.storm", directory, str(first), seconds=seconds)
    return {name: Said(int(number), int(version)) for name, number, version in lines}


@pytest.mark.slow
def test_after_kill_9_everything_that_was_answered_is_there(tmp_path: Path) -> None:
    """Time and again on the same file, so that recovery meets what recovery left."""
    chance = random.Random(3)
    highest, first = 0, 0
    for _ in range(KILLS):
        said = said_before_the_kill(tmp_path, first=first, seconds=chance.uniform(0, 0.3))
        assert said
        with InProcess(tmp_path, collects=False) as server:
            found = {one["metadata"]["name"]: one["metadata"] for one in server.objects(PATH)}
            for name, last in said.items():
                check(last, found.get(name))
            made = server.ask("POST", PATH, {"metadata": {"generateName": "after-"}}).body
            after = int(made["metadata"]["resourceVersion"])
            assert after > max(highest, *(last.version for last in said.values()))
            highest = after
            server.ask("DELETE", f"{PATH}/{made['metadata']['name']}")
        first = max(last.number for last in said.values()) + 1


def check(last: Said, found: Json | None) -> None:
    """The last write that was answered is there, or the one after it, whose answer was cut off."""
    if found is None:
        assert last.version == 0 or is_deletion(last.number + 1)
        return
    number, version = int(found["labels"]["number"]), int(found["resourceVersion"])
    if number == last.number:
        assert version == last.version
    else:
        assert number == last.number + 1
        assert version > last.version
