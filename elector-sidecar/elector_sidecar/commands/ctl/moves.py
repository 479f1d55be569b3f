"""`kubectl elector switchover`, `hold` and `resume`: asks by annotations of the Lease, and waits.

Each is written by compare-and-swap on the record that was judged. What is asked, the leader may
decline; that is seen by the annotation that it takes off, and reported. Whether a pod leads is seen
by what it writes, as electors see it: the clocks of this machine and of nodes may differ.
"""

import argparse
import asyncio
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence

from edge_sidecars.runtime.cli.options import named
from edge_sidecars.runtime.cli.values import BadInput, seconds
from edge_sidecars.runtime.formats import rfc3339
from edge_sidecars.runtime.formats.rfc1123 import is_subdomain
from elector_sidecar.commands.ctl.candidates import CandidatePod, candidates
from elector_sidecar.commands.ctl.cluster import Cluster, Failed
from elector_sidecar.commands.ctl.verb import printable
from elector_sidecar.core.history import HISTORY_ANNOTATION, parse
from elector_sidecar.core.lease import Lease, annotated, pod_name
from elector_sidecar.core.moves.annotations import (
    HOLD_ANNOTATION,
    SWITCHOVER_ANNOTATION,
    Hold,
    Switchover,
)
from elector_sidecar.core.moves.moves import LONGEST_HOLD
from elector_sidecar.core.timing import FOREIGN_FACTOR
from elector_sidecar.shards.table.shard_table import TABLE_ANNOTATION

# Seconds in which a leader is to begin a switchover.
BEGUN_WITHIN = 60.0
# Seconds between two looks at the Lease.
LOOK = 0.2
# The Lease is written this often at most: a renewal comes in between once, or twice.
ATTEMPTS = 10
HELD_FOR = "1h"
# Seconds: of a Lease that names none; client-go's default.
UNKNOWN_DURATION = 15.0


def add_switchover(it: argparse.ArgumentParser) -> None:
    it.add_argument("--to", metavar="POD", default="", help="default: any other candidate")
    _add_timeout(it)


def add_hold(it: argparse.ArgumentParser) -> None:
    it.add_argument(
        "--for",
        dest="held_for",
        metavar="DURATION",
        default=HELD_FOR,
        help=f"at most 7 days; default {HELD_FOR}",
    )
    _add_timeout(it)


def add_resume(it: argparse.ArgumentParser) -> None:
    _add_timeout(it)


def _add_timeout(it: argparse.ArgumentParser) -> None:
    it.add_argument(
        "--timeout", metavar="DURATION", default="60s", help="of waiting for it; default 60s"
    )


# ── switchover ──


async def switchover(cluster: Cluster, given: argparse.Namespace) -> int:
    """0 if the lead is where it was asked for."""
    timeout = named("timeout", seconds, given.timeout)
    if given.to and not is_subdomain(given.to):
        raise BadInput(f"--to {given.to!r:.80} is not a pod's name")
    pods, _ = await cluster.pods()
    asked = Switchover(given.to, str(uuid.uuid4()), cluster.now() + BEGUN_WITHIN)

    def judged(lease: Lease) -> Mapping[str, str | None]:
        holder = lease.spec.holder_identity
        found = candidates(pods, lease=given.lease, namespace=cluster.namespace, holder=holder)
        if why_not := why_no_switchover(lease, found, to=given.to):
            raise Failed(why_not)
        return {SWITCHOVER_ANNOTATION: asked.text()}

    before = await _annotate(cluster, given.lease, judged)
    began, former = time.monotonic(), pod_name(before.spec.holder_identity)
    while time.monotonic() - began < timeout:
        lease = await cluster.lease(given.lease)
        holder = lease.spec.holder_identity
        if holder and holder != before.spec.holder_identity:
            sys.stdout.write(printable(f"{pod_name(holder)} leads, after {former}") + "\n")
            return 0 if given.to in ("", pod_name(holder)) else 1
        if holder and asked.id not in (lease.annotation(SWITCHOVER_ANNOTATION) or ""):
            raise Failed(f"{former} declined, and leads on; its log says why")
        await asyncio.sleep(LOOK)
    raise Failed(f"no other pod leads after {timeout:g}s; {former} led before")


def why_no_switchover(lease: Lease, found: Sequence[CandidatePod], *, to: str) -> str:
    """In words; "" if it can be asked for."""
    holder = lease.spec.holder_identity
    if why_not := _why_not_moved(lease):
        return why_not
    if not holder:
        return "no pod leads: there is nothing to switch over"
    if not lease.is_marked:
        return f"{holder} leads, which is no elector: it does not read what is asked of it"
    if to == pod_name(holder):
        return f"{to} leads already"
    others = [it for it in found if it.name != pod_name(holder)]
    fit = [it for it in others if it.status == "Running" and it.is_eligible is not False]
    names = ", ".join(it.name for it in fit) or "none"
    if not to:
        return "" if fit else "no other candidate runs and is eligible"
    one = next((it for it in others if it.name == to), None)
    if one is None:
        return f"{to} is no candidate for this Lease; candidates: {names}"
    if one not in fit:
        state = one.status if one.status != "Running" else "not eligible"
        return f"{to} cannot lead: it is {state}; candidates: {names}"
    return ""


def _why_not_moved(lease: Lease) -> str:
    if lease.annotation(TABLE_ANNOTATION) is None:
        return ""
    return "this Lease is a table of shards: its members all work, and no single pod leads"


# ── hold, resume ──


async def hold(cluster: Cluster, given: argparse.Namespace) -> int:
    """0 if no pod leads."""
    timeout = named("timeout", seconds, given.timeout)
    held_for = named("for", seconds, given.held_for)
    if not 0 < held_for <= LONGEST_HOLD:
        raise BadInput(f"--for {given.held_for}: at most {LONGEST_HOLD / 86400:g} days")
    number, until = str(uuid.uuid4()), 0.0

    def judged(lease: Lease) -> Mapping[str, str | None]:
        nonlocal until
        if why_not := _why_not_moved(lease):
            raise Failed(why_not)
        until = cluster.now() + held_for
        return {HOLD_ANNOTATION: Hold(number, until).text()}

    before = await _annotate(cluster, given.lease, judged)
    if before.spec.holder_identity and not before.is_marked:
        raise Failed(
            f"held, but {before.spec.holder_identity} leads on: it is no elector, and does not know"
            " holds; stop it, and no elector takes the Lease"
        )
    claim, began = _Claim(before), time.monotonic()
    while time.monotonic() - began < timeout:
        lease = await cluster.lease(given.lease)
        holder = lease.spec.holder_identity
        if number not in (lease.annotation(HOLD_ANNOTATION) or ""):
            raise Failed("the hold was taken off, or replaced by another one")
        if holder and not lease.is_marked:
            raise Failed(f"held, but {holder} took the Lease: it is no elector")
        if not holder or claim.is_over(lease):
            ends = rfc3339.stamp_of(until, "seconds")
            sys.stdout.write(f"no pod leads until {ends}, or `resume {given.lease}`\n")
            for other in strangers(lease):
                sys.stderr.write(
                    f"{printable(other)} has led and is no elector: it does not know holds, and "
                    "may take the Lease\n"
                )
            return 0
        await asyncio.sleep(LOOK)
    leads = (
        f"{pod_name(before.spec.holder_identity)} leads"
        if before.spec.holder_identity
        else ("the Lease was not seen without a holder")
    )
    raise Failed(f"held, but {leads} after {timeout:g}s")


class _Claim:
    """Of the holder, which lasts for the Lease's duration after its last change (client-go's rule).
    On the clock of this process alone."""

    def __init__(self, lease: Lease) -> None:
        self._spec, self._since = lease.spec, time.monotonic()

    def is_over(self, lease: Lease) -> bool:
        now = time.monotonic()
        if lease.spec != self._spec:
            self._spec, self._since = lease.spec, now
        factor = 1.0 if lease.is_marked else FOREIGN_FACTOR
        return now - self._since > factor * (lease.spec.lease_duration or UNKNOWN_DURATION)


def strangers(lease: Lease) -> list[str]:
    """Who led by this Lease, as its history says, and did not record it: no elector."""
    terms = parse(lease.annotation(HISTORY_ANNOTATION))
    return sorted({it.holder for it in terms if it.is_seen})


async def resume(cluster: Cluster, given: argparse.Namespace) -> int:
    """0 if a pod leads."""
    timeout = named("timeout", seconds, given.timeout)

    def judged(lease: Lease) -> Mapping[str, str | None]:
        if why_not := _why_not_moved(lease):
            raise Failed(why_not)
        if lease.annotation(HOLD_ANNOTATION) is None:
            raise Failed("there is no hold on this Lease")
        return {HOLD_ANNOTATION: None}

    before = await _annotate(cluster, given.lease, judged)
    began = time.monotonic()
    while time.monotonic() - began < timeout:
        lease = await cluster.lease(given.lease)
        # A claim of before the hold may be that of a dead one: only a write proves more.
        if lease.spec.holder_identity and lease.spec != before.spec:
            sys.stdout.write(printable(f"{pod_name(lease.spec.holder_identity)} leads") + "\n")
            return 0
        await asyncio.sleep(LOOK)
    raise Failed(f"the hold is off, and no pod leads after {timeout:g}s")


async def _annotate(
    cluster: Cluster, name: str, judged: Callable[[Lease], Mapping[str, str | None]]
) -> Lease:
    """The record before the write. Raises `Failed`."""
    from edge_sidecars.kubeapi import Conflict

    for _ in range(ATTEMPTS):
        lease = await cluster.lease(name)
        body = annotated(lease, judged(lease))
        try:
            await cluster.write_lease(name, body)
        except Conflict:
            continue
        return lease
    raise Failed(f"Lease {cluster.namespace}/{name} changes faster than it can be written")
