"""May this process go on where its predecessor, an elector of the same pod that died, was?

Pure. The proof that the predecessor is dead is the listening address: this process has bound it,
so that no other process answers there (P11). It is taken only from a record that is

- marked as ours, and says that its holder answered at this very address of this very pod;
- younger than its validity by the clock of this machine since its boot. No other can have led
  since, not even in a history that a restore of etcd took away;
- not of a process that resumed itself a moment ago: an elector that crashes again and again must
  not keep the lead to itself.
"""

from dataclasses import dataclass

from elector_sidecar.core.lease import ANSWERS_AT_ANNOTATION, RESUMED_ANNOTATION, Lease
from elector_sidecar.core.timing import Timing

# Seconds between two resumptions at least; two lease durations where those are longer.
MIN_INTERVAL = 60.0


@dataclass(frozen=True)
class AnswersAt:
    """Where the main asks this process. `pod_uid`: a StatefulSet may have two pods of one name on
    two nodes; `boot_id`: of the machine, to which the clock belongs; `address`: bound by this
    process before the Lease was read."""

    pod_uid: str
    address: str
    boot_id: str

    def annotation(self, holder: str, now: float) -> str:
        """Of a write by which `holder` leads, sent at `now` (CLOCK_BOOTTIME)."""
        return f"{self.pod_uid} {self.address} {self.boot_id} {now:.3f} {holder}"

    def why_not(self, lease: Lease, now: float, *, wall: float, timing: Timing) -> str | None:
        """Returns "" if the Lease may be taken at once, and None for a record of another pod."""
        text = lease.annotation(ANSWERS_AT_ANNOTATION)
        pod_uid, _, rest = (text or "").partition(" ")
        if not lease.is_marked or pod_uid != self.pod_uid:
            return None
        address, _, clock = rest.partition(" ")
        if address != self.address:
            return f"the one before answered at {address}, this one answers at {self.address}"
        boot_id, _, clock = clock.partition(" ")
        sent, _, holder = clock.partition(" ")
        if holder != lease.spec.holder_identity:
            return None  # of a holder before, kept by an elector that does not know it
        age = now - _number(sent) if boot_id == self.boot_id else timing.validity
        if not 0 <= age < timing.validity:
            return "the one before was not heard for so long that another pod may have led"
        since = abs(wall - _number(lease.annotation(RESUMED_ANNOTATION) or ""))
        if since < self.interval(timing):
            return f"this pod resumed {since:.0f}s ago"
        return ""

    @staticmethod
    def interval(timing: Timing) -> float:
        return max(MIN_INTERVAL, 2 * timing.lease_duration)


def sent_at(lease: Lease) -> float:
    """When its holder sent the write that made it, by the clock of that machine; -inf if it does
    not say so."""
    words = (lease.annotation(ANSWERS_AT_ANNOTATION) or "").split(" ", 4)
    return _number(words[3]) if len(words) == 5 else float("-inf")


def _number(text: str) -> float:
    """-inf for what is none."""
    try:
        found = float(text)
    except ValueError:
        return float("-inf")
    return found if found == found else float("-inf")
