"""For how long the machine has run, and for how long of that without an answer of upstream.

No wall clock takes part: anybody may set it, and a node without a battery begins in 1970.
Guarantees: time that the machine was on counts, whether this process ran or not, suspend included;
time without power does not. What `record` gave, given to the next life, goes on counting from
there; what was not recorded before the power went is lost. `now` is a boot clock, `boot_id` the run
of the machine to which it belongs.
"""

from __future__ import annotations

import msgspec


class _ClockRecord(msgspec.Struct, array_like=True):
    boot_id: str
    boottime: float
    running: float
    contact_at: float


_DECODER = msgspec.json.Decoder(_ClockRecord)


class OfflineClock:
    """Seconds; `is_new` where no earlier life left a readable record."""

    def __init__(self, *, boot_id: str, now: float, saved: bytes | None = None) -> None:
        self._boot_id = boot_id
        self._begun_at = now
        self._running = self._contact_at = 0.0
        found = None if saved is None else _decoded(saved)
        self.is_new = found is None
        if found is not None:
            is_same_boot = found.boot_id == boot_id and now >= found.boottime
            self._running = found.running + (now - found.boottime if is_same_boot else now)
            self._contact_at = min(found.contact_at, self._running)

    @property
    def contact_at(self) -> float:
        """When upstream answered last, as `read` counts."""
        return self._contact_at

    def read(self, now: float) -> float:
        """Seconds for which the machine has run since the first life began."""
        return self._running + max(now - self._begun_at, 0.0)

    def contact(self, now: float) -> None:
        """Upstream answered then; what was before this life is in the record of the earlier."""
        if now >= self._begun_at:
            self._contact_at = max(self._contact_at, self.read(now))

    def without_contact(self, now: float) -> float:
        return self.read(now) - self._contact_at

    def record(self, now: float) -> bytes:
        return msgspec.json.encode(
            _ClockRecord(self._boot_id, now, self.read(now), self._contact_at)
        )


def _decoded(saved: bytes) -> _ClockRecord | None:
    try:
        found = _DECODER.decode(saved)
    except msgspec.MsgspecError:
        return None
    is_sane = min(found.boottime, found.running, found.contact_at) >= 0.0
    return found if is_sane else None
