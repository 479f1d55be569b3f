"""How one candidate looks at its Lease: quorum reads, and one watch that wakes it.

Owns which reads are under way, the newest version seen, and when a watch is too silent to be
believed. Pure. Guarantees: at most two reads at a time; no answer or event that is older than
something seen counts as news; while its watch works, nothing is read (P8).
"""

import math
from dataclasses import dataclass

from elector_sidecar.core.timing import HEDGE_DELAY

# Contract P8: so many renewal periods without an event, and the watch is not believed any more.
SILENT_PERIODS = 2.5
# A standby that cannot read, or whose watch was cut, tries again after this.
STANDBY_RETRY = 1.0
# A free Lease is not renewed, so silence says little; still the watch is checked so often.
IDLE_PERIOD = 120.0


@dataclass(frozen=True)
class ReadLease:
    """A quorum read of the Lease (no resourceVersion)."""

    id: int
    sent_at: float


@dataclass(frozen=True)
class WatchLease:
    """Watch the Lease from here (None: from its present state); ends the watch before it."""

    id: int
    resource_version: int | None


class LeaseWatch:
    def __init__(self, now: float, *, is_shared: bool = False) -> None:
        self._is_shared = is_shared
        self.newest = 0
        self._newest_at = -math.inf
        self._reads: dict[int, ReadLease] = {}
        self._read_at = now
        self._watch_id: int | None = None
        self._watch_at = now
        self._watch_started_at = now
        self._heard_at = now
        self._gap = 0.0
        # The version to resume from may be too old for the server; its present state never is.
        self._is_cursor_good = True
        self._is_continuous = False

    # ── reads ──

    @property
    def wants_read(self) -> bool:
        return self._read_at < math.inf

    def want_read(self, at: float) -> None:
        self._read_at = min(self._read_at, at)

    def has_read(self) -> None:
        """What was wanted is known."""
        self._read_at = math.inf

    def read_due(self) -> float:
        match list(self._reads.values()):
            case []:
                return self._read_at
            case [one]:
                return max(self._read_at, one.sent_at + HEDGE_DELAY)
            case _:
                return math.inf

    def start_read(self, read_id: int, now: float) -> ReadLease:
        read = self._reads[read_id] = ReadLease(read_id, now)
        return read

    def end_read(self, read_id: int) -> ReadLease | None:
        return self._reads.pop(read_id, None)

    def delay_read(self, until: float) -> None:
        """A read failed: the next one, if one is wanted, not before `until`."""
        if self.wants_read:
            self._read_at = max(self._read_at, until)

    def is_overtaken(self, read: ReadLease, version: int | None) -> bool:
        """Something newer was seen since it was sent; `version` None: it found no Lease."""
        return self._newest_at >= read.sent_at and (version is None or version < self.newest)

    # ── versions ──

    def note_version(self, now: float, version: int) -> bool:
        """The newest one from now on; True if it is news."""
        is_news = version != self.newest
        self.newest, self._newest_at = version, now
        return is_news

    # ── the watch ──

    @property
    def is_watching(self) -> bool:
        return self._watch_id is not None

    def is_watched_by(self, watch_id: int) -> bool:
        return watch_id == self._watch_id

    def watch_due(self) -> float:
        return math.inf if self.is_watching else self._watch_at

    def start_watch(self, watch_id: int, now: float, *, exists: bool) -> WatchLease:
        is_resumed = exists and self._is_cursor_good and not self._is_shared
        resource_version = self.newest if is_resumed else None
        self._is_continuous = resource_version is not None
        self._watch_id = watch_id
        self._watch_started_at = now
        return WatchLease(watch_id, resource_version)

    def heard(self, now: float) -> bool:
        """An event came; True if no version is missing between it and what was known before.

        A watch from the present state begins anywhere.
        """
        self._heard_at = now
        was_continuous, self._is_continuous = self._is_continuous, True
        return was_continuous

    def note_gap(self, now: float, *, limit: float) -> None:
        """An event came: holders that renew more slowly than we do are heard more rarely."""
        self._gap = min(now - self._last_sign(), limit)

    def silence_due(self, renew_interval: float | None) -> float:
        """When the watch is silent for too long; None: the Lease has no holder."""
        if not self.is_watching:
            return math.inf
        if renew_interval is None:
            return self._last_sign() + IDLE_PERIOD
        return self._last_sign() + SILENT_PERIODS * max(renew_interval, self._gap)

    def distrust_watch(self, now: float) -> None:
        self._watch_id = None
        self._heard_at = now
        self.want_read(now)

    def end_watch(self, now: float, *, is_orderly: bool, pause: float) -> float:
        """When the next one may be opened: one that ends at once is not opened again for `pause`
        seconds."""
        self._watch_id = None
        self._is_cursor_good = is_orderly
        was_short = now - self._watch_started_at < STANDBY_RETRY
        self._watch_at = now + (pause if was_short else 0.0)
        return self._watch_at

    def _last_sign(self) -> float:
        return max(self._heard_at, self._watch_started_at)
