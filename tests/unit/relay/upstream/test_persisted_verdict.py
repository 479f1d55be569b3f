"""The link's last verdict, which the next process finds."""

from pathlib import Path

import pytest

from relay_sidecar.journal.journal import Journal
from relay_sidecar.journal.records import Saved
from relay_sidecar.upstream.link_probe import SPACE, PersistedVerdict
from tests.unit.relay.journal.journal_history import play


def was_down(directory: Path) -> bool:
    found: list[bool] = []

    async def look(journal: Journal, saved: Saved) -> None:
        found.append(PersistedVerdict(journal, saved.kept.get(SPACE, {})).was_down)

    play(directory, look)
    return found[0]


@pytest.mark.parametrize(
    ("verdicts", "is_down"),
    [
        ([], False),
        ([False], True),
        ([True], False),
        ([False, False], True),
        ([False, True], False),
        ([True, False, True, False], True),
    ],
)
def test_the_last_verdict_is_found_by_each_life_until_another_is_given(
    tmp_path: Path, verdicts: list[bool], is_down: bool
) -> None:
    async def live(journal: Journal, saved: Saved) -> None:
        verdict = PersistedVerdict(journal, saved.kept.get(SPACE, {}))
        for is_up in verdicts:
            verdict.link(is_up)

    play(tmp_path, live)

    assert [was_down(tmp_path) for _ in range(2)] == [is_down, is_down]
