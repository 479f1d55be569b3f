"""When the next write may be sent, as far as writes before it decide that.

Pure. Guarantees: one that failed is followed by the next after `RETRY_DELAY` at the soonest; an
unanswered one gets a second attempt beside it, never a third; a version on which a write was
refused is never written on again (P4).
"""

import math

from elector_sidecar.core.commands import WriteLease
from elector_sidecar.core.timing import (
    HEDGE_DELAY,
    RETRY_AFTER_LIMIT,
    RETRY_DELAY,
    TAKEOVER_JITTER,
)

# So many conflicts in a row are answered at once; then each costs a retry delay.
CONFLICTS_AT_ONCE = 3


class WriteSchedule:
    def __init__(self) -> None:
        self._not_before = -math.inf
        self._sent_at = -math.inf
        self._refused_version: int | None = None
        self._conflicts = 0
        self._jitter: float | None = None

    @property
    def jitter(self) -> float:
        """Seconds by which this candidate comes later than another for the same vacancy."""
        return self._jitter or 0.0

    def draw_jitter(self, chance: float) -> None:
        """Once for each vacancy: drawn at every look, the shortest one would win in the end."""
        if self._jitter is None:
            self._jitter = chance * TAKEOVER_JITTER

    def renew_jitter(self) -> None:
        """The next vacancy is another: who lost this one by its jitter may win that one."""
        self._jitter = None

    def due(self, version: int, permitted_at: float, open_writes: list[WriteLease]) -> float:
        """When to write on this version of the record; `open_writes` are those that could still
        apply to it."""
        if self._refused_version == version:
            return math.inf
        due = max(self._not_before, permitted_at)
        match open_writes:
            case []:
                return due
            case [one]:
                return max(due, one.sent_at + HEDGE_DELAY)
            case _:
                return math.inf

    def sent(self, now: float) -> None:
        self._sent_at = now

    def set_due(self, at: float) -> None:
        self._not_before = at

    def set_due_at_once(self) -> None:
        self._not_before = -math.inf

    def put_off(self, until: float) -> None:
        self._not_before = max(self._not_before, until)

    def repair(self, now: float) -> None:
        """Somebody edited what followers depend on: restored at once, but an endless duel with
        another writer costs no more than any failure."""
        self._not_before = max(now, self._sent_at + RETRY_DELAY)

    def failed(self, now: float, retry_after: float | None) -> None:
        self._not_before = now + delay(retry_after, RETRY_DELAY)

    def conflicted(self, now: float, version: int) -> None:
        self._conflicts += 1
        self._refused_version = version
        self.renew_jitter()
        if self._conflicts > CONFLICTS_AT_ONCE:
            self._not_before = now + RETRY_DELAY

    def succeeded(self) -> None:
        self._conflicts = 0

    def allow_again(self, version: int | None = None) -> None:
        """The record was looked at anew, or (without a version) is another one."""
        if version is None or self._refused_version == version:
            self._refused_version = None


def delay(retry_after: float | None, default: float) -> float:
    """Seconds; the server's Retry-After within limits, because the lead does not wait for it."""
    if retry_after is None:
        return default
    return min(max(retry_after, RETRY_DELAY), RETRY_AFTER_LIMIT)
