"""May a process go on as the member that another one of its pod was, and with what (P11)?

Pure. That the other one is dead is proven already (`core.resume`). The new process keeps identity
and term: for all others this is one member whose renewal was late by a moment, which they
know how to wait for, those of earlier releases too. Another identity or another term is what
proves to them that the first one has ended, and frees its shards. So two things must hold here:

- the term is one with which the process before could go on itself;
- what the process before has promised to the main binds this one. Until that is over, it keeps each
  shard that a table gives the term, and confirms no table to other members.

The table is new to this process: it takes what it owns again, by the rules for a new member.
"""

from dataclasses import dataclass, replace

from elector_sidecar.core.lease import Lease
from elector_sidecar.core.lease_writes import WriteLease
from elector_sidecar.core.resume import sent_at
from elector_sidecar.shards.members.member_lease import MemberNote, decode
from elector_sidecar.shards.table.table_state import TableState


@dataclass(frozen=True)
class Predecessor:
    """What it has left. `note`: what the write says by which this process goes on with its term;
    `shards`: those that the table gives that term; `promised_until`: so long the main may work."""

    note: MemberNote
    shards: frozenset[int]
    promised_until: float

    @property
    def term(self) -> int:
        return self.note.term


class Succession:
    def __init__(self, shards: int, table: TableState) -> None:
        self._shards = shards
        self._table = table

    def why_not(self, record: Lease) -> str:
        """ "" if this process may go on with the term of the record."""
        note = decode(record)
        if note is None or note.seen is None:
            return "the one before did not say which table it goes by"
        if note.shards != self._shards:
            return f"the one before had --shards {note.shards}"
        if not self._table.is_in_force:
            return "the table is not known"
        return ""

    def predecessor(self, write: WriteLease, record: Lease) -> Predecessor:
        """Of a record that `why_not` permits to go on with by that write.

        The note begins anew for those who ask who was a member before what: this process knows
        nothing of what was, and is not settled.
        """
        note = decode(record)
        if note is None:
            raise ValueError("a record without a note is not gone on with")
        term = (record.spec.holder_identity, note.term)
        owners = self._table.known.table.owners if self._table.known else ()
        shards = {s for s, it in enumerate(owners) if it and (it.identity, it.term) == term}
        said = replace(note, begun_on=write.base_version, is_settled=False, is_leaving=False)
        # A main may work on what this table does not show: no member is to take that by this note.
        said = replace(said, seen=None, seen_at=0)
        # It was promised less than the duration of the Lease from the sending of a write on.
        until = sent_at(record) + (record.spec.lease_duration or 0.0)
        return Predecessor(said, frozenset(shards), until)
