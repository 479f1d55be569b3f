"""Members that break one rule each: the model must see what the rule is for."""

import math
from collections.abc import Iterable
from typing import Any

from elector_sidecar.shards.members.observed_members import ENDED, End
from elector_sidecar.shards.ownership import Ownership
from elector_sidecar.shards.shard_election import Command, ShardElection
from elector_sidecar.shards.table.shard_table import Owner


class BelievesHandEdits(ShardElection):
    """Any whole table follows the known one, and takes effect at once."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.table._gives_in = lambda *_: True  # type: ignore[method-assign]
        self.table.is_confirmed = lambda *_, **__: True  # type: ignore[method-assign]


class TakesUnconfirmed(ShardElection):
    """A member that is new to a table, or missed versions of it, takes what is free."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.table.is_confirmed = lambda *_, **__: True  # type: ignore[method-assign]


class NamesOnlyIdentities(ShardElection):
    """An entry is as good in a later term of the same member."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.membership.number = self._number_of_all  # type: ignore[method-assign]

    def _number_of_all(self, now: float) -> int | None:
        return 1 if self.election.valid_term(now) else None


class TakesEarly(ShardElection):
    """An owner is taken for dead after 0.6 of its lease duration, without a fence."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._now = -math.inf
        self._ends = self.members.end_of
        self.members.end_of = self._end_of  # type: ignore[method-assign]

    def advance(self, now: float, *, wall: float, chance: float) -> list[Command]:
        self._now = now
        return super().advance(now, wall=wall, chance=chance)

    def _end_of(self, owner: Owner, *, table_version: int) -> End:
        end = self._ends(owner, table_version=table_version)
        is_over = end.at < math.inf and self._now >= end.at - 0.4 * owner.lease_duration
        return ENDED if is_over else end


class BelievesCopiesOfLeases(ShardElection):
    """Another holder in the Lease of an owner took it after that one."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._ends = self.members.end_of
        self.members.end_of = self._end_of  # type: ignore[method-assign]

    def _end_of(self, owner: Owner, *, table_version: int) -> End:
        end = self._ends(owner, table_version=table_version)
        if end.needs_look:
            self.members.fenced(owner)  # and it stays ended
            return ENDED
        return end


class HandsOverUnconfirmed(ShardElection):
    """What is given up is free at once, whatever the main was told."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.ownership.ready = self._all_given_up  # type: ignore[method-assign]

    def _all_given_up(self, now: float) -> list[int]:
        return sorted(s for s, it in self.ownership.shards.items() if it.is_handing_over)


class NeverSettles(ShardElection):
    """It takes its share from the first moment."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.membership.is_settled = lambda now: True  # type: ignore[method-assign]


class NeverRenews(ShardElection):
    """As members up to 0.2 leave the table: nobody renews it."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._plan._renewal = lambda *_: None  # type: ignore[method-assign]
        self.table._renewed_at = math.inf


class OwnsByItsOwnLeaseAlone(ShardElection):
    """What it owns ends with its own Lease, however long nobody has renewed the table."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.table._renewed_at = math.inf


class _Unpromised(Ownership):
    def inherit(self, now: float, shards: Iterable[int], promised_until: float) -> None:
        super().inherit(now, shards, -math.inf)


class ForgetsWhatTheDeadOnePromised(ShardElection):
    """It goes on as the member before, whose main works by what is known no more."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.ownership.__class__ = _Unpromised
