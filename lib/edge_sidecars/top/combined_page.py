"""The documents of several components as one page, drawn by the scripts of their own pages.

Guarantees of `runtime.web.page` hold for it too. It listens on loopback only, and only reads.
"""

import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from edge_sidecars.runtime.cli.values import Address
from edge_sidecars.runtime.web import aiohttp_web as web
from edge_sidecars.runtime.web.endpoints import Route, routed
from edge_sidecars.runtime.web.endpoints import json as as_json
from edge_sidecars.runtime.web.listener import Listener, ListenerOptions
from edge_sidecars.runtime.web.page.asked import Page
from edge_sidecars.top.followed import COMPONENTS, Followed

MAX_CONNECTIONS: Final = 64
_OPTIONS: Final = ListenerOptions(log="top.http", backlog=64, shutdown_grace=1.0, guards=True)


def document(components: Sequence[Followed], now: float) -> bytes:
    found = [
        {
            "address": it.address,
            "component": it.component,
            "status": it.status,
            "wallSeconds": it.wall,
            "ageSeconds": round(it.age(now), 3),
            "problem": it.problem,
        }
        for it in components
    ]
    return json.dumps({"components": found}, separators=(",", ":")).encode()


@asynccontextmanager
async def listening(components: Sequence[Followed], address: Address) -> AsyncIterator[Address]:
    """The address that it has. Raises `BadInput` where it cannot be had."""

    def shown() -> bytes:
        return document(components, time.monotonic())

    async def status(_: web.BaseRequest) -> web.StreamResponse:
        return as_json(shown())

    routes: dict[str, Route] = {"/status": ("GET", status)}
    page = Page("top", shown, draws=COMPONENTS)

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        return await routed(request, routes, page)

    listener = Listener(address, handle, options=_OPTIONS, limit=MAX_CONNECTIONS)
    await listener.open()
    try:
        yield listener.bound
    finally:
        await listener.close()
