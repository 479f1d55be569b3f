"""`kubectl elector list`: the Leases of a namespace that an elector has written. One request."""

import argparse

from elector_sidecar.commands.ctl.cluster import NONE, Cluster
from elector_sidecar.commands.ctl.status import pending_text
from elector_sidecar.commands.ctl.verb import (
    proven_until,
    seconds_left,
    since,
    stamp,
    write_document,
)
from elector_sidecar.core.lease import Lease, pod_name
from elector_sidecar.core.moves.pending import pending
from elector_sidecar.shards.members.member_lease import MEMBER_ANNOTATION
from elector_sidecar.shards.table.shard_table import TABLE_ANNOTATION

# All annotations of ours begin so.
OURS = "edge-sidecars.io/"
_TITLES = ("NAMESPACE", "NAME", "LEADER", "PROVEN FOR", "TERM", "SINCE", "PENDING")


def add(it: argparse.ArgumentParser) -> None:
    it.add_argument("--all", action="store_true", help="also Leases of other programs")


async def run(cluster: Cluster, given: argparse.Namespace) -> int:
    found = [it for it in await cluster.leases() if given.all or is_ours(it)]
    found.sort(key=lambda it: (it.raw["metadata"]["namespace"], it.raw["metadata"]["name"]))
    where = cluster.namespace or "any namespace"
    now = cluster.now()
    rows = (_TITLES, *(_row(it, now) for it in found))
    empty = f"No Lease of an elector in {where}; --all shows those of other programs too."
    write_document(given, [_document(it) for it in found], [rows], empty)
    return 0


def is_ours(lease: Lease) -> bool:
    """Not the Leases of the members of one election, whose table is in the list."""
    annotations = lease.raw["metadata"].get("annotations") or {}
    return MEMBER_ANNOTATION not in annotations and any(it.startswith(OURS) for it in annotations)


def _leader(lease: Lease) -> str:
    if lease.annotation(TABLE_ANNOTATION) is not None:
        return "(shards)"
    return pod_name(lease.spec.holder_identity)


def _row(lease: Lease, now: float) -> tuple[str, ...]:
    metadata, spec = lease.raw["metadata"], lease.spec
    has_term = spec.holder_identity != "" and lease.annotation(TABLE_ANNOTATION) is None
    return (
        metadata["namespace"],
        metadata["name"],
        _leader(lease) or NONE,
        seconds_left(proven_until(lease), now) if has_term else "-",
        str(spec.lease_transitions),
        since(spec.acquire_time, now) if has_term else "-",
        pending_text(lease) or "-",
    )


def _document(lease: Lease) -> dict[str, object]:
    metadata, spec = lease.raw["metadata"], lease.spec
    return {
        "lease": {"namespace": metadata["namespace"], "name": metadata["name"]},
        "holder": spec.holder_identity,
        "holderPod": pod_name(spec.holder_identity),
        "isElector": lease.is_marked,
        "isTableOfShards": lease.annotation(TABLE_ANNOTATION) is not None,
        "provenUntil": stamp(proven_until(lease)),
        "leaseTransitions": spec.lease_transitions,
        "pending": pending(lease),
    }
