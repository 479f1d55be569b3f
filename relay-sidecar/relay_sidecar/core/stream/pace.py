"""When upstream is asked again after a failure, and when for a list beside a watch.

After a failure, or a watch that brought nothing, delays double until something succeeds, and
upstream's own Retry-After comes first.

A watch that was reopened proves by a list that it has caught up. The cost decides what is
requested, always as metadata only (PartialObjectMetadata):

- Of a few objects, all names and versions: equality proves it in one round trip.
- Of many, one object (limit=1): the list's own version is what the watch has to come to. The next
  event or bookmark does, a quiet collection's within 75 s, for some hundred bytes. Thousands of
  nodes reopen their watches of every Service at the same moment, after 8 to 10 minutes as after an
  outage: all names each time would cost what resuming a watch saves.
- Where a request waits for it, all names: upstream's whole answer, in its place, would be longer.
- The first time after a start, an outage or a failure, all names, whatever their number: a cluster
  that was restored from a backup and written on since looks by its version like one that went on.

Each has a limit, so that a collection that has grown meanwhile does not come after all. The look at
a few objects by selector has none: kube-apiserver answers it from its cache (1.31 and later), while
it reads etcd for a limit, and there all objects of the resource for a selector.

Guarantees: One question at a time, two a second at most (of a few objects, for requests that wait,
twenty). None follows for as long again as the last one took (30 s at most: the process may have
been frozen), so that a slow link has time for what happens. One that fails is asked again, later
each time, and not before upstream wants it. A watch that ends at once is not asked about. Knows no
request.
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
        """A request found no server, or none that could answer."""
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
        """Upstream's Retry-After, in seconds."""
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


# Objects: metadata of so many is as long as a TLS handshake, twice or thrice, compressed.
FEW: Final = 100
# More are never asked for.
ALL: Final = 20_000
# Seconds from the opening to the question: a watch that ends at once is not worth one. Up to as
# much again is chance, so that relays do not come at once.
DELAY: Final = 0.1
# Seconds between two questions.
PACE: Final = 0.5
# The same where requests wait, and the answer is one of a few objects: each would be passed on
# instead, and whatever is handed out of another namespace makes them wait anew.
QUICK_PACE: Final = 0.05
FIRST_RETRY: Final = 1.0
LONGEST_RETRY: Final = 30.0
# So many failures in a row, and what is asked for may be too much for the link.
TOO_MUCH: Final = 3


class Confirming:
    """Of one stream; `at` is when to ask next."""

    def __init__(self) -> None:
        self._due_at = math.inf
        self._not_before = self._asked_at = -math.inf
        self._failures = 0
        self._is_asking = False
        # A request waits for all names.
        self._is_wanted = False
        # A request waited for the question that is under way.
        self._was_wanted = False
        # All names were compared since upstream was out of sight last.
        self._is_compared = False

    @property
    def at(self) -> float:
        if self._is_asking:
            return math.inf
        return max(self._due_at, self._not_before)

    def opened(self, now: float, chance: float) -> None:
        """The watch is to be proved from now on; `chance` is from [0, 1)."""
        delay = 0.0 if self._is_wanted else DELAY * (1 + chance)
        self._due_at = min(self._due_at, now + delay)

    def wanted(self, now: float) -> None:
        """A request waits."""
        self._is_wanted = True
        self._due_at = min(self._due_at, now)

    def asking(self, now: float, *, objects: int, selects: bool) -> int:
        """A question goes out, with `objects` cached here, by selector or not. Returns the limit of
        its answer, 0 for none."""
        if objects <= FEW:
            limit = 0 if selects else FEW
        elif not self._is_compared:
            limit = 0
        else:
            limit = ALL if self._is_wanted and objects <= ALL else 1
        self._is_asking, self._was_wanted, self._is_wanted = True, self._is_wanted, False
        self._due_at = math.inf
        self._asked_at = now
        is_quick = self._was_wanted and objects <= FEW
        self._not_before = now + (QUICK_PACE if is_quick else PACE)
        return limit

    def sent(self, now: float) -> None:
        """It had to wait for others, which says nothing about the link."""
        self._asked_at = now
        self._not_before = now + PACE

    def answered(self, now: float) -> None:
        self._is_asking = False
        self._failures = 0
        pause = min(now - self._asked_at, LONGEST_RETRY)
        self._not_before = max(self._not_before, now + pause)

    def failed(
        self, now: float, chance: float, *, is_needed: bool, retry_after: float = 0.0
    ) -> None:
        """`is_needed`: the watch is open and not proved; `chance` is from [0, 1); `retry_after` is
        upstream's own wish, in seconds."""
        self._is_asking = False
        self._failures += 1
        delay = exponential(self._failures - 1, first=FIRST_RETRY, longest=LONGEST_RETRY)
        pause = max(half_jitter(delay, chance), min(retry_after, LONGEST_RETRY_AFTER))
        self._not_before = now + pause
        if is_needed:
            self._is_wanted |= self._was_wanted and self._failures < TOO_MUCH
            self._due_at = min(self._due_at, now)

    def compared(self) -> None:
        """All names and versions were compared."""
        self._is_compared = True

    def lost_sight(self) -> None:
        """What upstream holds may be of another history from now on."""
        self._is_compared = False

    def ended(self) -> None:
        """The watch is over: only a request that waits still needs the answer."""
        if not self._is_wanted:
            self._due_at = math.inf
