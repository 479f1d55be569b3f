"""The document of an elector's page: the answers of /leader and /history, candidates, moves.

For people: no main is promised anything of it, and no hand-over waits for the validity that it
names.
"""

import json
from typing import Any

from edge_sidecars.runtime.clock import boottime
from elector_sidecar.core.lease import pod_name
from elector_sidecar.core.moves.annotations import priority_of
from elector_sidecar.core.moves.pending import known_candidates, pending
from elector_sidecar.elector import Elector


def page_document(elector: Elector, shards: bytes) -> bytes:
    """`shards`: their document, or `null`."""
    now = boottime()
    status = elector.status(now)
    elector.note_told(status)
    terms = elector.history or ()
    found: dict[str, Any] = {"history": [it.document() for it in terms]}
    # With shards none of it applies: the members are in their document.
    found |= {"candidates": [], "moves": None}
    if elector.config.shards is None:
        record = elector.machine.election.record
        found["moves"] = _moves(elector, now)
        found["candidates"] = known_candidates(
            record,
            terms,
            own=pod_name(elector.identity),
            own_priority=elector.config.priority,
            is_eligible=status.is_eligible,
        )
    rest = json.dumps(found, separators=(",", ":")).encode()
    return b'{"leader":%b,"shards":%b,%b' % (status.json(), shards, rest[1:])


def _moves(elector: Elector, now: float) -> dict[str, Any]:
    """What is asked for; `asksInSeconds`: until this pod asks for the lead by its priority."""
    election = elector.machine.election
    record = election.record
    asked = pending(record)
    asks_at = election.asks_at(now)
    return {
        **asked,
        "problem": asked["problem"] or election.problem(now),
        "priority": elector.config.priority,
        "leaderPriority": None if record is None else priority_of(record),
        "asksInSeconds": None if asks_at is None else round(max(asks_at - now, 0.0), 3),
    }
