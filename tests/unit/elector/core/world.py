"""True time, clocks that disagree with it, and networks that fail on demand.

A discrete-event simulation: nothing sleeps, and equal inputs give equal runs. True time is known
to the observer only; candidates read their own `Clock`. Messages of one request may be late, lost
or answered late; events of one watch keep their order, as on a TCP connection.
"""

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from random import Random

from tests.unit.elector.core.apiserver import Answer, ApiServer, Change

# The same machine room: half a millisecond to 20 ms one way.
ONE_WAY = (0.0005, 0.02)


class World:
    def __init__(self, seed: int) -> None:
        self.time = 0.0
        self.random = Random(seed)
        self.server = ApiServer()
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def at(self, time: float, action: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._queue, (max(time, self.time), self._count, action))

    def after(self, delay: float, action: Callable[[], None]) -> None:
        self.at(self.time + delay, action)

    def run(self, until: float) -> None:
        while self._queue and self._queue[0][0] <= until:
            self.time, _, action = heapq.heappop(self._queue)
            action()
        self.time = until


@dataclass
class Clock:
    """A node's clocks: `rate` local seconds pass in one true second."""

    world: World
    rate: float
    offset: float
    wall_offset: float

    def now(self) -> float:
        return self.offset + self.world.time * self.rate

    def wall(self) -> float:
        return self.wall_offset + self.world.time * self.rate

    def true_time(self, local: float) -> float:
        return (local - self.offset) / self.rate


class Trouble(Enum):
    """What can be wrong with a link for a while; `amount` is the delay in seconds."""

    CUT = "cut"
    LOSE_ANSWERS = "lose answers"
    SLOW_REQUESTS = "slow requests"
    SLOW_ANSWERS = "slow answers"
    SLOW_EVENTS = "slow events"
    REFUSE = "refuse"  # 429, 403 or 503 before anything is applied
    BREAK = "break"  # applied, then 500 or 504
    NO_WATCH = "no watch"  # 410, at every try


class Watcher:
    """One watch at the server; `deliver` gets changes, `end` the reason of its end."""

    def __init__(self, link: "Link", deliver: Callable[[Change], None], end: Callable[[], None]):
        self._link = link
        self._deliver = deliver
        self._end = end
        self._arrived_at = 0.0
        self.is_silent = False
        self.is_ended = False

    def start(self, resource_version: int | None) -> None:
        server = self._link.world.server
        if resource_version is None:
            if server.lease is not None:
                version = server.lease.resource_version
                present = Change(self._link.world.time, "", None, server.lease, version)
                self.changed(present)
        else:
            for change in server.changes:
                if change.resource_version > resource_version:
                    self.changed(change)
        server.on_change.append(self.changed)

    def changed(self, change: Change) -> None:
        if self.is_silent or self.is_ended:
            return
        arrives_at = self._link.event_arrives_at()
        if arrives_at == math.inf:
            self.is_silent = True  # the connection is dead, and nobody says so
            return
        self._arrived_at = max(arrives_at, self._arrived_at)
        self._link.world.at(self._arrived_at, lambda: self._arrived(change))

    def _arrived(self, change: Change) -> None:
        if not self.is_ended:
            self._deliver(change)

    def close(self) -> None:
        """By the client, or the server."""
        self.is_ended = True
        if self.changed in self._link.world.server.on_change:
            self._link.world.server.on_change.remove(self.changed)

    def fail(self) -> None:
        """The server ends it, and the client hears so."""
        if not self.is_ended:
            self.close()
            self._end()


class Link:
    """One candidate's way to the API server."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._troubles: dict[Trouble, tuple[float, float]] = {}
        self.watcher: Watcher | None = None
        # What is under way then is late, whatever heals.
        self.last_arrival = 0.0

    def trouble(self, trouble: Trouble, *, lasting: float, amount: float) -> None:
        self._troubles[trouble] = (self.world.time + lasting, amount)

    def heal(self) -> None:
        self._troubles.clear()

    def exchange(self, perform: Callable[[], Answer], answer: Callable[[Answer], None]) -> None:
        """Performs a request at the server and answers it, or does one or none of the two."""
        arrives_at = self._one_way(Trouble.SLOW_REQUESTS)
        if arrives_at < math.inf:
            self.world.at(arrives_at, lambda: self._serve(perform, answer))

    def open_watch(
        self,
        resource_version: int | None,
        deliver: Callable[[Change], None],
        end: Callable[[], None],
        *,
        timeout: float,
    ) -> None:
        """Ended by the client if it is not open after `timeout`; afterwards it may be silent."""
        if self.watcher is not None:
            self.watcher.close()
        watcher = self.watcher = Watcher(self, deliver, end)
        arrives_at = self._one_way(Trouble.SLOW_REQUESTS)
        is_open = [False]

        def start() -> None:
            if watcher.is_ended:
                return
            is_open[0] = True
            if self._has(Trouble.NO_WATCH):
                watcher.fail()
            else:
                watcher.start(resource_version)

        if arrives_at < math.inf:
            self.world.at(arrives_at, start)
        self.world.after(timeout, lambda: None if is_open[0] else watcher.fail())

    def event_arrives_at(self) -> float:
        return self._one_way(Trouble.SLOW_EVENTS)

    def _serve(self, perform: Callable[[], Answer], answer: Callable[[Answer], None]) -> None:
        if self._has(Trouble.REFUSE):
            result = Answer(self.world.random.choice((403, 429, 503)))
        else:
            result = perform()
            if self._has(Trouble.BREAK):
                result = Answer(self.world.random.choice((500, 504)))
        arrives_at = self._one_way(Trouble.SLOW_ANSWERS)
        if self._has(Trouble.LOSE_ANSWERS):
            arrives_at = math.inf
        if arrives_at < math.inf:
            self.world.at(arrives_at, lambda: answer(result))

    def _one_way(self, slowness: Trouble) -> float:
        """When something sent now arrives; never, or when the cut is over, if it is cut."""
        delay = self.world.random.uniform(*ONE_WAY)
        if self._has(slowness):
            delay += self._troubles[slowness][1] * self.world.random.uniform(0.5, 1.0)
        if self._has(Trouble.CUT):
            if self.world.random.random() < 0.5:
                return math.inf
            delay += self._troubles[Trouble.CUT][0] - self.world.time  # TCP sends again
        self.last_arrival = max(self.last_arrival, self.world.time + delay)
        return self.world.time + delay

    def _has(self, trouble: Trouble) -> bool:
        return trouble in self._troubles and self.world.time < self._troubles[trouble][0]
