"""May this Lease be taken, and from when on?

Owns what one candidate has seen of one Lease and every rule about other people's claims to it.
Pure: `now` comes in, times on the same local clock come out; times that were written by others
are only compared for change. Guarantee: `free_at` never comes before the end of the validity of
a holder that follows our rules, or client-go's, by clocks whose rates differ by less than the
assumed epsilon.

    unseen ──► held by somebody ──(no change for its duration)──► free
                 │        ▲
       released  ▼        │ taken            blanked, deleted or replaced: its leader may lead on,
                free ─────┘                  and is waited out as if the record still named it
"""

import math
from dataclasses import dataclass, replace

from elector_sidecar.core.lease import Lease
from elector_sidecar.core.timing import FOREIGN_FACTOR

# A Lease that was deleted while somebody held it for longer than this is not waited out any
# longer (contract, section 4).
MISSING_WAIT_LIMIT = 600.0


@dataclass(frozen=True)
class Holder:
    """The last holder that was seen, with what bounds how long it may go on."""

    holder_identity: str
    uid: str
    is_marked: bool
    # The annotation that stood beside this holder: it tells a release of this holder, which
    # keeps it, from a blanking of a later one, which shows another.
    annotation: str | None
    duration: float
    changed_at: float
    # A renewal proves the duration to be the holder's own; before, an edit may have shortened it.
    is_renewed: bool
    is_released: bool = False

    def wait(self, own_duration: float) -> float:
        """How long after the last sign of life the holder may still act."""
        if not self.is_marked:
            return self.duration * FOREIGN_FACTOR
        return self.duration if self.is_renewed else max(self.duration, own_duration)


class ObservedLease:
    """One candidate's knowledge of one Lease."""

    def __init__(self, identity: str, *, own_duration: float, take_missing: bool) -> None:
        self.identity = identity
        self._own_duration = own_duration
        self._take_missing = take_missing
        self._not_before = -math.inf
        self._vacant_at = -math.inf
        # Whether no pod can lead since the record names none.
        self._is_orderly = False
        # Before the first read nothing is free: an unseen holder may lead.
        self.is_known = False
        self.lease: Lease | None = None
        self.last_holder: Holder | None = None
        # Whether the Lease did not exist, and no holder has been seen since.
        self.was_missing = False

    @property
    def holder(self) -> str:
        """The holder by the record; "" if none or unknown."""
        return self.lease.spec.holder_identity if self.lease else ""

    @property
    def is_missing(self) -> bool:
        return self.is_known and self.lease is None

    @property
    def must_create_vacant(self) -> bool:
        """A create has no version to compare, so that it must not make a leader by itself."""
        return self.is_missing and not (self._take_missing and self.last_holder is None)

    @property
    def missing_since(self) -> float:
        return self._vacant_at if self.is_missing else math.inf

    @property
    def own_from(self) -> float:
        """From when on the own record counts: no older claim or doubtful creation in the way."""
        return self._not_before

    def is_mine(self, now: float) -> bool:
        """Whole-string equality, and no older claim or doubtful creation in the way."""
        return self.holder == self.identity and now >= self._not_before

    def not_before(self, until: float) -> None:
        """Nothing is taken, not even our own record, before `until`."""
        self._not_before = max(self._not_before, until)

    def adopt_missing(self, now: float) -> None:
        """The Lease does not exist."""
        if not self.is_missing:
            self._vacant_at = now
        self._is_orderly = False
        self.is_known = True
        self.lease = None
        self.was_missing = True

    def adopt(self, now: float, lease: Lease, *, is_continuous: bool) -> bool:
        """Takes a newer version in; True if its spec (or uid) changed.

        `is_continuous`: it came by a watch that delivers every version, so none was missed.
        """
        before = self.lease
        was_known, self.is_known, self.lease = self.is_known, True, lease
        if before is not None and (before.uid, before.spec) == (lease.uid, lease.spec):
            if self.last_holder is not None and self.holder == self.last_holder.holder_identity:
                self.last_holder = replace(
                    self.last_holder,
                    is_marked=lease.is_marked or self.last_holder.is_marked,
                    annotation=lease.marked_holder,
                )
            return False
        if lease.spec.holder_identity == "":
            # Deleted and created anew: that releases no holder, and who held it between is unknown.
            is_replaced = was_known and (before is None or before.uid != lease.uid)
            self._vacate(now, before, lease, is_replaced=is_replaced, is_continuous=is_continuous)
        else:
            self._adopt_holder(now, before, lease, is_continuous=is_continuous)
        return True

    def free_at(self) -> float:
        """From when on a write may take the Lease; +inf while nothing is known."""
        if not self.is_known:
            return math.inf
        if self.holder == self.identity:
            # The own record needs no wait: no other living process has this identity.
            return self._not_before
        return max(self._not_before, self._holder_ends_at())

    def free_since(self, now: float) -> float | None:
        """Since when the Lease has no holder; None if it may have one, even this candidate."""
        free_at = max(self._not_before, self._holder_ends_at()) if self.is_known else math.inf
        if free_at > now:
            return None
        return max(free_at, self._vacant_at)

    def _holder_ends_at(self) -> float:
        known = self.last_holder
        if self.holder and known is not None:
            return known.changed_at + known.wait(self._own_duration)
        if self.lease is None and known is None and self._take_missing:
            return self._vacant_at
        return -math.inf if self._is_orderly else self._vacant_at + self._vacancy_wait()

    def _vacancy_wait(self) -> float:
        """How long somebody may lead on after the record ceased to say so."""
        known, lease = self.last_holder, self.lease
        if known is None or known.is_released:
            named = lease.spec.lease_duration or 0.0 if lease else 0.0
            return max(self._own_duration, named)
        wait = known.wait(self._own_duration)
        if lease is None or lease.uid != known.uid:
            wait = min(wait, MISSING_WAIT_LIMIT)
        return max(self._own_duration, wait)

    def _vacate(
        self,
        now: float,
        before: Lease | None,
        lease: Lease,
        *,
        is_replaced: bool,
        is_continuous: bool,
    ) -> None:
        """The record names no holder: released in order, or blanked by another writer.

        Where versions were missed, the holder by the annotation may have led in between.
        """
        known = self.last_holder
        # It stood beside a holder that is not ours, and whose release keeps it.
        is_left_over = (
            is_continuous
            and known is not None
            and lease.marked_holder == known.annotation
            and lease.marked_holder != known.holder_identity
        )
        is_same_vacancy = (
            before is not None
            and before.spec.holder_identity == ""
            and before.marked_holder == lease.marked_holder
        )
        if is_replaced:
            self._is_orderly = False
        elif is_same_vacancy:
            # In a gap one of ours may have led and been blanked, if the annotation is there.
            gap_is_harmless = is_continuous or lease.marked_holder is None
            self._is_orderly = self._is_orderly and gap_is_harmless
        else:
            self._is_orderly = lease.marked_holder is None or is_left_over
        self._vacant_at = now
        if known is not None and self._is_orderly:
            self.last_holder = replace(known, is_released=True)

    def _adopt_holder(
        self, now: float, before: Lease | None, lease: Lease, *, is_continuous: bool
    ) -> None:
        """The record names a holder: the known one going on, or another."""
        known = self.last_holder
        self.was_missing = False
        spec = lease.spec
        self._wait_out_marked_holder(now, lease, is_continuous=is_continuous)
        holder = Holder(
            holder_identity=spec.holder_identity,
            uid=lease.uid,
            is_marked=lease.is_marked,
            annotation=lease.marked_holder,
            duration=spec.lease_duration or self._own_duration,
            changed_at=now,
            is_renewed=False,
        )
        if known is not None and known.holder_identity == spec.holder_identity:
            renewed = before is not None and before.spec.renew_time != spec.renew_time
            holder = replace(
                holder,
                duration=max(holder.duration, known.duration),
                is_renewed=known.is_renewed or renewed,
            )
        else:
            self._wait_out_known_holder(now, lease, is_continuous=is_continuous)
        self.last_holder = holder

    def _wait_out_marked_holder(self, now: float, lease: Lease, *, is_continuous: bool) -> None:
        """The annotation names one of ours that was overwritten, perhaps before our eyes opened."""
        marked = lease.marked_holder
        if marked in (None, self.identity) or lease.is_marked:
            return
        known = self.last_holder.annotation if self.last_holder else None
        if marked != known or not is_continuous:
            self.not_before(now + self._own_duration)

    def _wait_out_known_holder(self, now: float, lease: Lease, *, is_continuous: bool) -> None:
        """A holder that was overwritten by a stranger may not know yet: its claim still counts.

        One of ours has waited for it already; our own claim ends by our own clock.
        """
        known = self.last_holder
        if known is None or known.is_released or lease.is_marked:
            return
        if known.holder_identity == self.identity:
            return
        last_sign = known.changed_at if is_continuous else now
        self.not_before(last_sign + known.wait(self._own_duration))
