"""GM's own endpoints, and the socket that they are on.

`/livez`: this process answers. `/readyz`: everything was listed and the link is up, so that LCs can
be served; `?leader=true`: and this GM leads, or owns shard 0. `/drain`: for the elector's
--drain-url, answers when this GM has stopped to lead and to write. `/metrics`, `/status`. They show
no object. Guarantee: kubelet, Prometheus and people can never use up the descriptors that LCs and
the API need.
"""

import asyncio
from ipaddress import ip_address
from typing import Protocol

from edge_sidecars.runtime.cli.values import Address
from edge_sidecars.runtime.web import aiohttp_web as web
from edge_sidecars.runtime.web.connections import Handler
from edge_sidecars.runtime.web.endpoints import is_asked, own_routes, routed, text
from edge_sidecars.runtime.web.listener import Listener, ListenerOptions
from edge_sidecars.runtime.web.page.asked import Page
from gm.telemetry.metrics import GmCounters, measure
from gm.telemetry.status import GmStatus

# Seconds; the elector's --drain-timeout is 10 s, and it does not wait longer than that.
DRAIN_TIMEOUT = 30.0


class Gm(Protocol):
    def status(self) -> GmStatus:
        """As of now."""

    def counters(self) -> GmCounters: ...

    async def drained(self) -> None:
        """Returns when this GM neither leads nor writes as one that does."""


class GmEndpoints:
    def __init__(self, gm: Gm) -> None:
        self._gm = gm
        self.routes = own_routes(
            ready=self._readyz,
            measure=lambda: measure(gm.status(), gm.counters()),
            status=lambda: gm.status().json(),
        )
        self._page = Page("gm", lambda: gm.status().json())
        self.routes["/drain"] = "POST", self._drain

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        return await routed(request, self.routes, self._page)

    async def _readyz(self, request: web.BaseRequest) -> web.StreamResponse:
        asks_leader = is_asked(request, "leader")
        status = self._gm.status()
        if status.lack:
            return text(503, f"not ready: {status.lack}")
        if asks_leader and not status.leader.is_leader:
            return text(503, _not_leading(status))
        return text(200, "ok")

    async def _drain(self, request: web.BaseRequest) -> web.StreamResponse:
        if not _is_local(request):
            return text(403, "/drain is for this pod only: ask 127.0.0.1")
        try:
            async with asyncio.timeout(DRAIN_TIMEOUT):
                await self._gm.drained()
        except TimeoutError:
            return text(503, f"still leading after {DRAIN_TIMEOUT:g}s")
        return text(200, "does not lead")


def _not_leading(status: GmStatus) -> str:
    if status.shards is not None:
        return "not the leader: that is whoever owns shard 0"
    return f"not the leader: that is {status.leader.holder or 'nobody'}"


def _is_local(request: web.BaseRequest) -> bool:
    try:
        return ip_address((request.remote or "").partition("%")[0]).is_loopback
    except ValueError:
        return False


MAX_CONNECTIONS = 64
_OPTIONS = ListenerOptions(log="gm.http", backlog=64, shutdown_grace=1.0, guards=True)


def listening(address: Address, handler: Handler) -> Listener:
    return Listener(address, handler, options=_OPTIONS, limit=MAX_CONNECTIONS)
