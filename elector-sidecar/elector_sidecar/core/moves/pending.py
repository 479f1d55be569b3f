"""What is pending of a Lease, and which candidates its record names: for people, as JSON.

Pure; no rule of the election reads it. Only what this candidate knows anyway is in it, so it costs
no request: a candidate that has never led, and that no switchover names, is known to itself alone.
"""

from collections.abc import Sequence
from typing import Any

from edge_sidecars.runtime.formats import rfc3339
from elector_sidecar.core.history import TermRecord
from elector_sidecar.core.lease import Lease, pod_name
from elector_sidecar.core.moves.annotations import (
    HOLD_ANNOTATION,
    SWITCHOVER_ANNOTATION,
    MalformedMove,
    Switchover,
    hold_of,
    priority_of,
    switchover_of,
)

Json = dict[str, Any]


def pending(lease: Lease | None) -> Json:
    """What the annotations ask for; `problem`: why one of them asks nothing."""
    found: Json = {"switchover": None, "hold": None, "problem": ""}
    if lease is None:
        return found
    problems = []
    try:
        if switchover := switchover_of(lease):
            found["switchover"] = {"to": switchover.to, "until": _stamp(switchover.until)}
    except MalformedMove as error:
        problems.append(f"annotation {SWITCHOVER_ANNOTATION}: {error}")
    try:
        if hold := hold_of(lease):
            found["hold"] = {"until": _stamp(hold.until)}
    except MalformedMove as error:
        problems.append(f"annotation {HOLD_ANNOTATION}: {error}")
    return found | {"problem": "; ".join(problems)}


def known_candidates(
    lease: Lease | None,
    terms: Sequence[TermRecord],
    *,
    own: str,
    own_priority: int,
    is_eligible: bool,
) -> list[Json]:
    """The pod `own`, then the leader, who is named to lead next, and who led before, the last
    first. `ledUntil` is an RFC 3339 stamp; a priority or an eligibility that only the pod itself
    knows is null."""
    found = {own: _candidate(own, priority=own_priority, is_own=True, is_eligible=is_eligible)}

    def known(pod: str) -> Json:
        return found.setdefault(pod, _candidate(pod))

    if lease is not None and lease.spec.holder_identity:
        leader = known(pod_name(lease.spec.holder_identity))
        leader["leads"] = True
        if not leader["own"]:
            leader["priority"] = priority_of(lease) if lease.is_marked else None
    if lease is not None and (switchover := _switchover(lease)) and switchover.to:
        known(switchover.to)["named"] = True
    for term in reversed(terms):
        if term.ended and not (it := known(pod_name(term.holder)))["ledUntil"]:
            it["ledUntil"] = term.ended
    return list(found.values())


def _candidate(
    pod: str, *, priority: int | None = None, is_own: bool = False, is_eligible: bool | None = None
) -> Json:
    return {
        "pod": pod,
        "own": is_own,
        "leads": False,
        "named": False,
        "ledUntil": None,
        "priority": priority,
        "eligible": is_eligible,
    }


def _switchover(lease: Lease) -> Switchover | None:
    try:
        return switchover_of(lease)
    except MalformedMove:
        return None


def _stamp(wall: float) -> str:
    return rfc3339.stamp_of(wall, "seconds")
