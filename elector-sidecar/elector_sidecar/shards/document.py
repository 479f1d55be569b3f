"""The /shards document: what this member owns and hands over, and who else takes part.

Pure: computed from a `ShardsView` and `now` in the request that asks (P2), never stored.
"""

import json
from typing import Any

from edge_sidecars.apimachinery.selection.shard_ranges import selector
from elector_sidecar.shards.shard_view import ShardsView, ShardView


def shards_document(view: ShardsView, *, now: float, identity: str, reason: str) -> dict[str, Any]:
    """`reason`: of the election, where the shards have none of their own."""
    remaining = max(view.valid_until - now, 0.0) if view.valid_until else 0.0
    return {
        "shards": view.shards,
        "owned": [_shard(it) | {"ownedSeconds": round(it.owned_seconds, 3)} for it in view.owned],
        "handingOver": [_shard(it) for it in view.handing_over],
        "selector": selector([it.shard for it in view.owned], view.shards),
        "validUntil": view.valid_until,
        "remainingSeconds": round(remaining, 3),
        "identity": identity,
        "members": [
            {"identity": it.identity, "pod": it.pod, "owned": it.owned, "settled": it.is_settled}
            for it in view.members
        ],
        "unowned": view.unowned,
        "reason": view.reason or reason,
    }


def shards_json(view: ShardsView, *, now: float, identity: str, reason: str) -> bytes:
    document = shards_document(view, now=now, identity=identity, reason=reason)
    return json.dumps(document, separators=(",", ":")).encode()


def _shard(it: ShardView) -> dict[str, Any]:
    return {"shard": it.shard, "range": list(it.range), "fencingToken": it.fencing_token}
