"""The core of the election for shards as it was before two of its rules: an exploration must see
what they are for. `tests.unit.elector.shards.mutants` has those that break other rules."""

import math
from typing import Any

from elector_sidecar.shards.shard_election import ShardElection
from elector_sidecar.shards.table.table_state import TableState


class _OwnedForEver(TableState):
    @property
    def renewed_until(self) -> float:
        return math.inf


class LeavesTheTableUnrenewed(ShardElection):
    """A table is held for ten years and never renewed, which client-go 0.26 does not read."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.table.__class__ = _OwnedForEver
        self._plan._renewal = lambda *_: None  # type: ignore[method-assign]
