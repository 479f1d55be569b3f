"""How old an answer is, and how it says so: the headers Age and Warning (RFC 9111, 5.1 and 5.5).

Pure. One value for both directions: what the relay answers from its cache, and what another relay
above it answered from its own. An answer with an Age is never one of now, whatever the number.
"""

from dataclasses import dataclass
from email.utils import formatdate
from typing import Final, Self

AGE: Final = "Age"
# Longest number of seconds that is read: 30 years.
_LONGEST: Final = 9


@dataclass(frozen=True, slots=True)
class Staleness:
    """`age` in seconds, None of an answer of now."""

    age: float | None = None

    @classmethod
    def told(cls, text: str | None) -> Self:
        """By an answer's header Age, None where it has none; 0 s where it cannot be read."""
        if text is None:
            return cls()
        is_number = text.isascii() and text.isdigit() and len(text) <= _LONGEST
        return cls(float(text) if is_number else 0.0)

    @classmethod
    def since(cls, confirmed_at: float, *, now: float) -> Self:
        """Of a state that upstream confirmed last then; both are wall times."""
        return cls(max(now - confirmed_at, 0.0))

    @property
    def is_old(self) -> bool:
        return self.age is not None

    @property
    def seconds(self) -> float:
        return self.age or 0.0

    def headers(self, *, now: float) -> dict[str, str]:
        """Of an answer that is sent now (wall time)."""
        if self.age is None:
            return {}
        since = formatdate(now - self.age, usegmt=True)
        why = f"upstream is out of reach, this is its state of {since}"
        return {
            AGE: str(int(self.age)),
            "Warning": f'299 relay-sidecar "{why}"',
        }


FRESH: Final = Staleness()
