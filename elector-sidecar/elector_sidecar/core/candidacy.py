"""What one candidate knows of its Lease and wants of it, and what both permit it to write.

Owns the record as it was adopted last, this candidate's own term, its intent and whether it has
released. Pure; knows no requests. Guarantees: The term ends as soon as another holder is seen (P4).
A write is permitted only by the newest record that is known, and counts only once it is proven
(P3). A release is believed only when a look after it shows nothing of this candidate's (P6).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from elector_sidecar.core.handover import Cause, Intent
from elector_sidecar.core.history import LeaseHistory
from elector_sidecar.core.lease import RESUMED_ANNOTATION, Lease
from elector_sidecar.core.lease_watch import LeaseWatch
from elector_sidecar.core.lease_writes import (
    Candidate,
    LeaseWrites,
    Purpose,
    WriteLease,
    WriteSchedule,
)
from elector_sidecar.core.moves.moves import Moves
from elector_sidecar.core.observed_lease import Holder, ObservedLease
from elector_sidecar.core.term import AppliedWrite, Leadership
from elector_sidecar.core.timing import CREATE_VACANT_DELAY, RETRY_DELAY


@dataclass(frozen=True)
class ElectionView:
    """What is true at one moment; times are on the candidate's clock, in seconds. Who needs a
    newer truth asks again (P2)."""

    is_leader: bool
    is_contending: bool
    is_lapsed: bool
    holder: str
    is_missing: bool
    # It did not exist, and no holder has been seen since.
    was_missing: bool
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
    # Until when a hold keeps every elector out; -inf for none.
    held_back_until: float = -math.inf


class Candidacy:
    def __init__(self, candidate: Candidate, *, now: float) -> None:
        self.identity = candidate.identity
        self._timing = candidate.timing
        self._take_missing = candidate.take_missing
        self._answers_at = candidate.answers_at
        # Of the wall clock above the candidate's; known before anything is written.
        self._wall_ahead = 0.0
        self.has_resumed = False
        # Where a process goes on under the identity of the one before: why it may not, by what only
        # the caller knows; and the write by which it did.
        self.why_not_the_same: Callable[[Lease], str] | None = None
        self.went_on_by: WriteLease | None = None
        self.observed = ObservedLease(
            candidate.identity,
            own_duration=candidate.timing.lease_duration,
            take_missing=candidate.take_missing,
        )
        self.leadership = Leadership(candidate.timing.validity)
        self.schedule = WriteSchedule()
        self.lease_watch = LeaseWatch(now, is_shared=candidate.shares_watch)
        self.moves = Moves(candidate.identity, candidate.moves, now=now)
        self.history = LeaseHistory(candidate.identity) if candidate.keeps_history else None
        self.lease_writes = LeaseWrites(candidate, self.moves, self.history)
        self.intent = Intent.CONTEND
        self.is_released = False
        self._release_asked_at = -math.inf

    @property
    def holds_record(self) -> bool:
        return self.observed.holder == self.identity

    def held_until(self, now: float) -> float:
        """Until when no other candidate may lead, by the proven writes, whatever the intent; -inf
        as soon as another holder is seen."""
        is_held = self.holds_record or self.leadership.is_valid(now)
        return self.leadership.held_until if is_held else -math.inf

    @property
    def version(self) -> int:
        """The resourceVersion of the record on which to write; 0: there is none, so create it."""
        record = self.observed.lease
        return record.resource_version if record else 0

    @property
    def may_hold(self) -> bool:
        # A write without an answer may be applied after all: until a newer version shows that
        # it cannot, the lead is not given up by forgetting it.
        return self.holds_record or self.lease_writes.open_writes.may_apply(self.version)

    @property
    def is_coordinated(self) -> bool:
        """KEP-4355: with a strategy the API server chooses the holder. A leader goes on all the
        same, because no other pod may act before it stops."""
        record = self.observed.lease
        return record is not None and record.spec.strategy is not None and not self.holds_record

    def set_intent(self, now: float, intent: Intent) -> None:
        if intent is self.intent:
            return
        self.intent = intent
        self.is_released = False  # of an earlier release; this one is still to be shown
        if intent is Intent.CONTEND:
            self.moves.contend(now)
        else:
            self.moves.give_up(self.observed.lease, wall=self._wall(now))
            # For good: an intent to contend again needs a proof of its own.
            self.leadership.end()
        if intent is Intent.RELEASE:
            # Kubelet is waiting: neither the renewal's pace nor a failure before counts. What is
            # to be released is looked at first, because a renewal may be on its way.
            self._release_asked_at = now
            self.schedule.set_due_at_once()
            self.lease_watch.want_read(now)
        elif intent is Intent.CONTEND:
            self.schedule.set_due_at_once()

    def view(self, now: float, *, last_contact: float | None) -> ElectionView:
        contends = self.intent is Intent.CONTEND
        term = self.leadership.valid_term(now) if contends else None
        record = self.observed.lease
        spec = record.spec if record else None
        held_back_until = self._held_back_until(now)
        return ElectionView(
            is_leader=term is not None,
            is_contending=contends and not self.is_coordinated and held_back_until <= now,
            is_lapsed=contends and self.holds_record and term is None,
            holder=self.observed.holder,
            is_missing=self.observed.is_missing,
            was_missing=self.observed.was_missing,
            valid_until=term.valid_until if term else None,
            started_at=term.started_at if term else None,
            fencing_token=term.fencing_token if term else None,
            acquire_time=spec.acquire_time if spec else None,
            renew_time=spec.renew_time if spec else None,
            lease_transitions=spec.lease_transitions if spec else None,
            last_contact=last_contact,
            free_at=max(self.observed.free_at(), self._free_from(now)),
            strategy=spec.strategy if spec else None,
            preferred_holder=spec.preferred_holder if spec else None,
            uid=record.uid if record else None,
            held_back_until=held_back_until,
        )

    # ── going on for a process of this pod that died ──

    def note_wall(self, now: float, wall: float) -> None:
        self._wall_ahead = wall - now

    def resumes(self, now: float) -> bool:
        is_now = self.why_not_resumed(now) == ""
        # For good: a write that is under way may be applied.
        self.has_resumed = self.has_resumed or is_now
        return is_now

    def why_not_resumed(self, now: float) -> str | None:
        """Why the lead of a process of this pod that died is not gone on with at once (P11); "" if
        it is; None if the holder is none of this pod."""
        record = self.observed.lease
        if self._answers_at is None or record is None or self.holds_record:
            return None
        wall = self._wall(now)
        why_not = self._answers_at.why_not(record, now, wall=wall, timing=self._timing)
        if why_not == "" and self.why_not_the_same is not None:
            return self.why_not_the_same(record)
        return why_not

    def _go_on(self, lease: Lease, proof: WriteLease | None) -> None:
        """From the write on by which it took over, this candidate is the holder before. A late
        renewal of that one may bear the same stamp, but does not say that it resumed just now."""
        write = proof or self.lease_writes.open_writes.stamped(lease.spec.renew_time)
        if self.went_on_by is not None or write is None or not write.goes_on_as:
            return
        resumed = write.body["metadata"]["annotations"][RESUMED_ANNOTATION]
        is_applied = lease.annotation(RESUMED_ANNOTATION) == resumed
        if is_applied and lease.spec.holder_identity == write.goes_on_as:
            self.went_on_by = write
            self.identity = self.observed.identity = self.lease_writes.identity = write.goes_on_as

    # ── who is to lead next ──

    def asked(self, now: float) -> Cause | None:
        """Why the record asks this candidate, its holder, to give up."""
        if not self.holds_record:
            return None
        return self.moves.asked(now, self.observed.lease, wall=self._wall(now))

    def problem(self, now: float) -> str:
        """What the record asks of this candidate that is not done, in words."""
        record = self.observed.lease
        return self.moves.problem(record, is_mine=self.holds_record, wall=self._wall(now))

    def _held_back_until(self, now: float) -> float:
        return self.moves.held_back_until(now, self.observed.lease, wall=self._wall(now))

    def _free_from(self, now: float) -> float:
        return self.moves.free_from(now, self.observed.lease, wall=self._wall(now))

    def ask_at(self, now: float) -> float:
        """When to ask the holder for a switchover to this pod; +inf: never."""
        return self.moves.ask_at(now, self.observed.lease, wall=self._wall(now))

    def _wall(self, now: float) -> float:
        return now + self._wall_ahead

    # ── what is permitted ──

    def permitted_at(self, now: float) -> float:
        """From when on the intent and the record allow a write; +inf if they do not."""
        match self.intent:
            case Intent.ABSTAIN:
                return math.inf
            case Intent.RELEASE:
                is_looked_at = not self.lease_watch.wants_read and not self.is_released
                # A release lets others in at once: not while somebody else's claim counts, as that
                # of a later holder of the history that a restore of etcd took away.
                return self.observed.free_at() if is_looked_at and self.holds_record else math.inf
            case Intent.HOLD:
                # Renewing keeps the others off while the main stops; it acquires nothing new.
                return self.observed.free_at() if self.holds_record else math.inf
            case Intent.CONTEND:
                return min(self._contend_at(now), self.ask_at(now))

    def _contend_at(self, now: float) -> float:
        free_from = self._free_from(now)
        if self.holds_record:
            # A leader renews until it has given up for a hold; one whose time is up does not.
            is_free = self.leadership.is_valid(now)
            return max(self.observed.free_at(), -math.inf if is_free else free_from)
        is_vacant = self.observed.is_known and not self.observed.holder
        if is_vacant and self.leadership.is_valid(now):
            # Blanked or deleted under a living leader: it writes itself back, and no other may
            # have taken the Lease, because that would have shown a holder.
            return -math.inf
        if self.is_coordinated:
            return math.inf
        if self.observed.must_create_vacant:
            # The leader, if there is one, comes first: it writes itself back within this delay.
            return self.observed.missing_since + CREATE_VACANT_DELAY + self.schedule.jitter
        if free_from <= now and self.resumes(now):
            return self.observed.own_from
        free_at = max(self.observed.free_at(), free_from)
        # A released Lease is taken at once (P7). An expired one is found by all at one moment:
        # jitter spreads them, so that most see the winner's event before they write.
        return free_at + self.schedule.jitter if free_at > -math.inf else free_at

    def purpose(self, now: float) -> Purpose:
        """A Lease that is missing is created vacant first: two creates do not conflict with what
        was deleted, so that a create must not make a leader. A living leader is one already."""
        if self.intent is Intent.RELEASE:
            return Purpose.RELEASE
        if self.observed.must_create_vacant and not self.leadership.is_valid(now):
            return Purpose.CREATE_VACANT
        if self.intent is Intent.CONTEND and now < self._contend_at(now):
            return Purpose.ASK
        return Purpose.ACQUIRE_OR_RENEW

    # ── what was learnt ──

    def adopt_missing(self, now: float) -> None:
        """The Lease does not exist."""
        was_missing = self.observed.is_missing
        self.observed.adopt_missing(now)
        # Version 0, "there is none", is a version like others: a refusal of a create counts for
        # the absence that was seen then, not for this one.
        self.schedule.allow_again()
        self.schedule.renew_jitter()
        if not self.leadership.is_valid(now):
            self.leadership.end()
        # A leader writes itself back at once; the pace of renewals is no reason to wait.
        if not was_missing:
            self.schedule.set_due(now)

    def adopt(
        self, now: float, lease: Lease, *, is_continuous: bool, proof: WriteLease | None = None
    ) -> None:
        """Takes a newer version in; `proof`: the write that made it, if one of ours did."""
        self._go_on(lease, proof)
        before, was_mine = self.observed.lease, self.holds_record
        overwritten = self.observed.last_holder if self.observed.holder else None
        if lease.resource_version < self.lease_watch.newest:
            self._wait_out_lost_history(now)
        is_news = self.lease_watch.note_version(now, lease.resource_version)
        is_changed = self.observed.adopt(now, lease, is_continuous=is_continuous)
        if is_news:
            # Only the version on which a write conflicted is not to be written on again.
            self.schedule.allow_again()
        self.moves.adopt(now, lease, wall=self._wall(now))
        if self.history is not None:
            self.history.adopt(lease, wall=self._wall(now))
        if is_changed and not self.holds_record:
            self.schedule.renew_jitter()
        if self.holds_record:
            if not was_mine and overwritten is not None:
                self._wait_out_overwritten_holder(now, lease, overwritten, proof=proof)
            self._adopt_own(now, before, lease, was_mine=was_mine, proof=proof)
        elif lease.spec.holder_identity or not self.leadership.is_valid(now):
            self.leadership.end()  # P4: at once, whatever the own clock says
            if was_mine or is_changed:
                self.schedule.set_due(now)
        else:
            # Blanked under a valid term: this leader leads on and writes itself back.
            self.schedule.set_due(now)

    def _wait_out_lost_history(self, now: float) -> None:
        """Versions go back where the store was restored from a backup. The leader of the lost
        history may lead on, though this candidate never saw it, and though the record says that the
        Lease is released, or ours. A leader whose term is valid is that one."""
        if self.leadership.is_valid(now):
            return
        known = self.observed.last_holder
        duration = self._timing.lease_duration
        wait = duration if known is None else max(duration, known.wait(duration))
        self.observed.not_before(now + wait)

    def _wait_out_overwritten_holder(
        self, now: float, lease: Lease, overwritten: Holder, *, proof: WriteLease | None
    ) -> None:
        """An edit, not a write of ours, put us in another's place, who may not know it yet."""
        stamped = self.lease_writes.open_writes.stamped(lease.spec.renew_time)
        if proof is None and stamped is None:
            self.observed.not_before(now + overwritten.wait(self._timing.lease_duration))

    def _adopt_own(
        self,
        now: float,
        before: Lease | None,
        lease: Lease,
        *,
        was_mine: bool,
        proof: WriteLease | None,
    ) -> None:
        # A lost answer is no loss: the stamp shows that the write was applied (H8, H10).
        write = proof or self.lease_writes.open_writes.stamped(lease.spec.renew_time)
        is_created = before is None or before.uid != lease.uid
        is_late = write is None or write.sent_at + self._timing.validity <= now
        is_wanted = self._take_missing and not is_late
        if is_created and not is_wanted and not self.leadership.is_valid(now):
            # A create has no version to compare: what others did meanwhile is unknown, except
            # that no other took the Lease before our own term was over.
            self.observed.not_before(now + self._timing.lease_duration)
        if write is not None:
            self.prove(now, write, lease.resource_version)
        elif not was_mine:
            # The record names us, and nothing of ours proves it: a renewal will.
            self.schedule.set_due(now)
        if write is None and self._is_damaged(lease):
            self.schedule.repair(now)

    def prove(self, now: float, write: WriteLease, resource_version: int) -> None:
        """The write was applied: it renews from the moment it was sent (P2)."""
        if self.leadership.is_proven_since(write.sent_at):
            return
        self.leadership.note_proof(write.sent_at)
        if self.intent is Intent.RELEASE:
            # It was on its way when the release was asked for, which is for another write.
            self.schedule.set_due_at_once()
        else:
            self.schedule.set_due(write.sent_at + self._timing.renew_interval)
        self.lease_writes.has_proven(write)
        # A renewal of a pod that gives up keeps others off, and must not make it answer 200; so
        # must a write of a record in which somebody else may still believe (P1).
        if self.observed.is_mine(now):
            self.leadership.note_hold(write.sent_at)
        if self.intent is Intent.CONTEND and self.observed.is_mine(now):
            acquire_time = write.body["spec"]["acquireTime"]
            self.leadership.extend(now, AppliedWrite(write.sent_at, resource_version, acquire_time))

    def _is_damaged(self, lease: Lease) -> bool:
        """Somebody edited what followers judge by: restored by renewing at once."""
        return not lease.is_marked or lease.spec.lease_duration != self._timing.lease_duration

    # ── the release ──

    def shows_release(self, sent_at: float) -> bool:
        """Whether a read that was sent then is late enough to show it."""
        return sent_at >= self._release_asked_at

    def judge_release(self, now: float) -> None:
        """A look at the record since the release was asked for."""
        if self.holds_record:
            return
        if self.lease_writes.open_writes.may_apply(self.version):
            # A renewal that is still on its way would take the Lease again.
            self.lease_watch.want_read(now + RETRY_DELAY)
        else:
            self.is_released = True
