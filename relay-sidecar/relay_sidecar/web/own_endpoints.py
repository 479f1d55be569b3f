"""The relay's own endpoints, on a port of their own: on the other one each path is Kubernetes'.

`/livez`: this process answers. `/readyz`: so does the Kubernetes API, cut off or not;
`?upstream=true`: and the link is up, with credentials that upstream takes. `/metrics`, `/status`.
They show no object.
"""

from typing import Protocol

from edge_sidecars.runtime.web import aiohttp_web as web
from edge_sidecars.runtime.web.endpoints import is_asked, own_routes, routed, text
from relay_sidecar.telemetry.metrics import RelayCounters, measure
from relay_sidecar.telemetry.status import RelayStatus, UpstreamLinkStatus


class ReportedRelay(Protocol):
    @property
    def counters(self) -> RelayCounters: ...

    @property
    def lack(self) -> str:
        """What is missing before requests can be answered, "" when nothing is."""
        ...

    @property
    def link(self) -> UpstreamLinkStatus: ...

    def status(self, *, of_restart: bool = False) -> RelayStatus:
        """As of now; `of_restart`: also what a restart would find."""
        ...


class OwnEndpoints:
    def __init__(self, relay: ReportedRelay) -> None:
        self._relay = relay
        self.routes = own_routes(
            ready=self._readyz,
            measure=lambda: measure(relay.status(), relay.counters),
            status=lambda: relay.status(of_restart=True).json(),
        )

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        return await routed(request, self.routes)

    async def _readyz(self, request: web.BaseRequest) -> web.StreamResponse:
        asks_upstream = is_asked(request, "upstream")
        if self._relay.lack:
            return text(503, f"not ready: {self._relay.lack}")
        if asks_upstream and (problem := self._relay.link.problem):
            return text(503, problem)
        return text(200, "ok")
