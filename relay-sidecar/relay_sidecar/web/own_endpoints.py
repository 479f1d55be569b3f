"""The relay's own endpoints, on a port of their own: on the other one each path is Kubernetes'.

`/livez`: this process answers. `/readyz`: so does the Kubernetes API, cut off or not;
`?upstream=true`: and the link is up, with credentials that upstream takes. `/metrics`, `/status`.
They show no object.
"""

from typing import Protocol

from edge_sidecars.runtime.web import aiohttp_web as web
from edge_sidecars.runtime.web.endpoints import Route, is_asked, json, metrics, routed, text
from relay_sidecar.telemetry.metrics import RelayCounters, measure
from relay_sidecar.telemetry.status import RelayStatus


class ReportedRelay(Protocol):
    @property
    def counters(self) -> RelayCounters: ...

    def status(self) -> RelayStatus:
        """As of now."""
        ...


class OwnEndpoints:
    def __init__(self, relay: ReportedRelay) -> None:
        self._relay = relay
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
        asks_upstream = is_asked(request, "upstream")
        status = self._relay.status()
        if status.lack:
            return text(503, f"not ready: {status.lack}")
        if asks_upstream and status.link.problem:
            return text(503, status.link.problem)
        return text(200, "ok")

    async def _metrics(self, request: web.BaseRequest) -> web.StreamResponse:
        return metrics(measure(self._relay.status(), self._relay.counters))

    async def _status(self, request: web.BaseRequest) -> web.StreamResponse:
        return json(self._relay.status().json())
