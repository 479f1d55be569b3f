"""How many shards each member should own, and who gives up or takes which now.

Pure and deterministic: members that see the same table and the same members decide the same. A
change moves no more shards than the sizes of the shares need (S3); without one nothing moves (S4).
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

# Seconds between two takers, so that the second sees what the first one took.
TAKER_SPACING = 0.02
# Shards are given up and become free one after the other: what comes so soon after another is
# written with it, but nothing waits longer than the second of these. Seconds.
GATHER = 0.02
LONGEST_GATHER = 0.1
# A shard that stays free for so long is taken by any member. Seconds.
UNTAKEN_LIMIT = 1.0


@dataclass(frozen=True)
class Share:
    """What counts of a living member. Who owns something takes part, settled or not. `can_take`:
    whether anything is given up for it."""

    owned: int
    is_settled: bool
    is_leaving: bool = False
    can_take: bool = True


@dataclass(frozen=True)
class Taking:
    """Shards that a member takes, after waiting for its turn (seconds). `are_all`: no more are
    needed to make the shares even."""

    shards: tuple[int, ...]
    delay: float
    are_all: bool = True


def participants(members: Mapping[str, Share]) -> dict[str, Share]:
    """The members among which shards are shared; all that stay if none is settled yet."""
    staying = {identity: it for identity, it in members.items() if not it.is_leaving}
    chosen = {identity: it for identity, it in staying.items() if it.is_settled or it.owned}
    return chosen or staying


def quotas(members: Mapping[str, Share], shards: int) -> dict[str, int]:
    """How many each participant should own. What does not divide goes to those who have so many
    already, in an order that does not change while others give theirs up; then to who owns most."""
    sharing = participants(members)
    least, more = divmod(shards, len(sharing)) if sharing else (0, 0)
    order = sorted(
        sharing, key=lambda identity: (-min(sharing[identity].owned, least + 1), identity)
    )
    return {identity: least + (place < more) for place, identity in enumerate(order)}


def excess(me: str, members: Mapping[str, Share], shards: int) -> int:
    """How many shards this member gives up: no more than are taken, those who own most first."""
    target = quotas(members, shards)
    missing = sum(
        max(quota - members[identity].owned, 0)
        for identity, quota in target.items()
        if members[identity].can_take
    )
    for identity, quota in target.items():
        given = min(max(members[identity].owned - quota, 0), missing)
        if identity == me:
            return given
        missing -= given
    return 0


def gathered_at(since: Collection[float]) -> float:
    """When to write what has been due since these times, where more is due in a moment."""
    if not since:
        return math.inf
    return min(max(since) + GATHER, min(since) + LONGEST_GATHER)


def taking(
    me: str, members: Mapping[str, Share], free: Sequence[int], late: Sequence[int], shards: int
) -> Taking:
    """Which of the free shards this member takes. `late`: those that no member took in time."""
    sharing = participants(members)
    if me not in sharing:
        return Taking((), 0.0)
    if late:
        order = sorted(sharing, key=lambda identity: (sharing[identity].owned, identity))
        return Taking(tuple(late), order.index(me) * TAKER_SPACING)
    wanted = {
        identity: quota - sharing[identity].owned
        for identity, quota in quotas(members, shards).items()
        if quota > sharing[identity].owned
    }
    order = sorted(wanted, key=lambda identity: (-wanted[identity], identity))
    if me not in wanted:
        return Taking((), 0.0)
    place = order.index(me)
    first = sum(wanted[identity] for identity in order[:place])
    mine = tuple(sorted(free)[first : first + wanted[me]])
    return Taking(mine, place * TAKER_SPACING, len(free) >= sum(wanted.values()))
