"""The controller's own endpoints, and the socket that they are on.

`/livez`: this process answers. `/readyz`: everything was listed and the admission policies are in
force, so that it may lead; its elector asks that. `/status`, `/metrics`.
"""

import json
from typing import Final

from edge_sidecars.runtime.cli.values import Address
from edge_sidecars.runtime.web import aiohttp_web as web
from edge_sidecars.runtime.web.endpoints import own_routes, routed, text
from edge_sidecars.runtime.web.listener import Listener, ListenerOptions
from edge_sidecars.runtime.web.page.asked import Page
from pool_sidecar.controller.controller import Controller
from pool_sidecar.controller.metrics import measure
from pool_sidecar.controller.status import status

MAX_CONNECTIONS: Final = 64
_OPTIONS: Final = ListenerOptions(
    log="pool-controller.http", backlog=64, shutdown_grace=1.0, guards=True
)


class ControllerEndpoints:
    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self.routes = own_routes(
            ready=self._readyz, measure=lambda: measure(controller), status=self._status
        )
        self._page = Page("pool", self._status)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        return await routed(request, self.routes, self._page)

    async def _readyz(self, request: web.BaseRequest) -> web.StreamResponse:
        lack = self._controller.lack
        return text(503, f"not ready: {lack}") if lack else text(200, "ok")

    def _status(self) -> bytes:
        return json.dumps(status(self._controller), separators=(",", ":")).encode()


def listening(address: Address, controller: Controller) -> Listener:
    handler = ControllerEndpoints(controller).handle
    return Listener(address, handler, options=_OPTIONS, limit=MAX_CONNECTIONS)
