"""What the cores read of a stored text, by that text: an exploration shows each version of a Lease
to thousands of copies of a member, and reading JSON and its digest costs more than deciding by it.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from unittest.mock import patch

from elector_sidecar.core.lease import Lease
from elector_sidecar.shards.members import member_lease, membership, observed_members
from elector_sidecar.shards.members.member_lease import MemberNote
from elector_sidecar.shards.table import shard_table, table_plan, table_state

# Texts and Leases; what is older is read again.
MOST = 100_000


@contextmanager
def read_once() -> Iterator[None]:
    notes: dict[int, tuple[Lease, MemberNote | None]] = {}

    def note_of(lease: Lease) -> MemberNote | None:
        known = notes.get(id(lease))
        if known is None:
            if len(notes) > MOST:
                notes.clear()
            known = notes[id(lease)] = (lease, member_lease.decode(lease))
        return known[1]

    table_of = lru_cache(MOST)(shard_table.decode)
    with ExitStack() as stack:
        for module in (observed_members, membership):
            stack.enter_context(patch.object(module, "decode", note_of))
        for reader in (table_plan, table_state):
            stack.enter_context(patch.object(reader, "decode", table_of))
        yield
