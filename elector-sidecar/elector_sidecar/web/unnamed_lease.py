"""The HTTP answers while `--lease-file` names no Lease.

Guarantee: this pod does not lead: every path answers 503 with the reason; the process is alive. The
listeners are the same as later, so that a main and kubelet's probes need not know the difference.
"""

from collections.abc import Callable

from edge_sidecars.runtime.web import aiohttp_web as web
from edge_sidecars.runtime.web.endpoints import routed, text

# Those of the elector that say something of leadership, and that a pod's probes ask.
_PATHS = ("/", "/leader", "/readyz", "/eligible", "/shards", "/owns", "/metrics")


class UnnamedLease:
    """`reason` is asked for each answer."""

    def __init__(self, reason: Callable[[], str]) -> None:
        self._reason = reason
        self._routes = dict.fromkeys(_PATHS, ("GET", self._unavailable))
        self._routes |= {
            "/livez": ("GET", self._alive),
            "/healthz": ("GET", self._alive),
            "/resign": ("POST", self._unavailable),
        }

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        return await routed(request, self._routes)

    async def _alive(self, _: web.BaseRequest) -> web.StreamResponse:
        return text(200, "ok")

    async def _unavailable(self, _: web.BaseRequest) -> web.StreamResponse:
        return text(503, self._reason())
