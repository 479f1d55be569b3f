"""Whether an open watch has caught up with upstream.

Nothing on the watch itself shows it: the events that were missed come without a mark at their end,
and the next bookmark may be a minute away, or one that was sent a minute ago, on a slow link. The
proof is a list that was requested after the opening (`confirmation` decides when and which): the
stream has caught up once it comes to the list's version, and while it holds just what the list
shows.
"""

import math

from msgspec import Struct


class ListEvidence(Struct, frozen=True):
    """A list of upstream: its version, and the fingerprint of its objects, None where it was not
    complete. `asked_at` (boot clock) and `asked_at_wall`: when it was requested; `cursor`: the
    stream's version then."""

    version: int
    fingerprint: int | None
    asked_at: float
    asked_at_wall: float
    cursor: int


class CatchUp:
    def __init__(self) -> None:
        # When upstream accepted the watch, or when what it proved since was last thrown away.
        self._began_at = math.inf
        # The lowest version of a list that was requested since.
        self._goal: int | None = None
        # When a list below the stream's version came first.
        self._below_at = math.inf

    def begin(self, now: float) -> None:
        """Only lists that are requested from now on prove anything."""
        self._began_at = now
        self._goal = None

    def end(self) -> None:
        self.begin(math.inf)

    def is_reached(self, version: int) -> bool:
        return self._goal is not None and version >= self._goal

    def listed(self, version: int, *, asked_at: float) -> None:
        """Upstream was at `version`, which is not below the stream's."""
        self._below_at = math.inf
        if asked_at >= self._began_at:
            self._goal = version if self._goal is None else min(self._goal, version)

    def is_below_again(self, now: float, *, asked_at: float) -> bool:
        """A list was below the stream's version. Whether one has been before: it may come from an
        upstream relay, which answers from another of its streams, so that only a second one,
        requested after the first, counts."""
        if asked_at >= self._below_at:
            return True
        self._below_at = min(self._below_at, now)
        self._goal = None
        return False

    def went_back(self) -> None:
        """A list below the stream's version has counted."""
        self._below_at = math.inf
