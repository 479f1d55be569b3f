"""When what was told and acknowledged is told again, because it came to nothing.

It was lost behind whoever acknowledged it (a NodeReport was deleted, etcd restored), or that one is
away: so seldom, and ever more seldom.
"""

from dataclasses import dataclass
from typing import Final, Self

# Seconds: GM takes in what it was told within some, where it can.
FIRST: Final = 300.0
LONGEST: Final = 3600.0


@dataclass(frozen=True, slots=True)
class ResendSchedule:
    """`pause`: seconds between the last telling and the next."""

    due_at: float
    pause: float = FIRST

    @classmethod
    def begun(cls, now: float) -> Self:
        """Something new was told."""
        return cls(now + FIRST)

    def is_due(self, now: float) -> bool:
        return now >= self.due_at

    def repeated(self, now: float) -> "ResendSchedule":
        """It was told once more."""
        pause = min(2 * self.pause, LONGEST)
        return ResendSchedule(now + pause, pause)
