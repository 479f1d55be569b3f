"""Listeners that serve recorded documents as the pages of components do."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from edge_sidecars.runtime.cli.values import Address
from edge_sidecars.runtime.web import aiohttp_web as web
from edge_sidecars.runtime.web.endpoints import routed
from edge_sidecars.runtime.web.listener import Listener, ListenerOptions
from edge_sidecars.runtime.web.page.asked import MAX_STREAMS, Page
from tests.integration.lib.runtime.page_documents import STATES


class ShownComponent:
    """One listener; `status` may be replaced while it serves."""

    def __init__(
        self, component: str, status: Mapping[str, Any], *, streams: int = MAX_STREAMS
    ) -> None:
        self.status = status
        page = Page(component, lambda: json.dumps(self.status).encode(), streams=streams)

        async def handle(request: web.BaseRequest) -> web.StreamResponse:
            return await routed(request, {}, page)

        options = ListenerOptions(log="test", backlog=64, shutdown_grace=0.1, guards=True)
        self.listener = Listener(Address("127.0.0.1", 0), handle, options=options, limit=64)

    @property
    def address(self) -> str:
        return str(self.listener.bound)


@asynccontextmanager
async def shown(*components: ShownComponent) -> AsyncIterator[list[str]]:
    """Their addresses; without a component, one of each kind."""
    found = components or tuple(
        ShownComponent(name, states[0].status) for name, states in STATES.items()
    )
    async with AsyncExitStack() as stack:
        for it in found:
            await it.listener.open()
            stack.push_async_callback(it.listener.close)
        yield [it.address for it in found]
