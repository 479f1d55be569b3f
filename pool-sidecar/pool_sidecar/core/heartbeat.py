"""When to look at the node's own Lease, and when to write it. Pure.

Guarantees: nothing is written unless kubelet answered within the last `HEALTHY_FOR` seconds;
`renewTime` never goes back; what kubelet keeps fresh is only read, so that two writers of one node
do not compete. Times are seconds of one clock, and come in; `wall` is microseconds of this node's
wall clock, by which kubelet stamps too.
"""

from dataclasses import dataclass
from typing import Any, Final

from edge_sidecars.runtime.backoff import exponential
from edge_sidecars.runtime.formats import rfc3339

MICRO: Final = 1_000_000
# Seconds; kubelet renews as often (nodeLeaseDurationSeconds 40, a quarter of it).
LOOK_EVERY: Final = 10.0
# Seconds; one that is older by this node's clock, kubelet did not renew in its turn.
STALE: Final = 8.0
# Seconds of age by which kubelet has renewed in its turn, if it can: 10, and 4% of chance.
IN_TURN: Final = 11.0
# Seconds by which one may be ahead of this node's clock: one that is further was written before the
# clock was set back, and tells nothing of its age.
AHEAD: Final = 1.0
# Seconds after the own link changed: kubelet's HTTP/2 may need 45 to drop a dead connection.
FOLLOW_UP: Final = 60.0
# Seconds for which kubelet's /healthz counts.
HEALTHY_FOR: Final = 2.0
# Seconds after a look that failed, and between two looks however often the link changes; twice as
# many each time that the API server refuses, up to LOOK_EVERY.
RETRY: Final = 2.0


class UnusableLease(ValueError):
    """The Lease is not what kubelet writes."""


@dataclass(frozen=True, slots=True)
class LeaseSeen:
    """`renewed`: its renewTime in microseconds."""

    resource_version: str
    renewed: int


class Heartbeat:
    def __init__(self) -> None:
        self._due = 0.0
        self._looked_at = -RETRY
        self._refusals = 0
        self._changed_at: float | None = None
        self._was_up: bool | None = None
        self._last: LeaseSeen | None = None
        # When its renewTime was first seen.
        self._last_since = 0.0

    def link_observed(self, *, is_up: bool, now: float) -> None:
        """Each second. A start counts as a change only where the link is down."""
        if is_up is not self._was_up and (self._was_up is not None or not is_up):
            self._changed_at = now
            self._due = max(now, min(self._due, self._looked_at + RETRY))
        self._was_up = is_up

    def is_active(self, now: float) -> bool:
        """Whether the Lease is looked at at all."""
        if self._was_up is None:
            return False
        return not self._was_up or (
            self._changed_at is not None and now - self._changed_at <= FOLLOW_UP
        )

    def is_due(self, now: float) -> bool:
        return self.is_active(now) and now >= self._due

    def began(self, now: float) -> None:
        """A look begins."""
        self._looked_at = now
        self._due = now + LOOK_EVERY

    def succeeded(self) -> None:
        """The look, and the write where there was one."""
        self._refusals = 0

    def failed(self, now: float, *, is_refused: bool) -> None:
        """The next one comes sooner. `is_refused`: the API server answered."""
        delay = exponential(self._refusals, first=RETRY, longest=LOOK_EVERY)
        self._refusals = self._refusals + 1 if is_refused else 0
        self._due = min(self._due, now + (delay if is_refused else RETRY))

    def lender_changed(self, now: float) -> None:
        """What failed over the one before is tried over this one at once."""
        self._due = min(self._due, now)

    def renewal(
        self, lease: LeaseSeen, *, wall: int, now: float, healthy_at: float | None
    ) -> int | None:
        """The renewTime to write, in microseconds; None: nothing is to be written."""
        last, self._last = self._last, lease
        if last is None or last.renewed != lease.renewed:
            self._last_since = now
        age = (wall - lease.renewed) / MICRO
        is_stale = age > STALE or age < -AHEAD
        # Two looks may come soon after each other.
        is_unchanged = now - self._last_since > STALE
        is_healthy = healthy_at is not None and 0 <= now - healthy_at <= HEALTHY_FOR
        if not (is_stale or is_unchanged):
            # It may have been kubelet's last one: that shows before the next look is due.
            self._due = min(self._due, now + max(IN_TURN - age, RETRY))
            return None
        return max(wall, lease.renewed + 1) if is_healthy else None


def seen(lease: Any) -> LeaseSeen:
    """Of a Lease as the API has it. Raises `UnusableLease`."""
    match lease:
        case {
            "metadata": {"resourceVersion": str(version)},
            "spec": {"renewTime": str(renewed)},
        }:
            return LeaseSeen(version, _micros(renewed))
    raise UnusableLease("a Lease without a resourceVersion or a renewTime")


def _micros(text: str) -> int:
    moment = rfc3339.parse(text)
    if moment is None:
        raise UnusableLease(f"renewTime {text!r:.80} is no time with a zone")
    return rfc3339.micros(moment)
