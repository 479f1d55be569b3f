"""Which Leases to list, to watch and to read by name, and when.

Owns the one watch by label that all members' Leases and the table come by, and reads of single
ones that it cannot answer. Pure. Guarantees: versions arrive in order, so that an event tells that
everything older has arrived; what fails is tried again after a second at the soonest, and ever
later if it is refused.
"""

import math
from dataclasses import dataclass

from elector_sidecar.core.lease_watch import STANDBY_RETRY
from elector_sidecar.core.timing import RETRY_DELAY
from elector_sidecar.shards.pace import Pace

# A watch that ends sooner, without an event, is as good as refused. Seconds.
SHORT_WATCH = 5.0
# So long nothing is heard of members that come and go, after a watch that was refused. Seconds.
LONGEST_WATCHLESS = 8.0


@dataclass(frozen=True)
class ListLeases:
    """A quorum list by label (no resourceVersion)."""

    id: int
    sent_at: float


@dataclass(frozen=True)
class WatchLeases:
    """Watch by label from here; ends the watch before it."""

    id: int
    resource_version: int


@dataclass(frozen=True)
class ReadNamed:
    """A quorum read of one Lease (no resourceVersion)."""

    id: int
    name: str
    sent_at: float


StreamCommand = ListLeases | WatchLeases | ReadNamed


class LeaseStream:
    def __init__(self, now: float) -> None:
        # Up to which version everything has arrived.
        self.version = 0
        self._last_id = 0
        self._list_at = now
        self._listing: ListLeases | None = None
        self._watch_at = math.inf
        self._watch_id: int | None = None
        self._opened_at = now
        self._has_event = False
        self._list_pace = Pace(STANDBY_RETRY)
        self._watch_pace = Pace(STANDBY_RETRY, longest=LONGEST_WATCHLESS)
        self._read_paces: dict[str, Pace] = {}
        self._wanted: dict[str, float] = {}
        self._reading: dict[int, ReadNamed] = {}

    @property
    def is_open(self) -> bool:
        return self._watch_id is not None

    def is_asking(self, name: str) -> bool:
        """Whether what is known of this Lease is in doubt."""
        return name in self._wanted or any(it.name == name for it in self._reading.values())

    def due(self, now: float) -> list[StreamCommand]:
        commands: list[StreamCommand] = []
        if self._listing is None and now >= self._list_at:
            self._listing = ListLeases(self._next_id(), now)
            self._list_at = math.inf
            commands.append(self._listing)
        if self._listing is None and now >= self._watch_at:
            self._watch_id, self._watch_at = self._next_id(), math.inf
            self._opened_at, self._has_event = now, False
            commands.append(WatchLeases(self._watch_id, self.version))
        open_reads = {it.name for it in self._reading.values()}
        for name in [n for n, at in self._wanted.items() if now >= at and n not in open_reads]:
            del self._wanted[name]
            read = ReadNamed(self._next_id(), name, now)
            self._reading[read.id] = read
            commands.append(read)
        return commands

    def wake_at(self) -> float:
        return min(self._list_at, self._watch_at, *self._wanted.values(), math.inf)

    # ── list and watch ──

    def distrust(self, now: float) -> None:
        """It is too silent to be believed: everything is listed anew."""
        self._watch_id, self._watch_at = None, math.inf
        at = max(now, self._opened_at + STANDBY_RETRY, self._list_pace.not_before)
        self._list_at = min(self._list_at, at)

    def listed(self, list_id: int, now: float, version: int) -> ListLeases | None:
        """The list that was answered; None if it is not waited for."""
        listing = self._listing
        if listing is None or listing.id != list_id:
            return None
        self._listing = None
        self._list_pace.succeeded()
        self.version = max(self.version, version)
        self._watch_at = max(now, self._watch_pace.not_before)
        return listing

    def list_again(self, at: float) -> None:
        """What the last list showed is not believed yet."""
        self._watch_id, self._watch_at = None, math.inf
        self._list_at = at

    def begin_anew(self, version: int) -> None:
        """Everything as of this version has arrived; all before is of a history that is lost."""
        self.version = version
        self._wanted.clear()
        self._reading.clear()

    def list_failed(
        self, list_id: int, now: float, *, is_refused: bool, retry_after: float | None
    ) -> None:
        if self._listing is not None and self._listing.id == list_id:
            self._listing = None
            self._list_pace.failed(now, is_refused=is_refused, retry_after=retry_after)
            self._list_at = self._list_pace.not_before

    def is_watched_by(self, watch_id: int) -> bool:
        return watch_id == self._watch_id

    def heard(self, version: int) -> None:
        self._has_event = True
        self.version = max(self.version, version)

    def watch_ended(self, watch_id: int, now: float, *, is_orderly: bool) -> bool:
        """Whether it was the present one. An orderly end is resumed, anything else listed anew."""
        if not self.is_watched_by(watch_id):
            return False
        self._watch_id = None
        if self._has_event or now >= self._opened_at + SHORT_WATCH:
            self._watch_pace.succeeded()
        else:
            self._watch_pace.failed(now, is_refused=True)
        again_at = max(now, self._opened_at + STANDBY_RETRY, self._watch_pace.not_before)
        if is_orderly:
            self._watch_at = again_at
        else:
            self._list_at = again_at
        return True

    # ── reads by name ──

    def want(self, name: str, at: float) -> None:
        """Read it then, unless its reads fail."""
        pace = self._read_paces.get(name)
        at = max(at, pace.not_before) if pace else at
        self._wanted[name] = min(at, self._wanted.get(name, math.inf))

    def drop_wish(self, name: str) -> None:
        """What was wanted came otherwise."""
        self._wanted.pop(name, None)

    def read_answered(self, read_id: int) -> ReadNamed | None:
        """The read that was answered; None if it is not waited for."""
        read = self._reading.pop(read_id, None)
        if read is not None:
            self._read_paces.pop(read.name, None)
        return read

    def read_failed(
        self, read_id: int, now: float, *, is_refused: bool, retry_after: float | None
    ) -> None:
        """It is tried again."""
        read = self._reading.pop(read_id, None)
        if read is not None:
            pace = self._read_paces.setdefault(read.name, Pace(2 * RETRY_DELAY))
            pace.failed(now, is_refused=is_refused, retry_after=retry_after)
            self.want(read.name, pace.not_before)

    def _next_id(self) -> int:
        self._last_id += 1
        return self._last_id
