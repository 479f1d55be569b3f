"""What a member says of itself in its own Lease, beside holding it.

Owns the annotation and its digest, which covers the Lease and what else the same write says: an
edit by hand, or an annotation that outlived its write, is no word of the member. A content that
was put back from a copy is: it says what was true once (`begun_on`). Pure.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from elector_sidecar.core.lease import Lease
from elector_sidecar.shards.table.shard_table import ELECTION_LABEL, TableVersion, flag, text, whole

MEMBER_ANNOTATION = "edge-sidecars.io/member"


@dataclass(frozen=True)
class MemberNote:
    """`term`: which acquisition of its Lease this is; 0: the Lease was emptied by the rules.
    `begun_on`: the resourceVersion that it was acquired or emptied on; of a Lease that was created
    so, 0 and then the version that this made.
    `shards`: its flag. `is_settled`: it takes its share. `is_leaving`: it gives everything up.
    `seen`: the table that it goes by, and `seen_at` the resourceVersion at which it saw it."""

    term: int
    begun_on: int
    shards: int = 0
    is_settled: bool = False
    is_leaving: bool = False
    seen: TableVersion | None = None
    seen_at: int = 0


def emptied(base_version: int) -> MemberNote:
    """Released by its holder, or waited out and emptied: on that version."""
    return MemberNote(term=0, begun_on=base_version)


def encode(note: MemberNote, body: Mapping[str, Any]) -> str:
    """The annotation's text in a write of this body of a Lease."""
    content: dict[str, Any] = {
        "term": note.term,
        "begunOn": note.begun_on,
        "shards": note.shards,
        "settled": note.is_settled,
        "leaving": note.is_leaving,
        "seen": None if note.seen is None else vars(note.seen),
        "seenAt": note.seen_at,
    }
    metadata = body["metadata"]
    digest = _digest(content, metadata["name"], metadata.get("uid", ""), body["spec"])
    return _text(content | {"digest": digest})


def decode(lease: Lease) -> MemberNote | None:
    """None where the holder did not write it with its last renewal, or it cannot be read."""
    metadata = lease.raw["metadata"]
    holder = lease.spec.holder_identity
    try:
        content = json.loads((metadata.get("annotations") or {})[MEMBER_ANNOTATION])
        digest = content.pop("digest")
        # The write that created it knew no uid.
        is_written_so = any(
            digest == _digest(content, metadata["name"], uid, lease.raw["spec"])
            for uid in (lease.uid, "")
        )
        if not is_written_so or lease.marked_holder != (holder or None):
            return None
        note = _note(content)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    # Only a holder has terms.
    return note if (note.term > 0) == (holder != "") else None


def _note(content: dict[str, Any]) -> MemberNote:
    seen = content["seen"]
    return MemberNote(
        term=whole(content["term"]),
        begun_on=whole(content["begunOn"]),
        shards=whole(content["shards"]),
        is_settled=flag(content["settled"]),
        is_leaving=flag(content["leaving"]),
        seen=None
        if seen is None
        else TableVersion(text(seen["uid"]), whole(seen["sequence"]), text(seen["digest"])),
        seen_at=whole(content["seenAt"]),
    )


def is_labelled(lease: Lease, election: str) -> bool:
    labels = lease.raw["metadata"].get("labels") or {}
    return bool(labels.get(ELECTION_LABEL) == election)


def is_foreign(lease: Lease, election: str) -> bool:
    """Whether it is no member's of this election. The label may have been taken off ours; one of
    another election says whose it is: `x` with pod `b-c` and `x-b` with pod `c` share a name."""
    metadata = lease.raw["metadata"]
    label = (metadata.get("labels") or {}).get(ELECTION_LABEL)
    if label is None:
        return MEMBER_ANNOTATION not in (metadata.get("annotations") or {})
    return bool(label != election)


# One for all: a member reads each renewal of each other.
_text: Final = json.JSONEncoder(separators=(",", ":"), sort_keys=True).encode


def _digest(content: dict[str, Any], name: str, uid: str, spec: Mapping[str, Any]) -> str:
    keys = ("holderIdentity", "leaseDurationSeconds", "renewTime")
    of_spec = "\n".join(str(spec.get(key) or "") for key in keys)
    written = f"{name}\n{uid}\n{of_spec}\n{_text(content)}"
    return hashlib.sha256(written.encode()).hexdigest()[:16]
