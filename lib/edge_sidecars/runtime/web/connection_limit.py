"""aiohttp's server, which counts its connections.

Guarantee: a connection counts from before it is made until it is lost, or its handshake has failed,
of which nobody is told; where handlers outlive their clients, until its handler has ended.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from edge_sidecars.runtime.web import aiohttp_web as web
from edge_sidecars.runtime.web.half_closed import Connection

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

# Seconds; whoever does not even get so far takes no place for longer.
HANDSHAKE_TIMEOUT = 10.0


class ConnectionLimit(web.Server):
    def __init__(self, handler: Handler, *, handler_cancellation: bool, **options: Any) -> None:
        super().__init__(handler, handler_cancellation=handler_cancellation, **options)
        self._made = 0
        self._expected: dict[web.RequestHandler, float] = {}

    @property
    def taken(self) -> int:
        too_late = asyncio.get_running_loop().time() - HANDSHAKE_TIMEOUT
        while self._expected:
            handler, since = next(iter(self._expected.items()))
            if since > too_late:
                break
            del self._expected[handler]
        made = self._made if self.handler_cancellation else len(self.connections)
        return made + len(self._expected)

    def __call__(self) -> web.RequestHandler:
        handler = Connection(self, loop=self._loop, **self._kwargs)
        self._expected[handler] = asyncio.get_running_loop().time()
        return handler

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        self._expected.pop(handler, None)
        self._made += 1
        super().connection_made(handler, transport)

    def connection_lost(
        self, handler: web.RequestHandler, exc: BaseException | None = None
    ) -> None:
        self._made -= 1
        super().connection_lost(handler, exc)
