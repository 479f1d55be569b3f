"""The table as one member knows it: which version it goes by, and how sure it may be of it.

Pure. Guarantees (S1):

- a table that is no successor of the known one takes nothing away and frees nothing;
- `fresh_until` is never later than the sending of a request, after which the stored table was seen
  to be the known one, plus the validity. A table that this member never saw ends its ownership
  before others take what they find free in it;
- `renewed_until` is never later than the moment at which a write of the table was applied, plus the
  validity: candidates that judge by their own duration (client-go up to 0.26) cannot have taken it;
- who is new to a table, missed versions of it, or saw it begun or written back, `is_confirmed`
  only when all who may work wrote since then that they go by it too, or after one lease duration.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from elector_sidecar.core.lease import Lease
from elector_sidecar.core.observed_lease import ObservedLease
from elector_sidecar.shards.members.member_lease import MemberNote, is_labelled
from elector_sidecar.shards.table.shard_table import (
    TABLE_ANNOTATION,
    TABLE_DURATION,
    TABLE_HOLDER,
    MalformedTable,
    NewerTable,
    Owner,
    Table,
    TableVersion,
    decode,
    is_next,
    is_successor,
)

# A member says within a renewal which table it goes by; more changes than these do not fit in.
MAX_ACCEPTED = 256


@dataclass(frozen=True)
class KnownTable:
    table: Table
    version: TableVersion


class TableState:
    def __init__(self, *, me: str, name: str, own_duration: float, validity: float) -> None:
        self._me = me
        self._name = name
        self._duration = own_duration
        self._validity = validity
        self.observed = ObservedLease(me, own_duration=own_duration, take_missing=False)
        self.known: KnownTable | None = None
        # Why the stored Lease is not what the known table needs; "" if it is.
        self.problem = ""
        self.problem_since = -math.inf
        # A member of a later version wrote it: nothing here may touch it.
        self.newer_format = ""
        self._newest = 0
        # Until when a member may own shards that a restored history does not mention.
        self._blind_until = -math.inf
        self._fresh_at = -math.inf
        # The last request, by its sending, that was served before any version later than the known.
        self._shown_at = -math.inf
        self._renewed_at = -math.inf
        # When the last renewal of the table was seen here.
        self.renewal_seen_at = -math.inf
        # Since when, and seen at which version.
        self.unconfirmed_since: float | None = None
        self._unconfirmed_version = 0
        # It has free entries, and was found: only who was a member before it can tell that it is
        # no old copy.
        self._needs_elder = False
        # Those that were accepted since the last one that was new; the oldest go.
        self._accepted: list[TableVersion] = []

    @property
    def lease(self) -> Lease | None:
        """The stored object as it was seen last."""
        return self.observed.lease

    @property
    def newest(self) -> int:
        """The newest version that was seen."""
        return self._newest

    @property
    def version(self) -> int:
        return self.lease.resource_version if self.lease else 0

    @property
    def owners(self) -> set[Owner]:
        return {owner for owner in self.known.table.owners if owner} if self.known else set()

    @property
    def is_in_force(self) -> bool:
        """Whether the stored table is the known one, as far as was seen."""
        return self.known is not None and not self.problem

    @property
    def is_labelled(self) -> bool:
        return self.lease is not None and is_labelled(self.lease, self._name)

    @property
    def stored(self) -> KnownTable | None:
        """The table in the Lease, known or not; None where there is none."""
        return self._read()[0]

    @property
    def seen(self) -> TableVersion | None:
        """The version that this member goes by, for its own Lease; None if it is in doubt."""
        return self.known.version if self.known is not None and self.is_in_force else None

    @property
    def seen_at(self) -> int:
        """The resourceVersion at which it saw that one."""
        return self.version if self.seen is not None else 0

    def is_unsaid(self, seen: TableVersion | None, seen_at: int) -> bool:
        """Whether others wait to read that this member goes by this table."""
        return self.seen is not None and not self._is_confirmation(seen, seen_at)

    def _is_confirmation(self, seen: TableVersion | None, seen_at: int) -> bool:
        return seen in self._accepted and seen_at >= self._unconfirmed_version

    @property
    def fresh_until(self) -> float:
        return self._fresh_at + self._validity

    @property
    def renewed_until(self) -> float:
        return self._renewed_at + self._validity

    def is_lapsed(self, now: float) -> bool:
        """Whether others may have taken what this table gives, or the table itself."""
        return now >= min(self.fresh_until, self.renewed_until)

    @property
    def is_let_go(self) -> bool:
        """Whether the Lease is missing or names another holder than the members."""
        return self.lease is None or self.lease.spec.holder_identity != TABLE_HOLDER

    # ── what was learnt ──

    def adopt(self, now: float, lease: Lease, *, is_continuous: bool) -> bool:
        """A newer version of the Lease; False where it is no news. `is_continuous`: no version
        between it and the one before was missed."""
        if lease.resource_version <= self._newest:
            return False
        self._newest = lease.resource_version
        seen_at = self.version
        self._note_renewal(now, lease)
        self.observed.adopt(now, self._as_observed(lease), is_continuous=is_continuous)
        self._judge(now, seen_at=seen_at, is_continuous=is_continuous)
        if self.is_in_force:
            self._fresh_at = max(self._fresh_at, self._shown_at)
        return True

    def _note_renewal(self, now: float, lease: Lease) -> None:
        """Of two versions the later one was applied after the request that showed the first. One
        with another holder is no renewal: a candidate took the table because there was none."""
        is_held = lease.spec.holder_identity == TABLE_HOLDER
        if is_held and _whole_second(lease) != _whole_second(self.lease):
            self.renewal_seen_at = now
            self._renewed_at = max(self._renewed_at, self._shown_at)

    def renewed_by(self, sent_at: float) -> None:
        """A write of ours that was sent then renewed the table."""
        self._renewed_at = max(self._renewed_at, sent_at)

    def adopt_missing(self, now: float) -> None:
        self.observed.adopt_missing(now)
        self._judge(now, seen_at=0, is_continuous=False)

    def forget(self, now: float) -> None:
        """A new term: whatever is stored now is new to it."""
        self.known = None
        self.problem_since = now
        self._fresh_at = -math.inf
        if self.observed.is_known:
            self._judge(now, seen_at=0, is_continuous=False)

    def begin_anew(self, blind_until: float) -> None:
        """The history that is known is lost: the stored table is new, and nothing is taken from it
        before `blind_until`."""
        self.observed = ObservedLease(self._me, own_duration=self._duration, take_missing=False)
        self.known = None
        self._newest = 0
        self._fresh_at = self._shown_at = self._renewed_at = -math.inf
        self._blind_until = blind_until

    def shown_at(self, sent_at: float) -> None:
        """A request that was sent then showed the stored table, or something later did."""
        self._shown_at = max(self._shown_at, sent_at)
        if self.is_in_force and self.is_labelled:
            self._fresh_at = max(self._fresh_at, sent_at)

    def written_at(self, sent_at: float) -> None:
        """A write of ours that was sent then made the table that is stored."""
        self._shown_at = max(self._shown_at, sent_at)
        if self.is_in_force:
            self._fresh_at = max(self._fresh_at, sent_at)

    def _judge(self, now: float, *, seen_at: int, is_continuous: bool) -> None:
        """`seen_at`: the version before, if `is_continuous` directly before, the present one."""
        stored, problem = self._read()
        if stored is not None:
            known = self.known.version if self.known else None
            is_proven = is_continuous and (
                stored.version == known
                or (self.is_in_force and is_next(known, seen_at, stored.table))
            )
            if self.known is None:
                # A Lease with another holder is no table in force, whatever it contains.
                is_acceptable = not problem
            else:
                has_gap = not is_continuous or not self.is_in_force
                is_acceptable = is_proven or self._gives_in(stored.table, self.known.table)
                if has_gap:
                    is_acceptable |= is_successor(self.known.version, stored.table, stored.version)
            if is_acceptable:
                if self.known is None or stored != self.known:  # else it says nothing new
                    is_begun = is_continuous and seen_at > 0 and stored.table.base == seen_at
                    self._needs_elder = (
                        self.known is None and not is_begun and (None in stored.table.owners)
                    )
                self._accept(now, stored, is_proven=is_proven)
        if self.known is None or stored != self.known:
            problem = problem or "the stored table does not follow the known one"
        if problem and not self.problem:
            self.problem_since = now
        self.problem = problem

    def _gives_in(self, theirs: Table, ours: Table) -> bool:
        """Two who know different pasts would write them back in turn: who is not sure gives in."""
        is_later = theirs.restored > ours.restored and theirs.sequence > ours.sequence
        return self.unconfirmed_since is not None and is_later

    def _accept(self, now: float, stored: KnownTable, *, is_proven: bool) -> None:
        known = self.known
        if not is_proven or known is None or known.table.restored != stored.table.restored:
            self.unconfirmed_since = now
            self._unconfirmed_version = self.version
            self._accepted = []
        if stored.version not in self._accepted[-1:]:
            self._accepted = [*self._accepted[-MAX_ACCEPTED:], stored.version]
        self.known = stored

    def _read(self) -> tuple[KnownTable | None, str]:
        """The stored table, and what is wrong with the Lease around it."""
        self.newer_format = ""
        lease = self.lease
        if lease is None:
            return None, "the table does not exist"
        try:
            annotations = lease.raw["metadata"].get("annotations") or {}
            table, digest = decode(annotations.get(TABLE_ANNOTATION))
        except NewerTable as error:
            self.newer_format = str(error)
            self.known = None
            return None, self.newer_format
        except MalformedTable as error:
            return None, str(error)
        stored = KnownTable(table, TableVersion(lease.uid, table.sequence, digest))
        holder = lease.spec.holder_identity
        return stored, "" if holder == TABLE_HOLDER else f"the table is held by {holder!r}"

    # ── how sure it is ──

    def is_confirmed(
        self,
        now: float,
        *,
        notes: Sequence[MemberNote | None],
        stream_version: int,
        wait: float,
    ) -> bool:
        """`notes`: of the others who may have worked since then; `stream_version`: up to which
        version their Leases are known; `wait`: the longest lease duration, in seconds."""
        if self.unconfirmed_since is None:
            return True
        have_all = stream_version >= self._unconfirmed_version and all(
            note is not None and self._is_confirmation(note.seen, note.seen_at) for note in notes
        )
        if have_all and self._needs_elder:
            have_all = any(note and 0 < note.begun_on < self._unconfirmed_version for note in notes)
        if now >= self._blind_until and (have_all or now >= self.unconfirmed_since + wait):
            self.unconfirmed_since = None
            return True
        return False

    @property
    def confirmed_at(self) -> float:
        """When it is confirmed at the latest, for waits of the own lease duration."""
        since = self.unconfirmed_since
        if since is None:
            return math.inf
        return max(since + self._duration, self._blind_until)

    def rebuild_at(self) -> float:
        """From when on a new table may be begun where none is known."""
        free_at = self.observed.free_at()
        if self.lease is not None and self.observed.holder == TABLE_HOLDER:
            return max(free_at, self.problem_since + self._duration)
        return free_at

    def _as_observed(self, lease: Lease) -> Lease:
        """A member owns by a table for no longer than a validity, however old it is: also where its
        holder was blanked by hand, and no member is left that knows the table."""
        spec = lease.spec
        is_blanked = not spec.holder_identity and spec.lease_duration == TABLE_DURATION
        if spec.holder_identity != TABLE_HOLDER and not is_blanked:
            return lease
        return replace(lease, spec=replace(spec, lease_duration=self._duration))


def _whole_second(lease: Lease | None) -> str | None:
    """Of its renewTime: client-go sees no less (H9)."""
    return (lease.spec.renew_time or "")[:19] if lease else None
