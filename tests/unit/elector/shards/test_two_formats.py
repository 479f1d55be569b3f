"""S1, S2 while members of two versions, whose tables have different formats, share a ring."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import pytest

from elector_sidecar.shards.shard_election import ShardElection
from elector_sidecar.shards.table import shard_table as tables
from elector_sidecar.shards.table import table_plan, table_state
from tests.unit.elector.shards.ring import SHARDS, TIMING, Ring


class NextVersion:
    """Writes tables of format 2, and reads those of format 1 too."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self._election = ShardElection(*arguments, **named)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._election, name)
        if not callable(found):
            return found

        @wraps(found)
        def in_its_format(*arguments: Any, **named: Any) -> Any:
            with _formats(2, 1):
                return found(*arguments, **named)

        return in_its_format


@contextmanager
def _formats(written: int, *read: int) -> Iterator[None]:
    original = tables.decode

    def decode(stored: str | None) -> tuple[tables.Table, str]:
        try:
            return original(stored)
        except tables.NewerTable:
            with pytest.MonkeyPatch.context() as other:
                other.setattr(tables, "FORMAT", read[0])
                return original(stored)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "FORMAT", written)
        patch.setattr(table_state, "decode", decode)
        patch.setattr(table_plan, "decode", decode)
        yield


def test_s1_a_rolling_update_to_another_format() -> None:
    """The ring checks at each step that no shard has two owners."""
    ring = Ring(ShardElection, "x", "y", "z")
    ring.run(40)
    assert ring.shares() == [5, 5, 6]
    for name in ("x", "y", "z"):
        ring.make = NextVersion  # type: ignore[assignment]
        ring.start(f"new-{name}", pod=f"new-{name}")
        ring.run(10)
        ring.members[name].leave()
        ring.run(20)
    assert '"format":2' in ring.text()
    assert ring.shares() == [5, 5, 6]


def test_members_that_cannot_read_the_table_own_nothing_and_say_why() -> None:
    ring = Ring(ShardElection, "x", "y")
    ring.run(40)
    ring.make = NextVersion  # type: ignore[assignment]
    new = ring.start("new")
    ring.run(TIMING.lease_duration)
    for name in ("x", "y"):
        old = ring.members[name]
        assert not old.owned()
        assert "update this elector" in old.election.view(old.clock.now()).reason
        old.leave()
    ring.run(TIMING.lease_duration)
    assert len(new.owned()) == SHARDS
