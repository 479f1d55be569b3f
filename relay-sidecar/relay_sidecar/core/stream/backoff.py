"""How long upstream is left alone after what went wrong.

Owns the delays of one stream; knows nothing of lists and watches but that some fail, and that some
succeed and bring nothing, which is a loop all the same. Guarantee: delays double until something
was worth its while, and upstream's own wish comes first.
"""

import math
from typing import Final

from edge_sidecars.runtime.backoff import exponential, half_jitter

FIRST_DELAY: Final = 0.2
LONGEST_DELAY: Final = 5.0
# For what only an administrator can change: permissions, a CRD that is gone.
LONGEST_REFUSAL_DELAY: Final = 60.0
# No answer of upstream may silence a stream for longer than this.
LONGEST_RETRY_AFTER: Final = 60.0


class StreamBackoff:
    """`retry_at` is when the next request may go; `chance` is from [0, 1)."""

    def __init__(self) -> None:
        self.retry_at = -math.inf
        self._failures = 0
        self._barren = 0
        # A link that comes back may have been the whole trouble.
        self._is_for_link = False

    def failed(self, now: float, chance: float) -> None:
        """A request found nobody, or nobody who could answer."""
        self._failures += 1
        self._wait(now, chance, self._failures, longest=LONGEST_DELAY)
        self._is_for_link = True

    def throttled(self, now: float, chance: float) -> None:
        self._failures += 1
        self._wait(now, chance, self._failures, longest=LONGEST_DELAY)

    def refused(self, now: float, chance: float) -> None:
        self._failures += 1
        self._wait(now, chance, self._failures, longest=LONGEST_REFUSAL_DELAY)

    def was_barren(self, now: float, chance: float, *, free: int = 0) -> None:
        """A watch brought nothing; the first `free` of them in a row cost no delay."""
        self._barren += 1
        self._wait(now, chance, self._barren - free, longest=LONGEST_DELAY)

    def was_good(self) -> None:
        """A watch was worth its while."""
        self._failures = self._barren = 0

    def asked(self, retry_after: float, now: float) -> None:
        """Upstream said when to come back, in seconds."""
        if retry_after > 0:
            self.retry_at = max(self.retry_at, now + min(retry_after, LONGEST_RETRY_AFTER))
            self._is_for_link = False

    def not_before(self, at: float) -> None:
        self.retry_at = max(self.retry_at, at)

    def link_is_back(self, now: float) -> None:
        self._failures = 0
        if self._is_for_link:
            self.end(now)

    def end(self, now: float) -> None:
        """There is reason to ask at once."""
        self.retry_at = now

    def _wait(self, now: float, chance: float, attempts: int, *, longest: float) -> None:
        """Half of a delay is chance, so that relays do not come at once."""
        self._is_for_link = False
        if attempts < 1:
            return
        delay = exponential(attempts - 1, first=FIRST_DELAY, longest=longest)
        self.retry_at = now + half_jitter(delay, chance)
