"""What was done to one Lease, as the API server's audit log tells it: the judge of P1 and P4.

Guarantees: complete (the log is written before an answer is sent) and in the order in which etcd
applied it (resourceVersions); times are those of the API server, on CLOCK_BOOTTIME like the
observer's. Deletions bear no version, hence they are not in here.
"""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tools.harness.controlplane.api_server import ApiServer
from tools.harness.controlplane.clients.answer import boottime
from tools.harness.pods.observers.observer import Ready

# The contract's rules for takeovers, written down a second time: the judge does not ask the judged.
VALIDITY_RATIO = 0.95
VALIDITY_MARGIN = 0.25
FOREIGN_FACTOR = 1.2
ANNOTATION = "edge-sidecars.io/holder"
# The reading of two clocks by one another (wall clock of the log, CLOCK_BOOTTIME of the observer).
CLOCK_TOLERANCE = 0.05
WRITES = ("create", "update", "patch")

_AGENT = re.compile(r"elector-sidecar/\S+ \((?P<identity>\S+)\)")


@dataclass(frozen=True)
class Write:
    """One applied write; `writer`: the identity of an elector of ours, "" for anybody else."""

    writer: str
    received: float
    resource_version: int
    holder: str
    spec: dict[str, Any]
    metadata: dict[str, Any]

    @property
    def is_marked(self) -> bool:
        mark = (self.metadata.get("annotations") or {}).get(ANNOTATION)
        return bool(self.holder) and mark == self.holder


def writes(plane: ApiServer, namespace: str, *, lease: str | None = None) -> list[Write]:
    """Every write that was applied to the Lease (None: all) of the namespace up to now."""
    offset = time.time() - boottime()
    found = []
    for event in plane.audit(resource="leases", namespace=namespace):
        stored = event.response_object or {}
        if event.verb not in WRITES or event.status not in (200, 201):
            continue
        if lease is not None and stored["metadata"]["name"] != lease:
            continue
        agent = _AGENT.match(event.user_agent)
        spec = stored.get("spec") or {}
        found.append(
            Write(
                writer=agent["identity"] if agent else "",
                received=event.received_at - offset,
                resource_version=int(stored["metadata"]["resourceVersion"]),
                holder=spec.get("holderIdentity") or "",
                spec=spec,
                metadata=stored["metadata"],
            )
        )
    return sorted(found, key=lambda write: write.resource_version)


def assert_polite(history: Sequence[Write]) -> None:
    """P4: our electors blank nobody but themselves, and overwrite nobody who may still lead.

    Judged by neighbours in the history; not for Leases that were deleted in between.
    """
    seen: Write | None = None
    since = 0.0
    longest = 0.0
    for write in history:
        # A standby may ask the holder for the lead, in a write that keeps it.
        has_moved = seen is not None and seen.holder not in ("", write.writer, write.holder)
        if seen is not None and write.writer and has_moved:
            assert write.holder, f"{write.writer} blanked the Lease of {seen.holder}"
            factor = 1.0 if seen.is_marked else FOREIGN_FACTOR
            waited = write.received - since
            assert waited >= longest * factor - CLOCK_TOLERANCE, (
                f"{write.writer} took the Lease of {seen.holder} after {waited:.2f}s of "
                f"{longest * factor:.2f}s"
            )
        duration = float(write.spec.get("leaseDurationSeconds") or 0)
        is_same = seen is not None and seen.holder == write.holder
        longest = max(longest, duration) if is_same else duration
        if seen is None or seen.spec != write.spec:
            since = write.received
        seen = write


def assert_backed(answers: Sequence[Ready], history: Sequence[Write], *, duration: float) -> None:
    """P2, P3: each 200 lies within the validity of a write of its sender that was applied before.

    `duration`: the lease duration of the electors, seconds.
    """
    validity = duration * VALIDITY_RATIO - VALIDITY_MARGIN
    received: dict[str, list[float]] = {}
    for write in history:
        if write.writer == write.holder != "":
            received.setdefault(write.writer, []).append(write.received)
    for ready in answers:
        mine = [at for at in received.get(ready.identity, []) if at < ready.received]
        assert mine, f"a 200 of {ready.pod} that no write backs: {ready}"
        limit = max(mine) + validity + CLOCK_TOLERANCE
        assert ready.sent < limit, f"a 200 {ready.sent - limit:.2f}s after its validity: {ready}"
        assert ready.valid_until < limit, f"validUntil is too late by that of the log: {ready}"
