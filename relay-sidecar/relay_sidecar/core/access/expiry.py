"""Facts that expire by running time: the clock that counts it, and a bounded map.

No wall clock takes part: a node without a battery begins in 1970. Time counts while the machine is
on, suspend included, also while this process does not run; time without power does not. Guarantees:
What `record` or `take_unkept` gave continues in the next life when it is given back. A map never
holds more than `limit` facts, and the oldest go first. What was confirmed without a change may be
older by a `KEEPS_PER_LIFE`th of `life`. `now` is a boot clock, `boot_id` the machine's run.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

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


# What is confirmed all the time is written so often in the course of a life: flash wears out.
KEEPS_PER_LIFE = 48

F = TypeVar("F")


@dataclass(frozen=True, slots=True)
class ExpiringEntry(Generic[F]):
    """`kept_at`: when it was last due to be written."""

    fact: F
    at: float
    kept_at: float


class ExpiringMap(Generic[F]):
    """Facts of one dataclass, `life` seconds each."""

    def __init__(self, fact_type: type[F], *, life: float, limit: int) -> None:
        self._decoder = msgspec.json.Decoder(tuple[float, fact_type])  # type: ignore[valid-type]
        self._life = life
        self._limit = limit
        # In the order in which they were learnt.
        self._entries: OrderedDict[str, ExpiringEntry[F]] = OrderedDict()
        self._unkept: set[str] = set()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: str) -> ExpiringEntry[F] | None:
        return self._entries.get(key)

    def learn(self, key: str, fact: F, *, now: float) -> None:
        known = self._entries.get(key)
        is_due = (
            known is None
            or known.fact != fact
            or now - known.kept_at >= self._life / KEEPS_PER_LIFE
        )
        kept_at = now if known is None or is_due else known.kept_at
        if is_due:
            self._unkept.add(key)
        self._entries[key] = ExpiringEntry(fact, now, kept_at)
        self._entries.move_to_end(key)
        while len(self._entries) > self._limit:
            self.forget(next(iter(self._entries)))

    def forget(self, key: str) -> None:
        if self._entries.pop(key, None) is not None:
            self._unkept.add(key)

    def take_unkept(self, *, now: float) -> dict[str, bytes | None]:
        """What is to be written since the last time; None is to be deleted."""
        while self._entries:
            key, oldest = next(iter(self._entries.items()))
            if now - oldest.at < self._life:
                break
            self.forget(key)
        unkept, self._unkept = self._unkept, set()
        return {key: self._written(key) for key in unkept}

    def snapshot(self) -> dict[str, bytes]:
        """All that is to be kept, as if nothing had been written yet."""
        self._unkept.clear()
        return {key: _encoded(entry) for key, entry in self._entries.items()}

    def restore(self, kept: Mapping[str, bytes], *, now: float) -> None:
        """Leaves out what cannot be read: it is learnt again. What was learnt after the clock was
        kept for the last time is taken for new."""
        found: list[tuple[float, str, F]] = []
        for key, written in kept.items():
            try:
                learnt_at, fact = self._decoder.decode(written)
            except msgspec.MsgspecError:
                continue
            found.append((min(learnt_at, now), key, fact))
        for at, key, fact in sorted(found, key=lambda each: each[0])[-self._limit :]:
            self._entries[key] = ExpiringEntry(fact, at, at)

    def _written(self, key: str) -> bytes | None:
        entry = self._entries.get(key)
        return None if entry is None else _encoded(entry)


def _encoded(entry: ExpiringEntry[F]) -> bytes:
    return msgspec.json.encode((entry.at, entry.fact))
