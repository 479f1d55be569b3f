"""What a lender gives: connections, and bytes a second of each borrower; handshakes a second. Pure.

Guarantees: no borrower takes another one's share; over all connections of a borrower together no
more than the burst passes at once, nor more than the rate for long. What is refused costs nothing.
Times are seconds, and come in.
"""

from collections import Counter
from dataclasses import dataclass

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True, slots=True)
class LendingLimits:
    """`rate` in bytes a second, `burst` in bytes."""

    rate: int = 64 * KIB
    burst: int = MIB
    # With some ten pods, the relays of a node that kubelet goes through have 25 streams, a watch
    # for each ConfigMap and Secret among them; and there are writes beside them.
    connections: int = 64
    all_connections: int = 256

    @property
    def piece(self) -> int:
        """Bytes that each direction of a connection may have in the lender's hands. All that a
        borrower may have there pass within 2 s, so that a heartbeat, which is one piece or two,
        does not outlive its node by more than that budget (pool.md 1, N2)."""
        return max(self.rate // self.connections, 1)


class _Bucket:
    def __init__(self, limits: LendingLimits, now: float) -> None:
        self._limits = limits
        self._tokens = float(limits.burst)
        self._at = now

    def spend(self, size: int, now: float) -> float:
        passed = max(now - self._at, 0.0)
        self._at = now
        self._tokens = min(self._tokens + passed * self._limits.rate, self._limits.burst) - size
        return max(-self._tokens / self._limits.rate, 0.0)

    def holds(self, size: int, now: float) -> bool:
        """Whether so many may be spent without a wait."""
        return self.spend(0, now) == 0.0 and self._tokens >= size

    def is_full(self, now: float) -> bool:
        passed = max(now - self._at, 0.0)
        return self._tokens + passed * self._limits.rate >= self._limits.burst


class Budget:
    def __init__(self, limits: LendingLimits) -> None:
        self._limits = limits
        self._open: Counter[str] = Counter()
        self._buckets: dict[str, _Bucket] = {}

    @property
    def borrowers(self) -> dict[str, int]:
        """Each with its open connections."""
        return dict(self._open)

    def admit(self, borrower: str, now: float) -> bool:
        """Whether it gets one more connection, which `released` gives back."""
        is_full = self._open.total() >= self._limits.all_connections
        if is_full or self._open[borrower] >= self._limits.connections:
            self._open += Counter()  # without those that have none
            return False
        self._open[borrower] += 1
        if borrower not in self._buckets:
            self._buckets[borrower] = _Bucket(self._limits, now)
        return True

    def released(self, borrower: str, now: float) -> None:
        self._open[borrower] -= 1
        self._open += Counter()
        # A borrower that comes again at once does not get a new burst.
        self._buckets = {
            name: it
            for name, it in self._buckets.items()
            if name in self._open or not it.is_full(now)
        }

    def spend(self, borrower: str, size: int, now: float) -> float:
        """Seconds to wait until so many bytes more may pass."""
        return self._buckets[borrower].spend(size, now)


class Rate:
    """So many a second of each name, after a burst."""

    def __init__(self, rate: int, burst: int) -> None:
        self._limits = LendingLimits(rate=rate, burst=burst)
        self._buckets: dict[str, _Bucket] = {}

    def takes(self, name: str, now: float) -> bool:
        """Whether one more is let in, which counts then."""
        bucket = self._buckets.setdefault(name, _Bucket(self._limits, now))
        return bucket.holds(1, now) and bucket.spend(1, now) == 0.0

    def forget(self, now: float) -> None:
        """Those of which nothing has counted for long."""
        self._buckets = {name: it for name, it in self._buckets.items() if not it.is_full(now)}
