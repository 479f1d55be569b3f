"""What the pool-sidecar of this node said last, and for how long that holds.

Pure. Guarantees: a line holds for the seconds that it names, at most `MAX_VALID`; then it is as if
there were no pool. What is no such line raises ValueError, and changes nothing.
"""

import json
import math
from dataclasses import dataclass
from typing import Final, Self

from relay_sidecar.core.endpoint_view.verdicts import Verdicts

# Seconds; three of its lines (pool.md 6).
MAX_VALID: Final = 6.0
# Of a Node's name: a DNS subdomain.
MAX_NAME: Final = 253


@dataclass(frozen=True, slots=True)
class SourcesLine:
    """`via`: the neighbour over which upstream is reached, "" for the own link or none; `valid_for`
    in seconds."""

    via: str
    valid_for: float
    verdicts: Verdicts | None = None

    @classmethod
    def parse(cls, line: bytes) -> Self:
        """Raises ValueError."""
        try:
            found = json.loads(line)
        except RecursionError as error:
            raise ValueError("too deep") from error
        match found:
            case {
                "detour": bool(is_lent),
                "via": str(via),
                "validSeconds": int() | float() as seconds,
            } if 0 < seconds < math.inf and bool(via) is is_lent and len(via) <= MAX_NAME:
                return cls(via, float(min(seconds, MAX_VALID)), verdicts=Verdicts.read(found))
        raise ValueError("it lacks detour, via or validSeconds, or they do not fit")


class PoolSources:
    """As of the latest line."""

    def __init__(self) -> None:
        self._via = ""
        self._verdicts: Verdicts | None = None
        self.valid_until = -math.inf

    def heard(self, line: SourcesLine, now: float) -> None:
        self._via, self.valid_until = line.via, now + line.valid_for
        self._verdicts = line.verdicts

    def via(self, now: float) -> str:
        """The neighbour that lends its link, "" where none does."""
        return self._via if now < self.valid_until else ""

    def verdicts(self, now: float) -> Verdicts | None:
        """None where none are known."""
        return self._verdicts if now < self.valid_until else None
