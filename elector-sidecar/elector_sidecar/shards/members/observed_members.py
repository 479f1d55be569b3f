"""The Leases of all members, as one of them sees them: who lives, and whose term has ended.

Pure. Guarantee: a term is called ended only when it can never own again. Its Lease was emptied or
taken after it by the rules, as its note there says. Or it was waited out, and then its Lease
was emptied by a compare-and-swap or seen in other hands, so that no late write of it can succeed.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from elector_sidecar.core.lease import Lease
from elector_sidecar.core.lease_watch import SILENT_PERIODS
from elector_sidecar.core.observed_lease import ObservedLease
from elector_sidecar.shards.members.member_lease import MemberNote, decode
from elector_sidecar.shards.table.shard_table import Owner


@dataclass(frozen=True)
class End:
    """When a term ends, as this member sees it; then its Lease is to be emptied (`needs_fence`), or
    to be looked at once more (`needs_look`), before it has ended for good."""

    at: float
    needs_fence: bool = False
    needs_look: bool = False


ENDED = End(-math.inf)
UNKNOWN = End(math.inf)


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
        # Since when, without a version missed, the Lease is missing or names this holder in this
        # term; and when the last look at it was sent that showed that.
        self._since = -math.inf
        self._looked_at = -math.inf
        # By which version each term that was seen had begun.
        self._begun_by: dict[tuple[str, int], int] = {}
        # It was emptied by the rules before it was deleted.
        self._is_closed = False
        self.note: MemberNote | None = None
        self.is_asked = False

    @property
    def lease(self) -> Lease | None:
        return self._observed.lease

    @property
    def newest(self) -> int:
        """The newest version that was seen."""
        return self._newest

    @property
    def is_known(self) -> bool:
        return self._observed.is_known

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

    def may_work(self, since: float) -> bool:
        """Whether somebody who held it may have owned something then or later."""
        is_emptied = self.holder == "" and self.note is not None
        return not (is_emptied or self._is_closed) and self.ends_at > since

    def adopt(self, now: float, lease: Lease, *, is_continuous: bool) -> bool:
        """False where nothing changed but the time of its last renewal."""
        if lease.resource_version <= self._newest:
            return False
        self._newest = lease.resource_version
        if self._heard_at > -math.inf:
            self._gap = min(now - self._heard_at, lease.spec.lease_duration or 0.0)
        self._heard_at = now
        self.is_asked = self._is_closed = False
        before, note = self._state(), self.note
        self._observed.adopt(now, lease, is_continuous=is_continuous)
        self.note = decode(lease)
        if self.note is not None and self.holder:
            term = (self.holder, self.note.term)
            self._begun_by.setdefault(term, lease.resource_version)
        if self._state() != before or (self.note is None and not is_continuous):
            self._since = now
        return (self._state(), self.note) != (before, note)

    def adopt_missing(self, now: float) -> None:
        if not self._observed.is_missing:
            self._since = now
            self._is_closed = self.lease is not None and not self.may_work(now)
        self._observed.adopt_missing(now)
        self.note = None
        self.is_asked = False

    def looked(self, sent_at: float) -> None:
        """A request that was sent then showed it as it is known."""
        self._looked_at = max(self._looked_at, sent_at)

    def _state(self) -> tuple[object, ...]:
        uid = self.lease.uid if self.lease else None
        return uid, self.holder, self.note.term if self.note else None

    def go_on_as(self, me: str) -> None:
        """This member is that holder from now on."""
        self._me = self._observed.identity = me

    def ask(self) -> None:
        """It is read because it is silent; once until it is heard again."""
        self.is_asked = True

    def silence_due(self) -> float:
        """When to read it because its holder was not heard (P8)."""
        if self.is_asked or not self.holder or self.holder == self._me:
            return math.inf
        return self._heard_at + SILENT_PERIODS * max(self._renew_interval, self._gap)

    def end_of(self, owner: Owner, *, named_at: int) -> End:
        """Of that term, which held this Lease and which a table of version `named_at` names."""
        if not self.is_known:
            return UNKNOWN
        waited = self._since + max(owner.lease_duration, self._own_duration)
        lease, note = self.lease, self.note
        if lease is None:
            return End(waited, needs_fence=True)
        begun_by = min(self._begun_by.get((owner.identity, owner.term), named_at), named_at)
        if note is not None:
            # Taken, released or emptied by the rules after that term had begun (P1): it is over,
            # whatever was put back since.
            is_other = (self.holder, note.term) != (owner.identity, owner.term)
            if is_other and lease.uid == owner.uid and note.begun_on >= begun_by:
                return ENDED
            if self.holder == owner.identity and note.term > owner.term:
                return ENDED
        if self.holder == owner.identity:
            return End(self.ends_at, needs_fence=True)
        if self.holder == "" or note is None:
            return End(waited, needs_fence=True)
        # Another member of ours, who knows when it took it; a copy of its Lease looks the same.
        return ENDED if self._looked_at >= waited else End(waited, needs_look=True)

    def forget_terms(self, kept: set[tuple[str, int]]) -> None:
        """Keeps what is known of these terms and of the present one."""
        if self.note is not None:
            kept = kept | {(self.holder, self.note.term)}
        self._begun_by = {term: at for term, at in self._begun_by.items() if term in kept}

    def is_over(self, now: float) -> bool:
        """Deleted, and its last holder cannot work any more; or never seen at all."""
        is_past = self._is_closed or self.ends_at <= now
        return not self.is_known or (self._observed.is_missing and is_past)


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

    def go_on_as(self, me: str) -> None:
        self._me = me
        for member in self:
            member.go_on_as(me)

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

    def arrived(self, version: int) -> None:
        """All Leases are known up to this version."""
        self.version = version

    def begin_anew(self) -> None:
        """The history that they are of is lost."""
        self._members.clear()
        self._ended.clear()
        self.version = 0

    def alive(self, now: float) -> list[ObservedMember]:
        return [member for member in self._members.values() if member.is_alive(now)]

    def end_of(self, owner: Owner, *, table_version: int) -> End:
        """Of a term that a table of this version (0: none) names; what has ended is never asked
        again.

        The term began before that version: an older look at its Lease may show the one before it.
        """
        key = (owner.identity, owner.term)
        if key in self._ended:
            return ENDED
        if not table_version or self.version < table_version:
            return UNKNOWN
        end = self.member(owner.lease).end_of(owner, named_at=table_version)
        if end == ENDED:
            self._ended.add(key)
        return end

    def left_over(self, now: float) -> list[tuple[float, Owner]]:
        """Terms of members of ours that are waited out, and since when, whatever they owned: as
        long as a Lease names somebody, a new member has to wait for it."""
        return [
            (it.ends_at, Owner(it.holder, it.note.term, it.name, it.lease.uid, it.duration))
            for it in self._members.values()
            if it.note and it.lease and it.holder and it.ends_at <= now
        ]

    def fenced(self, owner: Owner) -> None:
        """Its Lease was emptied by a compare-and-swap on what had been waited out."""
        self._ended.add((owner.identity, owner.term))

    def forget(self, owners: set[Owner], now: float) -> None:
        """Keeps only what is known of the terms in the table, and of Leases that exist or whose
        last holder may work on."""
        terms = {(owner.identity, owner.term) for owner in owners}
        self._ended &= terms
        kept = {owner.lease for owner in owners}
        for name, member in list(self._members.items()):
            member.forget_terms(terms)
            if name not in kept and member.is_over(now):
                del self._members[name]
