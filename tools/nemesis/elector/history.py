"""The life of one Lease, rebuilt from the API server's audit log.

Owns: every version that a successful write made, who wrote it, over which version, and when the
request arrived (never later than its effect). A write whose answer was cut off by a kill of the
API server is not in the log as such: a version may be missing, and is then missing here.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import Any

from edge_sidecars.runtime.formats import rfc3339
from tools.harness.controlplane.audit import RESPONSE_COMPLETE, AuditEvent
from tools.harness.pods.observers.history import ANNOTATION

HOLD = "edge-sidecars.io/hold"
SWITCHOVER = "edge-sidecars.io/switchover"
RESUMED = "edge-sidecars.io/resumed"
# Of what asks for something: characters, and the first year that asks nothing.
LONGEST_ASKED, MAX_ID, LAST_YEAR = 600, 80, 9000
WRITES = ("create", "update", "patch", "delete")
# kubeapi's user agent of an elector: run.py.
_ELECTOR = re.compile(r"elector-sidecar/\S+ \((?P<identity>[^)]+)\)")


@dataclass(frozen=True)
class Version:
    """What a write stored. `writer`: the identity of an elector, else the user agent.

    `base`: the resourceVersion in the request (None: it named none); times in epoch seconds.
    """

    uid: str
    resource_version: int
    verb: str
    writer: str
    base: int | None
    received_at: float
    holder: str
    duration: float | None
    marked_holder: str | None
    spec: dict[str, Any]
    annotations: dict[str, str]

    @property
    def held_until(self) -> float:
        """Epoch seconds; 0 without a hold."""
        asked = _asked(self.annotations.get(HOLD))
        return 0.0 if asked is None else asked.until

    @property
    def successor(self) -> str:
        """The pod to which this release leaves the Lease; "" for all."""
        asked = _asked(self.annotations.get(SWITCHOVER))
        is_its_own = asked is not None and asked.released == self.spec.get("renewTime")
        return asked.to if asked is not None and is_its_own and not self.holder else ""

    def __str__(self) -> str:
        return (
            f"{self.received_at:.3f} {self.verb} {self.base}->{self.resource_version} by "
            f"{self.writer}: holder {self.holder!r} for {self.duration} marked "
            f"{self.marked_holder!r} renewed {self.spec.get('renewTime')} uid {self.uid[:8]}"
        )


@dataclass(frozen=True)
class _Asked:
    until: float
    to: str
    released: str


def _asked(text: str | None) -> _Asked | None:
    """What an annotation asks for; None for what asks nothing."""
    try:
        found = json.loads(text or "")
        until = rfc3339.parse(found["until"], zone=UTC)
        if len(text or "") > LONGEST_ASKED or until is None or not 0 < len(found["id"]) <= MAX_ID:
            return None
        is_possible = until.year < LAST_YEAR
        asked = _Asked(until.timestamp(), found.get("to", ""), found.get("released", ""))
        return asked if is_possible and isinstance(asked.to, str) else None
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return None


@dataclass(frozen=True)
class Deletion:
    uid: str
    received_at: float


@dataclass(frozen=True)
class Attempt:
    """A write request of an elector, whatever became of it; `status` None: never answered."""

    writer: str
    verb: str
    received_at: float
    status: int | None
    body: dict[str, Any] | None


class History:
    """`events` of one Lease: all stages, in the order of the log."""

    def __init__(self, events: Sequence[AuditEvent]) -> None:
        self.versions: dict[int, Version] = {}
        self.deletions: list[Deletion] = []
        attempts: dict[str, Attempt] = {}
        for event in events:
            if event.verb not in WRITES or event.subresource:
                continue
            if identity := elector_identity(event):
                status = event.status if event.stage == RESPONSE_COMPLETE else None
                attempts[event.audit_id] = Attempt(
                    identity, event.verb, event.received_at, status, event.request_object
                )
            if event.stage == RESPONSE_COMPLETE and event.status in (200, 201):
                self._note(event)
        self.attempts = list(attempts.values())

    def in_order(self) -> list[Version]:
        return [self.versions[version] for version in sorted(self.versions)]

    def before(self, version: Version) -> Version | None:
        """The version that was overwritten, as far as known; None for the first of its uid."""
        if version.base is not None:
            return self.versions.get(version.base)
        older = [
            each.resource_version
            for each in self.versions.values()
            if each.uid == version.uid and each.resource_version < version.resource_version
        ]
        return self.versions[max(older)] if older else None

    def first_alike(self, version: Version) -> Version:
        """The version since which the spec is what it is in `version`."""
        while (older := self.before(version)) is not None and older.spec == version.spec:
            version = older
        return version

    def vacated(self, version: Version) -> tuple[Version, Version | None]:
        """Of a version without a holder: the first one of this vacancy, and the last holder's."""
        while (older := self.before(version)) is not None:
            if older.holder:
                return version, older
            version = older
        return version, None

    def last_held(self, moment: float) -> tuple[Deletion | None, Version | None]:
        """The newest deletion before the moment of a Lease that had had a holder, and that holder's
        last version; Leases that never had one are passed over."""
        oldest: Deletion | None = None
        for deletion in reversed(self.deletions):
            if deletion.received_at >= moment:
                continue
            oldest = deletion
            held = [each for each in self.in_order() if each.uid == deletion.uid and each.holder]
            if held:
                return deletion, held[-1]
        return oldest, None

    def around(self, moment: float, *, before: float, after: float) -> list[str]:
        """What happened from so many seconds before to so many after, one line each."""
        lines = [
            (each.received_at, str(each))
            for each in self.versions.values()
            if -before <= each.received_at - moment <= after
        ]
        lines += [
            (each.received_at, f"{each.received_at:.3f} delete uid {each.uid[:8]}")
            for each in self.deletions
            if -before <= each.received_at - moment <= after
        ]
        lines += [
            (
                each.received_at,
                f"{each.received_at:.3f} {each.verb} by {each.writer}: {each.status}",
            )
            for each in self.attempts
            if -before <= each.received_at - moment <= after and each.status not in (200, 201)
        ]
        return [line for _, line in sorted(lines)]

    def _note(self, event: AuditEvent) -> None:
        body = event.response_object or {}
        if event.verb == "delete":
            uid = body.get("metadata", {}).get("uid") or body.get("details", {}).get("uid", "")
            self.deletions.append(Deletion(uid, event.received_at))
            return
        version = _version(event, body)
        # A write that changes nothing is answered with the version that was there before.
        self.versions.setdefault(version.resource_version, version)


def elector_identity(event: AuditEvent) -> str | None:
    """Whose request it is, if an elector's."""
    found = _ELECTOR.fullmatch(event.user_agent)
    return found["identity"] if found else None


def _version(event: AuditEvent, body: dict[str, Any]) -> Version:
    metadata, spec = body["metadata"], body.get("spec") or {}
    annotations = metadata.get("annotations") or {}
    base = ((event.request_object or {}).get("metadata") or {}).get("resourceVersion")
    duration = spec.get("leaseDurationSeconds")
    return Version(
        uid=metadata["uid"],
        resource_version=int(metadata["resourceVersion"]),
        verb=event.verb,
        writer=elector_identity(event) or event.user_agent,
        base=int(base) if base else None,
        received_at=event.received_at,
        holder=spec.get("holderIdentity") or "",
        duration=float(duration) if duration else None,
        marked_holder=annotations.get(ANNOTATION),
        spec=spec,
        annotations=annotations,
    )
