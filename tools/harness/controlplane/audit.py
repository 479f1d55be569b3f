"""The API server's audit log: what is recorded, and how tests read it.

Guarantees: the log is complete, since kube-apiserver writes it before it answers (its
`blocking` mode); each request is recorded with its answer's status; Lease requests also when
they arrive, and with both bodies, so that one can tell who wrote what and when.
Source of the format: https://kubernetes.io/docs/tasks/debug/debug-cluster/audit/
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict, Unpack

REQUEST_RECEIVED = "RequestReceived"
RESPONSE_STARTED = "ResponseStarted"
RESPONSE_COMPLETE = "ResponseComplete"

POLICY: dict[str, Any] = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "rules": [
        {
            "level": "RequestResponse",
            "resources": [{"group": "coordination.k8s.io", "resources": ["leases"]}],
        },
        {"level": "Metadata", "omitStages": ["RequestReceived"]},
    ],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEvent:
    """One stage of one request. Times are seconds since the epoch, precise to a microsecond;
    texts are empty and `status` is None where the event does not tell."""

    audit_id: str
    stage: str
    verb: str
    user: str
    user_agent: str
    request_uri: str
    api_group: str
    resource: str
    subresource: str
    namespace: str
    name: str
    status: int | None
    received_at: float
    stage_at: float
    request_object: dict[str, Any] | None
    response_object: dict[str, Any] | None


class AuditSelectors(TypedDict, total=False):
    """Which requests are meant: `user_agent` is a prefix; `since` (inclusive) and `until`
    (exclusive) bound `received_at`, in seconds since the epoch; all else must be equal."""

    user_agent: str
    user: str
    verb: str
    resource: str
    namespace: str
    since: float
    until: float


class AuditLog:
    """Reads a growing log file; each line is parsed once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._events: list[AuditEvent] = []

    def events(
        self, *, stage: str | None = None, **selectors: Unpack[AuditSelectors]
    ) -> Sequence[AuditEvent]:
        """The events up to now that match everything given, in the order of the file."""
        self._read_on()
        return [
            event
            for event in self._events
            if (stage is None or event.stage == stage) and is_selected(event, selectors)
        ]

    def _read_on(self) -> None:
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):
                    # Being written just now.
                    break
                self._offset += len(line)
                self._events.append(_parse(json.loads(line)))


def is_selected(event: AuditEvent, selectors: AuditSelectors) -> bool:
    return (
        event.user_agent.startswith(selectors.get("user_agent", ""))
        and event.user == selectors.get("user", event.user)
        and event.verb == selectors.get("verb", event.verb)
        and event.resource == selectors.get("resource", event.resource)
        and event.namespace == selectors.get("namespace", event.namespace)
        and selectors.get("since", event.received_at) <= event.received_at
        and event.received_at < selectors.get("until", math.inf)
    )


def _parse(event: dict[str, Any]) -> AuditEvent:
    reference = event.get("objectRef", {})
    return AuditEvent(
        audit_id=event["auditID"],
        stage=event["stage"],
        verb=event["verb"],
        user=event.get("user", {}).get("username", ""),
        user_agent=event.get("userAgent", ""),
        request_uri=event["requestURI"],
        api_group=reference.get("apiGroup", ""),
        resource=reference.get("resource", ""),
        subresource=reference.get("subresource", ""),
        namespace=reference.get("namespace", ""),
        name=reference.get("name", ""),
        status=event.get("responseStatus", {}).get("code"),
        received_at=_seconds(event["requestReceivedTimestamp"]),
        stage_at=_seconds(event["stageTimestamp"]),
        request_object=event.get("requestObject"),
        response_object=event.get("responseObject"),
    )


def _seconds(timestamp: str) -> float:
    return datetime.datetime.fromisoformat(timestamp).timestamp()
