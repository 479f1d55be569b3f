"""What is answered about the election at one moment: the /leader document and the reason in words.

Pure: computed from an `ElectionView`, a `LifecyclePlan` and `now` in the request that asks (P2),
never stored.
"""

import json
import math
from dataclasses import dataclass
from typing import Any

from elector_sidecar.config.config import Config
from elector_sidecar.core.candidacy import ElectionView
from elector_sidecar.core.lease import pod_name
from elector_sidecar.core.lifecycle import LifecyclePlan


@dataclass(frozen=True)
class ElectorStatus:
    """Times in seconds; `valid_until` on CLOCK_BOOTTIME."""

    now: float
    role: str
    identity: str
    holder: str
    namespace: str
    name: str
    is_eligible: bool
    reason: str
    view: ElectionView

    @property
    def is_leader(self) -> bool:
        return self.view.is_leader

    @property
    def remaining(self) -> float:
        return max(self.view.valid_until - self.now, 0.0) if self.view.valid_until else 0.0

    @property
    def term_seconds(self) -> float | None:
        return None if self.view.started_at is None else self.now - self.view.started_at

    def is_same_state(self, other: "ElectorStatus") -> bool:
        """Whether nothing changed that anybody waits for (times only run on)."""
        return _state(self) == _state(other)

    def document(self) -> dict[str, Any]:
        view = self.view
        contact = None if view.last_contact is None else self.now - view.last_contact
        return {
            "isLeader": view.is_leader,
            "role": self.role,
            "identity": self.identity,
            "holder": self.holder,
            "holderPod": pod_name(self.holder),
            "lease": {"namespace": self.namespace, "name": self.name},
            "validUntil": view.valid_until,
            "remainingSeconds": round(self.remaining, 3),
            "termSeconds": None if self.term_seconds is None else round(self.term_seconds, 3),
            "acquireTime": view.acquire_time,
            "renewTime": view.renew_time,
            "leaseTransitions": view.lease_transitions,
            "fencingToken": view.fencing_token,
            "lastContactSeconds": None if contact is None else round(contact, 3),
            "reason": self.reason,
        }

    def json(self) -> bytes:
        return json.dumps(self.document(), separators=(",", ":")).encode()


def describe(
    view: ElectionView,
    *,
    now: float,
    identity: str,
    config: Config,
    plan: LifecyclePlan,
    is_open: bool,
    refusal: str = "",
) -> ElectorStatus:
    """`refusal`: what the API server forbids this candidate, in words."""
    follows = "standby" if view.is_contending else "pending"
    reason = plan.reason or _reason(view, now)
    if refusal:
        # Who is refused has been in contact.
        is_all = view.last_contact is None and not plan.reason
        reason = refusal if is_all else f"{reason}; {refusal}"
    return ElectorStatus(
        now=now,
        role="leader" if view.is_leader else follows,
        identity=identity,
        holder=view.holder,
        namespace=config.namespace,
        name=config.lease,
        is_eligible=is_open and view.last_contact is not None,
        reason=reason,
        view=view,
    )


def _reason(view: ElectionView, now: float) -> str:
    if view.is_leader:
        return "holds the Lease"
    if view.last_contact is None:
        return "no contact with the API server yet"
    if view.strategy is not None and not view.is_lapsed:
        return f"the Lease has spec.strategy {view.strategy}: the API server chooses the holder"
    if view.is_lapsed:
        return "holds the Lease, but no renewal was acknowledged in time"
    wait = view.free_at - now
    left = f"; free in {wait:.1f}s unless renewed" if 0 < wait < math.inf else ""
    if view.held_back_until > now:
        return f"a hold keeps every elector out for another {view.held_back_until - now:.0f}s"
    if view.is_missing:
        return f"the Lease does not exist{left}"
    if view.was_missing and left:
        return f"the Lease did not exist, and a leader that is cut off may still act{left}"
    if view.holder:
        return f"held by {view.holder}"
    return f"no pod holds the Lease{left}"


def _state(status: ElectorStatus) -> tuple[object, ...]:
    view = status.view
    return (
        status.role,
        status.holder,
        view.fencing_token,
        view.acquire_time,
        view.lease_transitions,
        view.is_missing,
        status.is_eligible,
    )
