"""A watch, event by event, as many in one step as have come together."""

import asyncio
import math
import random
import time
from contextlib import aclosing

from edge_sidecars.apimachinery.objects import read_event
from edge_sidecars.apimachinery.watch_events import EventType, Failure
from edge_sidecars.runtime.clock import boottime
from relay_sidecar.core.stream.commands import WatchRequest
from relay_sidecar.upstream.reflector.confirmer import Confirmer
from relay_sidecar.upstream.reflector.ports import FULL, Source
from relay_sidecar.upstream.reflector.stream_steps import StreamSteps

# Seconds between two steps of a stream: each costs a transaction and a wake-up of two threads.
COALESCED = 0.005
# Seconds from a step on, after which an event has come alone: to wait for company behind it would
# cost a wake-up for nothing.
LONE = 1.5 * COALESCED


class WatchPhase:
    """Of one stream, watch by watch."""

    def __init__(
        self, steps: StreamSteps, source: Source, confirmer: Confirmer, *, request_timeout: float
    ) -> None:
        self._steps = steps
        self._source = source
        self._confirmer = confirmer
        self._timeout = request_timeout

    async def run(self, command: WatchRequest) -> Failure | None:
        """Returns the ERROR event that ended it, if one did; otherwise what it met is reported.
        Raises `ApiError`, `Unreachable`, `Malformed`."""
        steps, stream = self._steps, self._steps.stream
        params = stream.scope.params | {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": str(command.version),
            "timeoutSeconds": str(command.timeout_seconds),
        }
        batches = self._source.batches(stream.scope.path, params, open_timeout=self._timeout)
        lone_at = -math.inf
        async with aclosing(batches):
            async for lines in batches:
                if not lines:
                    await self._opened()
                    continue
                events = [read_event(line) for line in lines]
                trouble = next((e for e in events if e.type is EventType.ERROR), None)
                if trouble is not None:
                    events = events[: events.index(trouble)]
                come = stream.growth(events)
                if come > 0 and not steps.owner.has_room(come):
                    steps.owner.refused(stream, FULL)
                    return None
                if events:
                    is_lone = time.monotonic() >= lone_at
                    await steps.begin(steps.apply(events))
                    await steps.settled()
                    lone_at = time.monotonic() + LONE
                    if not is_lone:
                        # What comes meanwhile is taken together.
                        await asyncio.sleep(COALESCED)
                if trouble is not None:
                    return trouble.status
        steps.note_confirmed()
        steps.reflection.ended(boottime(), random.random())
        self._confirmer.watch_ended()
        steps.wake()
        return None

    async def _opened(self) -> None:
        await self._steps.settled()
        self._steps.reflection.opened(boottime())
        self._confirmer.watch_opened()
        self._steps.stream.accepted()
        self._steps.wake()
