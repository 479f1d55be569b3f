"""The gate on the health of the main: is it well enough to lead?

Pure. Guarantee: one refused connection or one failed check closes nothing; a main that nobody
listens for any more is gone, which alone proves that its work has ended (P6).
"""

import math
from enum import Enum

# One refused connection may be a restart of a listener between two calls; two in a row are not.
REFUSALS = 2


class Health(Enum):
    OK = "ok"
    FAILING = "failing"  # answered, but not 2xx
    HUNG = "hung"  # no answer in time
    REFUSED = "refused"  # connection refused: nobody listens


class HealthGate:
    """Without a health URL (`is_used` False) it is always open."""

    def __init__(self, *, is_used: bool, failures: int, patience: float, pause: float, now: float):
        self._failures_limit = failures
        # Seconds that the Lease is free before a failing main is tried, and between two tries.
        self._patience = patience
        self._pause = pause
        self._failures = 0
        self._refusals = 0
        self._closed_at = now
        self._probation_at = -math.inf
        self.health: Health | None = None
        self.is_open = not is_used

    @property
    def is_main_gone(self) -> bool:
        return self._refusals >= REFUSALS

    def checked(self, now: float, health: Health) -> None:
        self.health = health
        self._refusals = self._refusals + 1 if health is Health.REFUSED else 0
        if health is Health.OK:
            self._failures = 0
            self.is_open = True
            return
        self._failures += 1
        if self.is_main_gone or self._failures >= self._failures_limit:
            if self.is_open:
                self._closed_at = now
            self.is_open = False

    def is_probation_due(self, now: float, *, free_since: float | None) -> bool:
        """A main that is healthy only when leading would otherwise never lead: once in `pause`
        it may contend while it fails, if the Lease was free for so long that no other pod can."""
        if self.health is not Health.FAILING or free_since is None:
            return False
        waited = now - max(free_since, self._closed_at)
        return waited >= self._patience and now - self._probation_at >= self._pause

    def begin_probation(self, now: float) -> None:
        self._probation_at = now
