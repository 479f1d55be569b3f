"""The member's endpoints on loopback, and their socket.

`/sources`: what the relay of this node goes by, one JSON line a change and each 2 s; only with the
token. `/eligible`, `/drain`: for the elector of this node. `/livez`, `/readyz`, `/status`,
`/metrics`: for kubelet, people and Prometheus.
"""

import json as encoder
from typing import Final

from edge_sidecars.runtime.cli.values import Address
from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.formats.bearer import authorizes
from edge_sidecars.runtime.web import aiohttp_web as web
from edge_sidecars.runtime.web.endpoints import is_asked, json, own_routes, routed, text
from edge_sidecars.runtime.web.listener import Listener, ListenerOptions
from edge_sidecars.runtime.web.page.asked import Page
from pool_sidecar.member.member import Member
from pool_sidecar.member.metrics import measure
from pool_sidecar.member.status import Document, sources, status

MAX_CONNECTIONS: Final = 64
# Seconds between two lines of /sources at most.
LINE_EVERY: Final = 2.0
_OPTIONS: Final = ListenerOptions(log="pool.http", backlog=64, shutdown_grace=0.5, guards=True)


class MemberEndpoints:
    def __init__(self, member: Member) -> None:
        self._member = member
        self.routes = own_routes(
            ready=self._readyz,
            measure=lambda: measure(member),
            status=lambda: _line(status(member)),
        )
        self._page = Page("pool", lambda: _line(status(member)))
        self.routes |= {
            "/sources": ("GET", self._sources),
            "/eligible": ("GET", self._eligible),
            "/drain": ("POST", self._drain),
        }

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        return await routed(request, self.routes, self._page)

    async def _sources(self, request: web.BaseRequest) -> web.StreamResponse:
        if not authorizes(request.headers.get("Authorization"), self._member.token.get()):
            return text(401, "/sources needs the token of --token-file")
        if not is_asked(request, "watch") or request.method != "GET":
            return json(_line(sources(self._member)))
        stream = web.StreamResponse(headers={"Content-Type": "application/json"})
        await stream.prepare(request)
        while True:
            await stream.write(_line(sources(self._member)))
            await self._member.changed(LINE_EVERY)

    async def _eligible(self, request: web.BaseRequest) -> web.StreamResponse:
        if self._member.pool.is_eligible(boottime()):
            return text(200, "ok")
        return text(503, "not eligible: may not lead, or its own link is not up for long enough")

    async def _drain(self, request: web.BaseRequest) -> web.StreamResponse:
        if self._member.pool.leads(boottime()):
            return text(503, "still leading")
        return text(200, "ok")

    async def _readyz(self, request: web.BaseRequest) -> web.StreamResponse:
        lack = self._member.lack
        return text(503, f"not ready: {lack}") if lack else text(200, "ok")


def _line(document: Document) -> bytes:
    return encoder.dumps(document, separators=(",", ":")).encode() + b"\n"


def listening(address: Address, member: Member) -> Listener:
    handler = MemberEndpoints(member).handle
    return Listener(address, handler, options=_OPTIONS, limit=MAX_CONNECTIONS)
