"""The bodies of writes to the table's Lease and of those that fence a member's Lease.

Pure. Guarantees: every update carries uid and resourceVersion of the record that was judged (P4);
labels and metadata of other people are kept.
"""

import json
from dataclasses import dataclass
from typing import Any

from elector_sidecar.core import lease as wire
from elector_sidecar.core.lease import Lease
from elector_sidecar.core.lease_writes import EDITED_AHEAD, MAX_TRANSITIONS
from elector_sidecar.shards.members.member_lease import MEMBER_ANNOTATION, emptied
from elector_sidecar.shards.members.member_lease import encode as encode_note
from elector_sidecar.shards.table.shard_table import (
    ELECTION_LABEL,
    MAX_SET_ASIDE,
    SET_ASIDE_ANNOTATION,
    TABLE_ANNOTATION,
    TABLE_DURATION,
    TABLE_HOLDER,
    Table,
    encode,
)


@dataclass(frozen=True)
class WriteNamed:
    """One attempt on the table (`is_table`) or the Lease of a member that is waited out.
    `creates`: by POST, else by PUT on exactly `base_version` of the same uid."""

    id: int
    name: str
    body: dict[str, Any]
    base_version: int
    creates: bool
    sent_at: float
    is_table: bool


@dataclass(frozen=True)
class LeaseName:
    namespace: str
    name: str
    election: str


def table_body(
    base: Lease | None, where: LeaseName, table: Table, *, now: str, set_aside: str | None
) -> dict[str, Any]:
    """The Lease as the table; `set_aside`: what was found in its place."""
    is_table = base is not None and base.spec.holder_identity == TABLE_HOLDER
    transitions = base.spec.lease_transitions if base else 0
    body = wire.held(
        base,
        namespace=where.namespace,
        name=where.name,
        holder_identity=TABLE_HOLDER,
        lease_duration=TABLE_DURATION,
        acquire_time=(base.spec.acquire_time if is_table and base else None) or now,
        renew_time=now,
        lease_transitions=transitions if is_table else min(transitions + 1, MAX_TRANSITIONS),
    )
    body["spec"].pop("strategy", None)
    body["spec"].pop("preferredHolder", None)
    annotations = body["metadata"]["annotations"]
    annotations[TABLE_ANNOTATION] = encode(table)
    if set_aside is not None:
        annotations[SET_ASIDE_ANNOTATION] = set_aside[:MAX_SET_ASIDE]
    return _labelled(body, where)


def found_instead(base: Lease | None) -> str:
    """What stood where a table should, for its annotation."""
    if base is None:
        return "the Lease was missing"
    annotations = base.raw["metadata"].get("annotations") or {}
    text = annotations.get(TABLE_ANNOTATION)
    return json.dumps({"holderIdentity": base.spec.holder_identity, TABLE_ANNOTATION: text})


def vacant_table_body(where: LeaseName, *, identity: str, lease_duration: int) -> dict[str, Any]:
    """The table's Lease without a holder: it begins after one lease duration (elector.md, 4)."""
    body = wire.vacant(
        namespace=where.namespace,
        name=where.name,
        holder_identity=identity,
        lease_duration=lease_duration,
    )
    return _labelled(body, where)


def fence_body(base: Lease | None, where: LeaseName, *, now: str) -> dict[str, Any]:
    """A member's Lease, emptied: a late write of its last holder is a conflict afterwards."""
    if base is not None:
        body = wire.released(base, now=now)
        note = encode_note(emptied(base.resource_version), body)
        body["metadata"].setdefault("annotations", {})[MEMBER_ANNOTATION] = note
        return _labelled(body, where)
    body = wire.vacant(
        namespace=where.namespace, name=where.name, holder_identity="", lease_duration=1
    )
    body["metadata"]["annotations"] = {}
    return _labelled(body, where)


def next_second(stamp: str, *, after: str | None) -> str:
    """`stamp`, or the same moment of the second after `after`: client-go compares whole seconds
    (H9). One far ahead of our wall clock was edited: it is no floor for ours."""
    wall, before = wire.wall_seconds(stamp), wire.wall_seconds(after)
    if wall is None or before is None or before > wall + EDITED_AHEAD:
        return stamp
    return wire.micro_time(max(wall, before + 1.0))


def _labelled(body: dict[str, Any], where: LeaseName) -> dict[str, Any]:
    metadata = body["metadata"]
    metadata["labels"] = {**(metadata.get("labels") or {}), ELECTION_LABEL: where.election}
    return body
