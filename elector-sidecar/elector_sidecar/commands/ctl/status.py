"""`kubectl elector status LEASE`: who leads, how long that is proven, who could, what is pending.

Two requests: the Lease and the pods of its namespace. `--watch` follows both by a watch each, and
writes a line for each change; a renewal is none.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from elector_sidecar.commands.ctl.candidates import CandidatePod, candidates
from elector_sidecar.commands.ctl.cluster import NONE, Cluster, Failed
from elector_sidecar.commands.ctl.verb import (
    GREEN,
    RED,
    YELLOW,
    printable,
    proven_until,
    seconds_left,
    since,
    stamp,
    write_json,
    write_table,
)
from elector_sidecar.core.history import HISTORY_ANNOTATION, parse
from elector_sidecar.core.lease import (
    Lease,
    MalformedLease,
    parse_lease,
    pod_name,
    wall_seconds,
)
from elector_sidecar.core.moves.annotations import priority_of
from elector_sidecar.core.moves.pending import pending

# Seconds before a watch that broke is begun anew, with a read before it.
AGAIN = 1.0
_TITLES = ("CANDIDATE", "ELIGIBLE", "PRIORITY", "STATUS", "NODE", "AGE")
_CHANGES = ("TIME", "LEADER", "TERM", "ELIGIBLE", "PENDING")
_WIDTHS = (20, 40, 6, 8)


@dataclass
class Seen:
    """The Lease and the pods by their uids, as they were seen last."""

    lease: Lease
    pods: dict[str, dict[str, Any]]
    version: str

    def candidates(self, name: str, namespace: str) -> list[CandidatePod]:
        holder = self.lease.spec.holder_identity
        return candidates(self.pods.values(), lease=name, namespace=namespace, holder=holder)


def add(it: argparse.ArgumentParser) -> None:
    it.add_argument("-w", "--watch", action="store_true", help="one more line at each change")


async def run(cluster: Cluster, given: argparse.Namespace) -> int:
    """0 if a pod leads, 1 if none does."""
    if given.watch:
        await _follow(cluster, given)
    seen = await _read(cluster, given.lease)
    document = describe(seen, given.lease, cluster.namespace)
    if given.output == "json":
        write_json(document)
    else:
        found = seen.candidates(given.lease, cluster.namespace)
        _write_page(document, seen, found, now=cluster.now())
    return 0 if document["holder"] else 1


async def _read(cluster: Cluster, name: str) -> Seen:
    lease, (pods, version) = await asyncio.gather(cluster.lease(name), cluster.pods())
    return Seen(lease, {it["metadata"]["uid"]: it for it in pods}, version)


def describe(seen: Seen, name: str, namespace: str) -> dict[str, Any]:
    """The document of `-o json`."""
    lease, spec = seen.lease, seen.lease.spec
    return {
        "lease": {"namespace": namespace, "name": name},
        "holder": spec.holder_identity,
        "holderPod": pod_name(spec.holder_identity),
        "isElector": lease.is_marked,
        "acquireTime": spec.acquire_time if spec.holder_identity else None,
        "renewTime": spec.renew_time,
        "leaseDurationSeconds": spec.lease_duration,
        "provenUntil": stamp(proven_until(lease)),
        "leaseTransitions": spec.lease_transitions,
        "priority": priority_of(lease),
        "pending": pending(lease),
        "history": [it.document() for it in parse(lease.annotation(HISTORY_ANNOTATION))],
        "candidates": [
            {
                "pod": it.name,
                "container": it.container,
                "node": it.node,
                "status": it.status,
                "eligible": it.is_eligible,
                "priority": it.priority,
                "isLeader": it.is_leader,
            }
            for it in seen.candidates(name, namespace)
        ],
    }


def pending_text(lease: Lease) -> str:
    """In words; "" for nothing."""
    asked = pending(lease)
    switchover, hold = asked["switchover"], asked["hold"]
    found = []
    if hold:
        found.append(f"hold until {hold['until']}")
    if switchover:
        found.append(f"switchover to {switchover['to'] or 'any other'} by {switchover['until']}")
    if asked["problem"]:
        found.append(f"ignored: {asked['problem']}")
    return "; ".join(found)


def _write_page(
    document: Mapping[str, Any], seen: Seen, found: list[CandidatePod], *, now: float
) -> None:
    spec, where = seen.lease.spec, document["lease"]
    until = proven_until(seen.lease)
    is_proven = until is not None and until > now
    kind = "" if seen.lease.is_marked or not spec.holder_identity else "   (no elector)"
    text = pending_text(seen.lease)
    term = f"{spec.lease_transitions}"
    if spec.holder_identity and wall_seconds(spec.acquire_time) is not None:
        term += f", begun {since(spec.acquire_time, now)} ago"
    write_table(
        (
            ("LEASE", f"{where['namespace']}/{where['name']}"),
            ("LEADER", document["holderPod"] or NONE),
            ("IDENTITY", (spec.holder_identity or "-") + kind),
            ("PROVEN UNTIL", f"{document['provenUntil'] or '-'}   ({seconds_left(until, now)})"),
            ("TERM", term),
            ("PENDING", text or "-"),
        ),
        {1: GREEN if is_proven else RED, **({5: YELLOW} if text else {})},
    )
    if not found:
        sys.stdout.write(f"\nNo pod of {where['namespace']} has an elector for this Lease.\n")
        return
    sys.stdout.write("\n")
    rows = [_row(it, now) for it in found]
    leading = {place: GREEN for place, it in enumerate(found, 1) if it.is_leader}
    write_table((_TITLES, *rows), leading)


def _row(it: CandidatePod, now: float) -> tuple[str, ...]:
    return (
        it.name + (" *" if it.is_leader else ""),
        {True: "yes", False: "no", None: "unknown"}[it.is_eligible],
        str(it.priority),
        it.status,
        it.node or "-",
        since(it.created, now),
    )


# ── following ──


async def _follow(cluster: Cluster, given: argparse.Namespace) -> None:
    """Until it is interrupted. Raises `Failed` where the first read, or a right, is missing."""
    from edge_sidecars.kubeapi import ApiError, Unreachable

    changes = _Changes(given)
    seen = await _read(cluster, given.lease)
    while True:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_watch_lease(cluster, seen, changes))
                group.create_task(_watch_pods(cluster, seen, changes))
        except* Failed as refused:
            raise refused.exceptions[0] from None
        except* (ApiError, Unreachable, _Ended):
            await asyncio.sleep(AGAIN)
        try:
            seen = await _read(cluster, given.lease)
        except Failed as error:
            sys.stderr.write(f"{error}; trying again\n")


class _Ended(Exception):
    """A watch ended in order."""


async def _watch_lease(cluster: Cluster, seen: Seen, changes: "_Changes") -> None:
    from edge_sidecars.apimachinery.watch_events import Bookmark, EventType
    from edge_sidecars.kubeapi import parse_event

    changes.show(seen, cluster)
    version = str(seen.lease.resource_version)
    async with aclosing(cluster.watch("leases", version, name=changes.lease)) as lines:
        async for line in lines:
            event = parse_event(line, json.loads)
            if isinstance(event, Bookmark):
                continue
            if event.type is EventType.DELETED:
                raise Failed(f"Lease {cluster.namespace}/{changes.lease} was deleted")
            try:
                seen.lease = parse_lease(event.object)
            except MalformedLease as error:
                raise Failed(f"Lease {cluster.namespace}/{changes.lease}: {error}") from error
            changes.show(seen, cluster)
    raise _Ended


async def _watch_pods(cluster: Cluster, seen: Seen, changes: "_Changes") -> None:
    from edge_sidecars.apimachinery.watch_events import Bookmark, EventType
    from edge_sidecars.kubeapi import parse_event

    async with aclosing(cluster.watch("pods", seen.version)) as lines:
        async for line in lines:
            event = parse_event(line, json.loads)
            if isinstance(event, Bookmark):
                continue
            uid = event.object["metadata"]["uid"]
            if event.type is EventType.DELETED:
                seen.pods.pop(uid, None)
            else:
                seen.pods[uid] = event.object
            changes.show(seen, cluster)
    raise _Ended


class _Changes:
    """Writes a line where something else than a time has changed."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.lease: str = given.lease
        self._is_json = given.output == "json"
        self._before: object = None

    def show(self, seen: Seen, cluster: Cluster) -> None:
        document = describe(seen, self.lease, cluster.namespace)
        moment, *cells = _cells(seen, document, now=cluster.now())
        state = {**document, "renewTime": None, "provenUntil": None} if self._is_json else cells
        if state == self._before:
            return
        if self._is_json:
            write_json(document, indent=None)
        else:
            if self._before is None:
                sys.stdout.write(_line(_CHANGES))
            sys.stdout.write(_line((moment, *cells)))
            sys.stdout.flush()
        self._before = state


def _cells(seen: Seen, document: Mapping[str, Any], *, now: float) -> tuple[str, ...]:
    found = document["candidates"]
    eligible = sum(bool(it["eligible"]) for it in found)
    return (
        stamp(now) or "",
        document["holderPod"] or NONE,
        str(document["leaseTransitions"]),
        f"{eligible}/{len(found)}",
        pending_text(seen.lease) or "-",
    )


def _line(cells: tuple[str, ...]) -> str:
    cells = tuple(map(printable, cells))
    padded = [cell.ljust(width) for cell, width in zip(cells, _WIDTHS, strict=False)]
    return "   ".join([*padded, *cells[len(_WIDTHS) :]]) + "\n"
