"""The link's last verdict, which the next process finds."""

from pathlib import Path

import pytest

from relay_sidecar.journal.journal import Journal
from relay_sidecar.journal.records import Saved
from relay_sidecar.telemetry.status import Outage
from relay_sidecar.upstream.link_probe import OUTAGES_KEPT, SPACE, PersistedVerdict
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


BEGUN = Outage(1.5e9, 0.0, "refused")


def test_the_next_life_finds_the_outages_and_the_one_that_is_not_over(tmp_path: Path) -> None:
    past = [Outage(1.4e9 + n, 2.5, "timed out") for n in range(OUTAGES_KEPT)]
    found: list[PersistedVerdict] = []

    async def live(journal: Journal, saved: Saved) -> None:
        verdict = PersistedVerdict(journal, saved.kept.get(SPACE, {}))
        verdict.link(False, past[-1])
        verdict.link(True, None, past)
        verdict.link(False, BEGUN, past)

    async def look(journal: Journal, saved: Saved) -> None:
        found.append(PersistedVerdict(journal, saved.kept.get(SPACE, {})))

    play(tmp_path, live)
    for _ in range(2):
        play(tmp_path, look)
    for it in found:
        assert (it.was_down, it.present, it.outages) == (True, BEGUN, tuple(past))


@pytest.mark.parametrize("content", [b"", b"[", b"7", b"[[1]]", b'[["a",1,""]]'])
def test_what_is_no_outage_is_none(tmp_path: Path, content: bytes) -> None:
    """An earlier release kept an empty value for an outage that was not over."""

    async def look(journal: Journal, saved: Saved) -> None:
        verdict = PersistedVerdict(journal, {b"down": content, b"outages": content})
        assert (verdict.was_down, verdict.present, verdict.outages) == (True, None, ())

    play(tmp_path, look)
