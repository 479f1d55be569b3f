"""What the controller says on a PoolMember, in `status.conditions`. Pure.

Guarantees: a condition is there exactly while it is so, from what the API has at the moment;
`lastTransitionTime` is left to the caller's wall clock and kept while the condition lasts.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from pool_sidecar.core.pool_member import MAX_MEMBERS, Condition, PoolMember

ADMITTED: Final = "Admitted"
POOL_FULL: Final = "PoolFull"
NOT_REACHABLE: Final = "NotReachableByPeers"
NEVER_HEARD: Final = "NeverHeard"
# Names in a message; the reports have all of them.
NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class SetConditions:
    """All of them; one without `since` began now."""

    name: str
    uid: str
    conditions: tuple[Condition, ...]


def pool_full(pool: str) -> Condition:
    message = f"the pool {pool} has {MAX_MEMBERS} members already: make it two pools"
    return Condition(ADMITTED, "False", POOL_FULL, message)


def not_reachable(strangers: Sequence[str]) -> Condition | None:
    """Where Ready members of its pool have never heard the node."""
    if not strangers:
        return None
    named = ", ".join(strangers[:NAMED])
    more = f" and {len(strangers) - NAMED} more" if len(strangers) > NAMED else ""
    message = (
        f"{named}{more} have never heard this node since it is Ready: their votes keep it; "
        "see that port 10555 is open between the nodes of the pool"
    )
    return Condition(NOT_REACHABLE, "True", NEVER_HEARD, message)


def set_conditions(member: PoolMember, *wanted: Condition | None) -> SetConditions | None:
    """None where the PoolMember has exactly these."""
    since = {(it.type, it.status): it.since for it in member.conditions}
    conditions = tuple(
        replace(it, since=since.get((it.type, it.status), "")) for it in wanted if it is not None
    )
    if conditions == member.conditions:
        return None
    return SetConditions(member.name, member.uid, conditions)
