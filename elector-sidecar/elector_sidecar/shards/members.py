"""The Leases of all members, as one of them sees them: who lives, and whose term has ended.

Pure. Guarantee: a term is called ended only when it can never own again: its Lease was emptied in
order, was taken by another term by the rules, or was waited out and then fenced (emptied by a
compare-and-swap), so that no late write of it can succeed.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from elector_sidecar.core.lease import Lease
from elector_sidecar.core.lease_watch import SILENT_PERIODS
from elector_sidecar.core.observed_lease import ObservedLease
from elector_sidecar.shards.member_lease import MemberNote, decode
from elector_sidecar.shards.table import Owner


@dataclass(frozen=True)
class End:
    """When a term ends for whoever judges it; `needs_fence`: its Lease is to be emptied then."""

    at: float
    needs_fence: bool


ENDED = End(-math.inf, needs_fence=False)
UNKNOWN = End(math.inf, needs_fence=False)


class ObservedMember:
    """One member Lease. `asked` since its last event: it was read because it is silent."""

    def __init__(self, name: str, *, me: str, own_duration: float, renew_interval: float) -> None:
        self.name = name
        self._me = me
        self._own_duration = own_duration
        self._renew_interval = renew_interval
        self._observed = ObservedLease(me, own_duration=own_duration, take_missing=False)
        self._newest = 0
        self._heard_at = -math.inf
        self._gap = 0.0
        # Since when the Lease is missing, or names this holder in this term.
        self._since = -math.inf
        self.note: MemberNote | None = None
        self.is_asked = False

    @property
    def lease(self) -> Lease | None:
        return self._observed.lease

    @property
    def holder(self) -> str:
        return self._observed.holder

    @property
    def duration(self) -> float:
        """Seconds that its present holder is waited out at least."""
        last = self._observed.last_holder
        return max(last.duration if last else 0.0, self._own_duration)

    @property
    def ends_at(self) -> float:
        """When its present holder is waited out."""
        return self._observed.free_at() if self.holder != self._me else math.inf

    def is_alive(self, now: float) -> bool:
        return self.holder != "" and self.note is not None and now < self.ends_at

    def adopt(self, now: float, lease: Lease, *, is_continuous: bool) -> bool:
        """False where nothing changed but the time of its last renewal."""
        if lease.resource_version <= self._newest:
            return False
        self._newest = lease.resource_version
        if self._heard_at > -math.inf:
            self._gap = min(now - self._heard_at, lease.spec.lease_duration or 0.0)
        self._heard_at = now
        self.is_asked = False
        before, said = self._state(), self.note
        self._observed.adopt(now, lease, is_continuous=is_continuous)
        self.note = decode(lease)
        if self._state() != before:
            self._since = now
        return (self._state(), self.note) != (before, said)

    def adopt_missing(self, now: float) -> None:
        if not self._observed.is_missing:
            self._since = now
        self._observed.adopt_missing(now)
        self.note = None
        self.is_asked = False

    def _state(self) -> tuple[object, ...]:
        uid = self.lease.uid if self.lease else None
        return uid, self.holder, self.note.term if self.note else None

    def silence_due(self) -> float:
        """When to read it because its holder was not heard (P8)."""
        if self.is_asked or not self.holder or self.holder == self._me:
            return math.inf
        return self._heard_at + SILENT_PERIODS * max(self._renew_interval, self._gap)

    def end_of(self, owner: Owner) -> End:
        """Of that term, which held this Lease."""
        if not self._observed.is_known:
            return UNKNOWN
        waited = self._since + max(owner.lease_duration, self._own_duration)
        lease = self.lease
        if lease is None:
            return End(waited, needs_fence=True)
        is_same = lease.uid == owner.uid
        if self.holder == "":
            in_order = is_same and self._observed.is_vacated_in_order
            return ENDED if in_order else End(waited, needs_fence=True)
        if self.note is None:
            # Stolen, or its annotation was edited: who holds it may be the owner, or a stranger.
            is_owner = self.holder == owner.identity
            at = self.ends_at if is_owner else waited
            return End(at, needs_fence=True)
        if self.holder == owner.identity and self.note.term <= owner.term:
            return End(self.ends_at, needs_fence=True)
        # Taken by the rules: after the owner's term had ended, if it is this very object.
        return ENDED if is_same else End(waited, needs_fence=False)


class Members:
    """All of them, by the name of their Lease; events are of the watch that they share."""

    def __init__(self, *, me: str, own_duration: float, renew_interval: float) -> None:
        self._me = me
        self._own_duration = own_duration
        self._renew_interval = renew_interval
        self._members: dict[str, ObservedMember] = {}
        # Up to which version all Leases are known.
        self.version = 0
        self._ended: set[tuple[str, int]] = set()

    def __iter__(self) -> Iterator[ObservedMember]:
        return iter(self._members.values())

    @property
    def names(self) -> set[str]:
        return set(self._members)

    def member(self, name: str) -> ObservedMember:
        if name not in self._members:
            self._members[name] = ObservedMember(
                name,
                me=self._me,
                own_duration=self._own_duration,
                renew_interval=self._renew_interval,
            )
        return self._members[name]

    def alive(self, now: float) -> list[ObservedMember]:
        return [member for member in self._members.values() if member.is_alive(now)]

    def end_of(self, owner: Owner, now: float, *, table_version: int) -> End:
        """Of a term that a table of this version names; what has ended is never asked again.

        The term began before that version: an older look at its Lease may show the one before it.
        """
        key = (owner.identity, owner.term)
        if key in self._ended:
            return ENDED
        if self.version < table_version:
            return UNKNOWN
        end = self.member(owner.lease).end_of(owner)
        if end.needs_fence or end.at > now:
            return end
        self._ended.add(key)
        return ENDED

    def fenced(self, owner: Owner) -> None:
        """Its Lease was emptied by a compare-and-swap on what had been waited out."""
        self._ended.add((owner.identity, owner.term))

    def forget(self, owners: set[Owner]) -> None:
        """Keeps only what is known of the terms in the table, and of Leases that exist."""
        self._ended &= {(owner.identity, owner.term) for owner in owners}
        kept = {owner.lease for owner in owners}
        for name in [n for n, it in self._members.items() if it.lease is None and n not in kept]:
            del self._members[name]
