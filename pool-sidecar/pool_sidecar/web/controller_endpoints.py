"""The controller's own endpoints, and the socket that they are on.

`/livez`: this process answers. `/readyz`: everything was listed and the admission policies are in
force, so that it may lead; its elector asks that. `/status`, `/metrics`.
"""

import json as encoder
from typing import Final

from edge_sidecars.runtime.cli.values import Address
from edge_sidecars.runtime.web import aiohttp_web as web
from edge_sidecars.runtime.web.endpoints import Route, json, metrics, routed, text
from edge_sidecars.runtime.web.listener import Listener, ListenerOptions
from pool_sidecar.controller.controller import Controller
from pool_sidecar.controller.metrics import measure
from pool_sidecar.controller.status import status

MAX_CONNECTIONS: Final = 64
_OPTIONS: Final = ListenerOptions(log="pool-controller.http", backlog=64, shutdown_grace=1.0)


class ControllerEndpoints:
    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._routes: dict[str, Route] = {
            "/livez": ("GET", self._livez),
            "/readyz": ("GET", self._readyz),
            "/metrics": ("GET", self._metrics),
            "/status": ("GET", self._status),
        }

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        return await routed(request, self._routes)

    async def _livez(self, request: web.BaseRequest) -> web.StreamResponse:
        return text(200, "ok")

    async def _readyz(self, request: web.BaseRequest) -> web.StreamResponse:
        lack = self._controller.lack
        return text(503, f"not ready: {lack}") if lack else text(200, "ok")

    async def _metrics(self, request: web.BaseRequest) -> web.StreamResponse:
        return metrics(measure(self._controller))

    async def _status(self, request: web.BaseRequest) -> web.StreamResponse:
        return json(encoder.dumps(status(self._controller), separators=(",", ":")).encode())


def listening(address: Address, controller: Controller) -> Listener:
    handler = ControllerEndpoints(controller).handle
    return Listener(address, handler, options=_OPTIONS, limit=MAX_CONNECTIONS)
