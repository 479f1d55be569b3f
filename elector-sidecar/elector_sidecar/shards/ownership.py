"""The shards of one member: which it may act on, which it hands over, what the main was promised.

Pure. Guarantee (S6): a shard that is given up is answered 503 first, and is ready to become free
only when the main has confirmed, or when every validity that it was promised has passed.

    inherited ──taken again──► owned

    owned ──give_up──► handing over ──confirmed, or promises over──► ready ──written──► gone
      └──────────── relinquish: the member gives up everything ──► relinquished ──► settled
"""

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from elector_sidecar.shards.balance import gathered_at


@dataclass
class OwnedShard:
    """`fencing_token`: the table's resourceVersion at acquisition. `promised_until`: the latest
    validity that the main was promised. `given_up_at`: since when it is handed over.
    `is_inherited`: of the process before, in the same term; not owned until it is taken again."""

    fencing_token: int
    owned_since: float
    promised_until: float = -math.inf
    given_up_at: float | None = None
    confirmed_at: float = math.inf
    is_inherited: bool = False

    @property
    def is_handing_over(self) -> bool:
        return self.given_up_at is not None

    @property
    def is_owned(self) -> bool:
        return not self.is_handing_over and not self.is_inherited

    @property
    def ready_at(self) -> float:
        """When it may become free, as far as is known now."""
        if self.given_up_at is None:
            return math.inf
        return max(self.given_up_at, min(self.confirmed_at, self.promised_until))


class Ownership:
    def __init__(self) -> None:
        self.shards: dict[int, OwnedShard] = {}
        # Of a term that the member ended by itself: the main may still work on them.
        self.relinquished: dict[int, OwnedShard] = {}
        self.takes = 0
        self.hand_overs = 0
        self.unconfirmed_hand_overs = 0
        self.losses = 0

    @property
    def owned(self) -> list[int]:
        return sorted(s for s, it in self.shards.items() if it.is_owned)

    @property
    def inherited(self) -> list[int]:
        return sorted(s for s, it in self.shards.items() if it.is_inherited)

    @property
    def handing_over(self) -> dict[int, OwnedShard]:
        """What is inherited has a token that only the process before knew: the main is not asked to
        confirm it."""
        given_up = {s: it for s, it in self.shards.items() if it.is_handing_over}
        shown = self.relinquished | given_up
        return {s: it for s, it in sorted(shown.items()) if not it.is_inherited}

    def inherit(self, now: float, shards: Iterable[int], promised_until: float) -> None:
        """The process before owned them or handed them over, and the main may work until then."""
        for shard in shards:
            self.shards[shard] = OwnedShard(0, now, promised_until, is_inherited=True)

    def take(self, now: float, shards: Iterable[int], fencing_token: int) -> None:
        for shard in shards:
            before = self.shards.get(shard)
            promised_until = before.promised_until if before else -math.inf
            self.shards[shard] = OwnedShard(fencing_token, now, promised_until)
            self.relinquished.pop(shard, None)
            self.takes += 1

    def keep_only(self, shards: Collection[int]) -> float:
        """The known table names this member for these; the others are gone. Until when the main
        may work on some of them."""
        promised_until = -math.inf
        for shard in [s for s in self.shards if s not in shards]:
            gone = self.shards.pop(shard)
            if gone.is_handing_over:
                self.hand_overs += 1
                # It became free only because all that the main was promised had passed.
                self.unconfirmed_hand_overs += -math.inf < gone.promised_until < gone.confirmed_at
            else:
                self.losses += 1
                promised_until = max(promised_until, min(gone.promised_until, gone.confirmed_at))
        return promised_until

    def give_up(self, now: float, count: int) -> None:
        """The highest ones, so that the others are neighbours."""
        for shard in self.owned[len(self.owned) - count :]:
            self.shards[shard].given_up_at = now

    def relinquish(self, now: float) -> None:
        """All at once; the Lease is held until they are settled."""
        for shard, it in self.shards.items():
            it.given_up_at = now if it.given_up_at is None else it.given_up_at
            self.relinquished[shard] = it
        self.shards = {}

    def lose(self) -> None:
        """All at once, and others may own them. What is inherited was not owned, and the main may
        work on it."""
        inherited = {s: it for s, it in self.shards.items() if it.is_inherited}
        self.losses += len(self.shards) - len(inherited)
        self.shards = inherited

    def lapse(self, now: float) -> bool:
        """The term ended without being given up. True if the main may work on, by what it was
        promised: then all is settled first, as if it was relinquished."""
        is_promised = any(it.promised_until > now for it in self.shards.values())
        self.losses += len(self.shards)
        if is_promised:
            self.relinquish(now)
        self.shards = {}
        return is_promised

    def main_stopped(self) -> None:
        """On all that was relinquished."""
        self.relinquished.clear()

    # ── promises to the main, and its confirmations ──

    def promise(self, shard: int, until: float) -> None:
        if shard in self.shards:
            it = self.shards[shard]
            it.promised_until = max(it.promised_until, until)

    def confirm(self, now: float, shard: int, token: int) -> bool:
        """False only if this shard is owned and not handed over."""
        owned = self.shards.get(shard)
        if owned is not None and owned.fencing_token == token and owned.is_owned:
            return False
        for it in (owned, self.relinquished.get(shard)):
            if it is not None and it.fencing_token == token and not it.is_inherited:
                it.confirmed_at = min(it.confirmed_at, now)
        return True

    def ready(self, now: float) -> list[int]:
        """Those that may be written free; together, where more become so in a moment, because
        confirmations come one by one."""
        over = {s: it.ready_at for s, it in self.shards.items() if it.is_handing_over}
        due = {s: at for s, at in over.items() if at <= now}
        return sorted(due) if len(due) == len(over) or now >= gathered_at(due.values()) else []

    def ready_at(self, now: float) -> float:
        """When `ready` may have an answer that it does not have now."""
        times = [it.ready_at for it in self.shards.values() if it.is_handing_over]
        due = [at for at in times if at <= now]
        return min([at for at in (*times, gathered_at(due)) if at > now], default=math.inf)

    def is_settled(self, now: float) -> bool:
        """Whether the main does no work of a term that the member ended by itself."""
        return all(it.ready_at <= now for it in self.relinquished.values())

    def settled_at(self) -> float:
        return max((it.ready_at for it in self.relinquished.values()), default=-math.inf)
