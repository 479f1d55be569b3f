"""What one member tells of the shards: its own, those that it hands over, members, owners.

Pure; `ShardViews` reads what the parts of a `ShardElection` know.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from edge_sidecars.apimachinery.selection.shard_ranges import shard_range
from elector_sidecar.core.candidacy import ElectionView
from elector_sidecar.core.lease import pod_name
from elector_sidecar.shards.ownership import OwnedShard, Ownership
from elector_sidecar.shards.shard_moves import ShardMoves
from elector_sidecar.shards.table.table_state import TableState


@dataclass(frozen=True)
class ShardView:
    """One shard that this member owns or hands over; `owned_seconds` since it was acquired."""

    shard: int
    range: tuple[str, str]
    fencing_token: int
    owned_seconds: float


@dataclass(frozen=True)
class MemberView:
    """A living member, and how many shards the table gives it."""

    identity: str
    pod: str
    owned: int
    is_settled: bool


@dataclass(frozen=True)
class ShardsView:
    """What is true at one moment; `valid_until` None: nothing is owned."""

    shards: int
    owned: tuple[ShardView, ...]
    handing_over: tuple[ShardView, ...]
    valid_until: float | None
    members: tuple[MemberView, ...]
    unowned: int
    owners: tuple[str, ...]
    reason: str


class UnownedTime:
    """How long shards had no owner: `seconds`, summed over shards, up to the last look."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._unowned = 0
        self._since = 0.0

    def look(self, now: float, unowned: int) -> None:
        """So many have none from `now` on."""
        self.seconds += self._unowned * (now - self._since)
        self._unowned, self._since = unowned, now


class ShardViews:
    def __init__(
        self, shards: int, ownership: Ownership, table: TableState, moves: ShardMoves
    ) -> None:
        self._number = shards
        self._ownership = ownership
        self._table = table
        self._moves = moves

    def view(
        self, now: float, *, owned: Sequence[int], valid_until: float | None, reason: str
    ) -> ShardsView:
        shares = self._moves.shares(now)
        return ShardsView(
            shards=self._number,
            owned=self._shards(now, owned),
            handing_over=self._shards(now, list(self._ownership.handing_over)),
            valid_until=valid_until if owned else None,
            members=tuple(
                MemberView(identity, pod_name(identity), share.owned, share.is_settled)
                for identity, share in sorted(shares.items())
            ),
            unowned=self._number - sum(it.owned for it in shares.values()),
            owners=self._owners(),
            reason=reason,
        )

    def leader_view(
        self, view: ElectionView, shard: OwnedShard | None, *, valid_until: float | None
    ) -> ElectionView:
        """The election's view as of shard 0, which is what /leader and /readyz answer; `shard` is
        None where it is not owned."""
        owners = self._owners()
        lease = self._table.lease
        return replace(
            view,
            is_leader=shard is not None,
            is_lapsed=False,
            holder=owners[0] if owners else "",
            valid_until=valid_until if shard else None,
            started_at=shard.owned_since if shard else None,
            fencing_token=shard.fencing_token if shard else None,
            is_missing=self._table.observed.is_missing,
            acquire_time=lease.spec.acquire_time if lease else None,
            renew_time=lease.spec.renew_time if lease else None,
            lease_transitions=lease.spec.lease_transitions if lease else None,
            strategy=None,
            preferred_holder=None,
            uid=lease.uid if lease else None,
        )

    def owner(self, shard: int) -> str:
        """The identity that the known table names for it; "" if none."""
        owners = self._table.known.table.owners if self._table.known else ()
        found = owners[shard] if shard < len(owners) else None
        return found.identity if found else ""

    def _owners(self) -> tuple[str, ...]:
        owners = self._table.known.table.owners if self._table.known else ()
        return tuple(it.identity if it else "" for it in owners)

    def _shards(self, now: float, shards: Sequence[int]) -> tuple[ShardView, ...]:
        known = self._ownership.shards | self._ownership.handing_over
        return tuple(
            ShardView(
                shard,
                shard_range(shard, self._number),
                known[shard].fencing_token,
                now - known[shard].owned_since,
            )
            for shard in shards
        )
