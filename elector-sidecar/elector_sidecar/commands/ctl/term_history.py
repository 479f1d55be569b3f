"""`kubectl elector history LEASE`: who led and why it ended, by the annotation of the Lease."""

import argparse

from edge_sidecars.runtime.cli.status_command import age
from elector_sidecar.commands.ctl.cluster import Cluster
from elector_sidecar.commands.ctl.verb import write_document
from elector_sidecar.core.history import LeaseHistory, TermRecord
from elector_sidecar.core.lease import pod_name, wall_seconds

_TITLES = ("FROM", "TO", "FOR", "LEADER", "ENDED BECAUSE")


async def run(cluster: Cluster, given: argparse.Namespace) -> int:
    lease = await cluster.lease(given.lease)
    # With the present holder, where its program records nothing.
    history = LeaseHistory("")
    now = cluster.now()
    history.adopt(lease, wall=now)
    document = {
        "lease": {"namespace": cluster.namespace, "name": given.lease},
        "terms": [it.document() for it in history.terms],
    }
    rows = [_row(it, now) for it in reversed(history.terms)]
    empty = f"Lease {cluster.namespace}/{given.lease} has no history yet: no elector has led by it"
    write_document(given, document, [(_TITLES, *rows)], empty)
    return 0


def _row(it: TermRecord, now: float) -> tuple[str, ...]:
    began, ended = wall_seconds(it.began), wall_seconds(it.ended or None)
    lasted = (now if ended is None else ended) - (began or 0.0)
    who = pod_name(it.holder) + ("   (seen)" if it.is_seen else "")
    return it.began, it.ended or "now", age(max(lasted, 0.0)), who, it.why or "-"
