"""How long to leave in peace what was refused or did not answer: per request, growing.

Pure. Guarantee: a server that refuses or garbles everything at once is asked ever more seldom,
down to once in `LONGEST_REFUSED`; one that cannot be reached is tried again within
`LONGEST_LOST` of coming back. Jitter comes with the requests' own times: each member's differ.
"""

import math

from edge_sidecars.runtime.backoff import exponential

# Seconds. A refusal ends when an administrator changes a configuration.
LONGEST_REFUSED = 30.0
LONGEST_LOST = 2.0


class Pace:
    """`first`: seconds after the first failure; `longest`: after many refusals."""

    def __init__(self, first: float, *, longest: float = LONGEST_REFUSED) -> None:
        self._first = first
        self._longest = longest
        self._failures = 0
        self.not_before = -math.inf

    def failed(self, now: float, *, is_refused: bool, retry_after: float | None = None) -> None:
        longest = self._longest if is_refused else LONGEST_LOST
        pause = exponential(self._failures, first=self._first, longest=longest)
        self._failures += 1
        self.not_before = now + min(max(pause, retry_after or 0.0), LONGEST_REFUSED)

    def succeeded(self) -> None:
        self._failures = 0
        self.not_before = -math.inf
