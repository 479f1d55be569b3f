"""Who was answered on the main's listener that this pod leads, and may act on that until then.

`--release-on-term` says that the main has ended when SIGTERM comes. Kubelet keeps that order when
it ends a pod, and not when it restarts the sidecar alone: its image was replaced, or its liveness
probe failed. Then the main is at work, and a release would let another pod lead beside it.

The process that ended has no connection and asks nothing any more. So the main is there while a
connection is open on which it was answered, or if it asks again within twice its own interval.
"""

import asyncio
from collections import deque
from itertools import pairwise

from edge_sidecars.runtime.web import aiohttp_web as web
from edge_sidecars.runtime.web.connections import Connection
from edge_sidecars.runtime.web.places import LOCAL

# Seconds in which the connections of a process that has ended are seen closed.
CLOSING = 0.1
# A connection that is closed so soon after the answer was for this question alone. Seconds.
BRIEF = 0.25
# Intervals between questions that are remembered.
REMEMBERED = 8
# So many of its own intervals a client may be late.
LATE = 2.0
_POLL = 0.01


class PromisedClients:
    def __init__(self) -> None:
        self._open: set[Connection] = set()
        self._asked_at: deque[float] = deque(maxlen=REMEMBERED + 1)
        self._asked = asyncio.Event()
        # When each asked that may go on to ask on the same connection.
        self._recent: dict[Connection, float] = {}

    def asked(self, request: web.BaseRequest) -> None:
        """It is answered now. A main asks from this machine; others only look."""
        client = request.protocol
        if not isinstance(client, Connection) or client.peer != LOCAL:
            return
        self._asked.set()
        if client in self._open:
            return
        self._open = {it for it in self._open if not it.is_ended} | {client}
        loop = asyncio.get_running_loop()
        self._recent[client] = loop.time()
        loop.call_later(BRIEF, self._look, client)

    async def are_there(self, *, timeout: float) -> bool:
        """Within `timeout` seconds at most: after it no promise is left."""
        loop = asyncio.get_running_loop()
        began_at = loop.time()
        self._asked.clear()
        for _ in range(round(min(CLOSING, timeout) / _POLL)):
            if not self._are_connected:
                break
            await asyncio.sleep(_POLL)
        if self._are_connected:
            return True
        for client in tuple(self._recent):
            self._look(client)
        try:
            async with asyncio.timeout_at(min(self._due_at, began_at + timeout)):
                await self._asked.wait()
        except TimeoutError:
            return False
        return True

    @property
    def _are_connected(self) -> bool:
        return any(not it.is_ended for it in self._open)

    @property
    def _due_at(self) -> float:
        """When one that connects for each question has asked again, if it is there."""
        if not self._asked_at:
            return 0.0
        longest = max((b - a for a, b in pairwise(self._asked_at)), default=float("inf"))
        return self._asked_at[-1] + LATE * longest

    def _look(self, client: Connection) -> None:
        asked_at = self._recent.pop(client, None)
        if asked_at is not None and client.is_ended:
            self._open.discard(client)
            self._asked_at.append(asked_at)
