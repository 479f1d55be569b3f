"""One member's own Lease: what it says there beside holding it, and in which term it is.

Owns the label, the owner reference and the annotation of every write of the own Lease. Pure.
Guarantee: a term number is written only when all work of the terms before it has ended, because
others take what an older term owned as soon as they read a newer one.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from elector_sidecar.core.election import Election
from elector_sidecar.core.handover import Intent
from elector_sidecar.core.lease import ANSWERS_AT_ANNOTATION
from elector_sidecar.core.lease_writes import Candidate, Purpose, WriteLease
from elector_sidecar.shards.members.member_lease import (
    MEMBER_ANNOTATION,
    MemberNote,
    decode,
    emptied,
    encode,
)
from elector_sidecar.shards.members.succession import Predecessor, Succession
from elector_sidecar.shards.table.shard_table import ELECTION_LABEL, Owner
from elector_sidecar.shards.table.table_state import TableState

# So many of the last writes are recognised by their stamp when the watch brings them.
REMEMBERED_WRITES = 8


@dataclass(frozen=True)
class ShardMember:
    """Who takes part in which election. `candidate` is for the own Lease; `table` is the Lease
    that all share; `settle` in seconds; `pod`: its owner reference, if known."""

    candidate: Candidate
    table: str
    shards: int
    settle: float
    pod: Mapping[str, str] | None = None


class Membership:
    def __init__(self, member: ShardMember, election: Election, succession: Succession) -> None:
        self._member = member
        self._election = election
        self._succession = succession
        self._sent: dict[str, float] = {}
        # Until when the main may work on what was lost to a table that is in doubt: so long
        # this member does not say that it goes by it.
        self.silent_until = -math.inf
        # The last term that the record showed, and the version that it was acquired on.
        self._begun = (0, 0)
        # By the stamp of the write: for whom it goes on, if that is applied.
        self._predecessors: dict[str, Predecessor] = {}
        self.predecessor: Predecessor | None = None
        # Terms of the process before, beside those that this one has begun.
        self._terms_before = 0
        # The term whose work may still run after it was ended; None if there is none.
        self.protected_term: int | None = None
        self.is_founder = False

    @property
    def identity(self) -> str:
        return self._election.identity

    def number(self, now: float) -> int | None:
        """The present term, if it is valid."""
        return self.terms if self._election.valid_term(now) else None

    @property
    def terms(self) -> int:
        """Those of this identity."""
        return self._election.terms + self._terms_before

    # ── going on for a process of this pod that died ──

    def go_on(self) -> Predecessor | None:
        """Once, when a write by which it goes on is known to be applied: what it goes on with."""
        write = self._election.went_on_by
        if write is None or self.predecessor is not None:
            return None
        self.predecessor = it = self._predecessors[write.stamp]
        # If it was applied too late for a term, that one is over.
        self._terms_before = it.term - 1 if self._election.terms else it.term
        self._begun = (it.term, it.note.begun_on)
        self.keep_silent(it.promised_until)
        return it

    @property
    def bound_until(self) -> float:
        """Until when a main may work by promises that bind this process if a write of its is
        applied, of which it does not know yet; -inf: by none."""
        if self.predecessor is not None:
            return -math.inf
        return max((it.promised_until for it in self._predecessors.values()), default=-math.inf)

    # ── its terms ──

    def begin_term(self) -> None:
        self.is_founder = False

    def found(self) -> None:
        """Nothing is owned: who is a member now begins the ring."""
        self.is_founder = True

    def keep_silent(self, until: float) -> None:
        self.silent_until = max(self.silent_until, until)

    def unprotect(self) -> None:
        """The work of the term that ended has ended, too."""
        self.protected_term = None

    def protect(self, term: int) -> None:
        """No other term is written until the work of this one has ended. One that is protected
        already stays so: what came after it was never written, and owned nothing."""
        if self.protected_term is None:
            self.protected_term = term

    def note(self) -> MemberNote | None:
        """What the own record says, if this process wrote it."""
        record = self._election.record
        if record is None or not self._election.holds_record:
            return None
        return decode(record)

    def is_registered(self, now: float) -> bool:
        """Whether others can read the present term in the own Lease."""
        note, number = self.note(), self.number(now)
        return note is not None and number is not None and note.term == number

    def is_settled(self, now: float) -> bool:
        term = self._election.valid_term(now)
        return term is not None and (
            self.is_founder or now >= term.started_at + self._member.settle
        )

    def settles_at(self, now: float) -> float | None:
        term = self._election.valid_term(now)
        return None if term is None else term.started_at + self._member.settle

    def owner(self, number: int) -> Owner | None:
        """How the table names the present term."""
        record, candidate = self._election.record, self._member.candidate
        if record is None:
            return None
        duration = candidate.timing.lease_duration
        return Owner(self._election.identity, number, candidate.name, record.uid, duration)

    def wanted_note(self, now: float, table: TableState, *, base_version: int = 0) -> MemberNote:
        """What a write on that version of the own Lease says."""
        number = self._number_to_write(now)
        written = self.note()
        if written is not None and self._begun[0] != written.term:
            # Of a Lease that the term created, the version that this made.
            record = self._election.record
            created = record.resource_version if record else 0
            self._begun = (written.term, written.begun_on or created)
        begun_on = self._begun[1] if self._begun[0] == number else base_version
        if self._begun[0] != number and self._is_renewal(now):
            begun_on = 0  # the record lost it: unknown
        return MemberNote(
            term=number,
            begun_on=begun_on,
            shards=self._member.shards,
            is_settled=self.is_settled(now),
            is_leaving=self._election.intent is not Intent.CONTEND,
            seen=table.seen if now >= self.silent_until else None,
            seen_at=table.seen_at if now >= self.silent_until else 0,
        )

    def _number_to_write(self, now: float) -> int:
        if self.protected_term is not None:
            return self.protected_term
        return self.terms if self._is_renewal(now) else self.terms + 1

    def _is_renewal(self, now: float) -> bool:
        is_protected = self.protected_term is not None
        is_held = self._election.intent is Intent.HOLD
        return is_protected or is_held or self._election.valid_term(now) is not None

    def dress(self, write: WriteLease, now: float, table: TableState) -> None:
        """Completes the body of a write of the own Lease."""
        metadata = write.body["metadata"]
        metadata["labels"] = {**(metadata.get("labels") or {}), ELECTION_LABEL: self._member.table}
        if self._member.pod is not None:
            metadata["ownerReferences"] = self._owners(metadata.get("ownerReferences") or [])
        annotations = metadata.setdefault("annotations", {})
        annotations.pop(MEMBER_ANNOTATION, None)
        base = write.base_version
        if write.purpose is Purpose.CREATE_VACANT:
            return
        is_release = write.purpose is Purpose.RELEASE
        record = self._election.record
        if is_release:
            note = emptied(base)
        elif write.goes_on_as and record is not None:
            before = self._succession.predecessor(write, record)
            self._predecessors[write.stamp], note = before, before.note
        else:
            note = self.wanted_note(now, table, base_version=base)
        if note.is_leaving or self.protected_term is not None:
            # No process may go on with a term that this one has ended.
            annotations.pop(ANSWERS_AT_ANNOTATION, None)
        annotations[MEMBER_ANNOTATION] = encode(note, write.body)
        if is_release:
            return
        self._sent[write.stamp] = write.sent_at
        while len(self._sent) > REMEMBERED_WRITES:
            del self._sent[next(iter(self._sent))]

    def _owners(self, stored: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Of pods only this one: one of the same name before it is gone, and its uid would make
        the garbage collector delete a Lease that is in use."""
        pod = dict(self._member.pod or {})
        kept = [dict(it) for it in stored if it.get("kind") != "Pod"]
        return [*kept, pod]

    def sent_at(self, renew_time: str | None) -> float | None:
        """When the write that bears this stamp was sent; None if it is none of the last ones."""
        return None if renew_time is None else self._sent.get(renew_time)
