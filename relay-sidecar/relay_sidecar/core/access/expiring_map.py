"""Facts by key, each with the moment at which it was learnt: bounded, and kept for the next life.

Guarantees: never more than `limit` facts, the oldest go first; what `take_unkept` gave over time,
given to `restore`, makes the same ledger, but that what was confirmed without a change may be
older by up to a `KEEPS_PER_LIFE`th of `life`. `now` is a clock that goes on from life to life
(`offline_clock`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

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
