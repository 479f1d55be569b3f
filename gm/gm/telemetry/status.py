"""The /status document: what people ask about this GM, as of one moment.

Owns names and shapes; values come in, times in seconds. Shows no object's content. Pure.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from gm.controller.ownership import Ownership, ShardOwner, SingleLeader
from gm.hub.stream import Connected


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    """A part of the document, whose fields are the document's in camelCase."""


class LeaderStatus(_Status, frozen=True):
    """Of what only one GM may do. `remaining_seconds`: for which the lead is proven here."""

    is_leader: bool
    may_act: bool
    holder: str
    term: int | None
    terms: int
    remaining_seconds: float


class GmMemberStatus(_Status, frozen=True):
    """`owned`: how many shards."""

    pod: str
    owned: int
    is_settled: bool


class ShardsStatus(_Status, frozen=True):
    """`owned`: the numbers of this GM's own, of `shards`; `handing_over`: of those that it leaves;
    `unowned`: how many have no owner; `moves`: how many came here since the process began."""

    shards: int
    owned: Sequence[int]
    handing_over: Sequence[int]
    unowned: int
    moves: int
    remaining_seconds: float
    members: Sequence[GmMemberStatus]
    reason: str


class CollectionStatus(_Status, frozen=True):
    kind: str
    objects: int
    resource_version: int
    is_synced: bool


class Backlog(_Status, frozen=True):
    """What waits: objects to be reconciled, and those to be tried again; Events to be recorded,
    reports to be stored, reports in NodeReports that were not merged or not pruned yet; objects
    whose reports wait for others."""

    objects: int
    retries: int
    events: int
    reports: int
    node_reports: int
    held_back: int


class ReportCounts(_Status, frozen=True):
    """Since the process began."""

    stored: int
    folded: int
    without_effect: int
    refused: int
    lost: int
    last_refusal: str | None


class StateCount(_Status, frozen=True):
    kind: str
    state: str
    objects: int


class GmStatus(_Status, frozen=True):
    """`lack`: why GM is not ready; None where it is. `shards`: None where one GM leads."""

    version: str
    mode: str
    uptime_seconds: float
    is_ready: bool
    lack: str | None
    is_link_up: bool
    leader: LeaderStatus
    shards: ShardsStatus | None
    backlog: Backlog
    reports: ReportCounts
    nodes: Sequence[Connected]
    jobs: Sequence[StateCount]
    collections: Sequence[CollectionStatus]
    # As `listener_metrics.figures` has them.
    listeners: Sequence[Mapping[str, str | int]] = ()

    def document(self) -> dict[str, Any]:
        document: dict[str, Any] = _rounded(msgspec.to_builtins(self))
        return document

    def json(self) -> bytes:
        return json.dumps(self.document(), separators=(",", ":")).encode()


def leader_status(ownership: Ownership) -> LeaderStatus:
    """With shards it is shard 0 that leads, whose owner is known only to itself."""
    single = ownership.client if isinstance(ownership, SingleLeader) else None
    return LeaderStatus(
        is_leader=ownership.is_leader,
        may_act=ownership.may_lead(),
        holder=single.holder if single is not None else "",
        term=single.term if single is not None else None,
        terms=ownership.terms,
        remaining_seconds=ownership.remaining if ownership.is_leader else 0.0,
    )


def shards_status(ownership: Ownership) -> ShardsStatus | None:
    """None where one GM leads, or before the first answer of the elector."""
    if not isinstance(ownership, ShardOwner) or (document := ownership.client.document) is None:
        return None
    return ShardsStatus(
        shards=document.shards,
        owned=sorted(ownership.client.owned),
        handing_over=sorted(it.number for it in document.handing_over),
        unowned=document.unowned,
        moves=ownership.moves,
        remaining_seconds=ownership.remaining,
        members=[GmMemberStatus(it.pod, it.owned, it.is_settled) for it in document.members],
        reason=document.reason,
    )


def _rounded(value: Any) -> Any:
    """Milliseconds are enough."""
    if isinstance(value, dict):
        return {key: _rounded(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_rounded(inner) for inner in value]
    return round(value, 3) if isinstance(value, float) else value
