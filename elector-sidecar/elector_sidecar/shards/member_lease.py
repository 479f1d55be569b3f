"""What a member says of itself in its own Lease, beside holding it.

Owns the annotation and its digest, which covers the renewTime of the same write: an edit by hand,
or an annotation that outlived its write, is no word of the member. Pure.
"""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from elector_sidecar.core.lease import Lease
from elector_sidecar.shards.table import ELECTION_LABEL, TableVersion

MEMBER_ANNOTATION = "edge-sidecars.io/member"
# Of another election, or of none: somebody else's Lease.
MAX_LEASE_NAME = 253


@dataclass(frozen=True)
class MemberNote:
    """`term`: which acquisition of its Lease this is. `shards`: its flag. `is_settled`: it takes
    its share. `is_leaving`: it gives everything up. `seen`: the table that it goes by."""

    term: int
    shards: int
    is_settled: bool
    is_leaving: bool
    seen: TableVersion | None


def encode(note: MemberNote, *, identity: str, renew_time: str) -> str:
    """The annotation's text, beside that holder and renewTime."""
    content: dict[str, Any] = {
        "term": note.term,
        "shards": note.shards,
        "settled": note.is_settled,
        "leaving": note.is_leaving,
        "seen": None if note.seen is None else vars(note.seen),
    }
    return _text(content | {"digest": _digest(content, identity, renew_time)})


def decode(lease: Lease) -> MemberNote | None:
    """None where the holder did not write it with its last renewal, or it cannot be read."""
    annotations = lease.raw["metadata"].get("annotations") or {}
    try:
        content = json.loads(annotations[MEMBER_ANNOTATION])
        digest = content.pop("digest")
        holder, renew_time = lease.spec.holder_identity, lease.spec.renew_time or ""
        if not lease.is_marked or digest != _digest(content, holder, renew_time):
            return None
        seen = content["seen"]
        return MemberNote(
            term=int(content["term"]),
            shards=int(content["shards"]),
            is_settled=bool(content["settled"]),
            is_leaving=bool(content["leaving"]),
            seen=None if seen is None else TableVersion(**seen),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def is_labelled(lease: Lease, election: str) -> bool:
    labels = lease.raw["metadata"].get("labels") or {}
    return bool(labels.get(ELECTION_LABEL) == election)


def _text(content: dict[str, Any]) -> str:
    return json.dumps(content, separators=(",", ":"), sort_keys=True)


def _digest(content: dict[str, Any], identity: str, renew_time: str) -> str:
    text = f"{identity}\n{renew_time}\n{_text(content)}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]
