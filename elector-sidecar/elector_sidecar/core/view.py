"""What handlers are told of an election: the whole truth of one moment, computed for it.

Guarantee: plain values that nobody changes later; whoever needs a newer truth asks again.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class ElectionView:
    """What is true at one moment; times are on the candidate's clock, in seconds."""

    is_leader: bool
    is_contending: bool
    is_lapsed: bool
    holder: str
    is_missing: bool
    valid_until: float | None
    started_at: float | None
    fencing_token: int | None
    acquire_time: str | None
    renew_time: str | None
    lease_transitions: int | None
    last_contact: float | None
    free_at: float
    strategy: str | None
    preferred_holder: str | None
    uid: str | None
