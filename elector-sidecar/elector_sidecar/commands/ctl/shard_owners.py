"""`kubectl elector shards LEASE`: who owns which shards, by the table in the Lease."""

import argparse
import asyncio

from elector_sidecar.commands.ctl.cluster import NONE, Cluster, Failed
from elector_sidecar.commands.ctl.verb import proven_until, seconds_left, stamp, write_document
from elector_sidecar.commands.shards import spans
from elector_sidecar.core.lease import Lease, pod_name
from elector_sidecar.shards.table.shard_table import (
    ELECTION_LABEL,
    TABLE_ANNOTATION,
    MalformedTable,
    NewerTable,
    decode,
)

_TITLES = ("MEMBER", "OWNED", "PROVEN FOR", "SHARDS", "IDENTITY")


async def run(cluster: Cluster, given: argparse.Namespace) -> int:
    """0 if each shard has an owner that is proven, 1 if not."""
    table_lease, leases = await asyncio.gather(
        cluster.lease(given.lease), cluster.leases(label=f"{ELECTION_LABEL}={given.lease}")
    )
    try:
        table, _ = decode(table_lease.annotation(TABLE_ANNOTATION))
    except (MalformedTable, NewerTable) as error:
        raise Failed(
            f"Lease {cluster.namespace}/{given.lease} has no table of shards: {error}"
        ) from error
    owned: dict[str, list[int]] = {}
    for shard, owner in enumerate(table.owners):
        if owner is not None:
            owned.setdefault(owner.identity, []).append(shard)
    held = {it.spec.holder_identity: it for it in leases if it.spec.holder_identity}
    held.pop(table_lease.spec.holder_identity, None)
    members = [
        _member(identity, owned.get(identity, []), held.get(identity))
        for identity in sorted({*owned, *held})
    ]
    unowned = [shard for shard, owner in enumerate(table.owners) if owner is None]
    rows = [
        (
            str(it["pod"]),
            str(len(owned.get(str(it["identity"]), []))),
            seconds_left(
                None if (lease := held.get(str(it["identity"]))) is None else proven_until(lease),
                cluster.now(),
            ),
            spans(owned.get(str(it["identity"]), [])) or "-",
            str(it["identity"]),
        )
        for it in members
    ]
    if unowned:
        rows.append((NONE, str(len(unowned)), "-", spans(unowned), "-"))
    document = {
        "lease": {"namespace": cluster.namespace, "name": given.lease},
        "shards": table.shards,
        "unowned": unowned,
        "members": members,
    }
    write_document(given, document, [(_TITLES, *rows)], "No shard has an owner.")
    return 1 if unowned else 0


def _member(identity: str, owned: list[int], lease: Lease | None) -> dict[str, object]:
    return {
        "pod": pod_name(identity),
        "identity": identity,
        "owned": owned,
        "provenUntil": stamp(None if lease is None else proven_until(lease)),
    }
