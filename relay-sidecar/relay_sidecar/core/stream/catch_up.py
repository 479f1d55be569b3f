"""Whether an open watch has caught up with upstream.

Nothing on the watch itself says so: the events that were missed come without a mark at their end,
and the next bookmark may be a minute away, or one that was sent a minute ago, on a slow link. The
proof is a list that was requested after the opening (`confirmation` decides when and which): the
stream has caught up once it comes to the list's version, and while it holds just what the list
shows.
"""

import math

from msgspec import Struct


class ListEvidence(Struct, frozen=True):
    """A list of upstream: its version, and the fingerprint of its objects, None where it did not
    tell all. When it was asked for: by the clock that nobody sets, and as wall time; and where the
    stream stood then."""

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
        # When a list below where the stream stood came first.
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
        """Upstream stood at `version`, at or above where the stream did."""
        self._below_at = math.inf
        if asked_at >= self._began_at:
            self._goal = version if self._goal is None else min(self._goal, version)

    def is_below_again(self, now: float, *, asked_at: float) -> bool:
        """A list was below where the stream stood. Whether one has been before: it may come from
        another relay above, which answers from another of its streams, so that only a second one,
        requested after the first, is believed."""
        if asked_at >= self._below_at:
            return True
        self._below_at = min(self._below_at, now)
        self._goal = None
        return False

    def went_back(self) -> None:
        """A list below where the stream stood is believed."""
        self._below_at = math.inf
