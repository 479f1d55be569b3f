"""From where a pool-scoped stream comes: a hub of the pool, or the API server. Pure.

    at each (re)open: hub, if one is live and this one may be asked ──► the API server (own link, or
    over a neighbour: the same connection to this machine)

A change of source keeps the stream's version: only what the API server itself says ends it.
Guarantees: a hub that refused, broke off, garbled, told older versions or fell silent is left for a
while, longer each time until it was good, so that no answer of a hub makes a loop; while the API
server cannot be reached, a stream that a hub feeds goes on. A stream goes from a hub to the API
server after a delay of chance, since all followers of a hub lose it in one moment.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from edge_sidecars.runtime.backoff import exponential

# Seconds for which a hub is left after its first failure, and at most.
FIRST_LEFT: Final = 10.0
LONGEST_LEFT: Final = 300.0
# Seconds after which a stream was good.
GOOD: Final = 60.0
# Seconds at most from a lost hub to the API server (pool.md 4).
SPREAD: Final = 2.0
# Seconds for which a hub is left whose window begins after the stream's version: the API server
# sends a bookmark within 75 s (`reflection`), and then the version is a later one.
EXPIRED_LEFT: Final = 80.0
# Seconds; a hub passes those bookmarks on. Less than `reflection` waits for an API server.
SILENT: Final = 87.0
# In place of a hub's name.
API_SERVER: Final = ""


@dataclass(frozen=True, slots=True)
class Opening:
    """`hub`: a peer's name, or `API_SERVER`; to be asked in `delay` seconds."""

    hub: str
    delay: float = 0.0


class SourceChoice:
    """Of one stream. `hubs` are the peers that may feed it now, the best first."""

    def __init__(self) -> None:
        self.hub = API_SERVER
        self._began_at = self._heard_at = -math.inf
        self._left_until: dict[str, float] = {}
        self._failures: dict[str, int] = {}
        # It came from a hub last, and has not been asked of the API server since.
        self._was_fed = False

    def open(self, hubs: Sequence[str], now: float, chance: float, *, is_lost: bool) -> Opening:
        """What to ask next; `chance` is from [0, 1). `is_lost`: where there is no hub, others have
        lost it in the same moment, and the API server is within reach."""
        hub = self._usable(hubs, now)
        if hub == API_SERVER and self._was_fed and is_lost:
            self.hub, self._was_fed = API_SERVER, False
            return Opening(API_SERVER, chance * SPREAD)
        self.hub, self._was_fed = hub, hub != API_SERVER
        self._began_at = self._heard_at = now
        return Opening(hub)

    def may_ask(self, hubs: Sequence[str], now: float, *, is_up: bool) -> bool:
        return is_up or self._usable(hubs, now) != API_SERVER

    def is_wrong(self, hubs: Sequence[str], now: float) -> bool:
        """Whether the request that runs is to end: another source comes first, or the hub is none
        any more, or has been silent for too long."""
        if self.hub != API_SERVER and now - self._heard_at > SILENT:
            self.failed(now)
        return self._usable(hubs, now) != self.hub

    def is_fed(self, hubs: Sequence[str], now: float) -> bool:
        """Whether a hub feeds it, and is one still."""
        return self.hub != API_SERVER and self.hub in hubs

    def heard(self, now: float) -> None:
        """Something came from the hub."""
        self._heard_at = now

    def failed(self, now: float, *, is_expired: bool = False) -> None:
        """What the hub did is no answer, or cannot be believed; `is_expired`: it said that its
        window begins after the stream's version."""
        if self.hub == API_SERVER:
            return
        failures = 0 if now - self._began_at >= GOOD else self._failures.get(self.hub, 0)
        left = exponential(failures, first=FIRST_LEFT, longest=LONGEST_LEFT)
        if is_expired:
            left = max(left, EXPIRED_LEFT)
        else:
            self._failures[self.hub] = failures + 1
        self._left_until = {it: at for it, at in self._left_until.items() if now < at}
        self._left_until[self.hub] = now + left

    def _usable(self, hubs: Sequence[str], now: float) -> str:
        return next((it for it in hubs if now >= self._left_until.get(it, -math.inf)), API_SERVER)
