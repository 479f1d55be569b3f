"""GM's own endpoints.

`/livez`: this process answers. `/readyz`: everything was listed and the link is up, so that LCs can
be served; `?leader=true`: and this GM leads. `/drain`: for the elector's --drain-url, answers when
this GM has stopped to lead and to write. `/metrics`, `/status`. They show no object.
"""

import asyncio
from collections.abc import Awaitable, Callable
from ipaddress import ip_address
from typing import Protocol

from aiohttp import web

from gm.metrics import Counters, measure
from gm.status import GmStatus
from sidecar.metrics import CONTENT_TYPE, render
from sidecar.values import BadInput

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

# Seconds; the elector's --drain-timeout is 10 s, and it does not wait longer than that.
DRAIN_TIMEOUT = 30.0


class Gm(Protocol):
    def status(self) -> GmStatus:
        """As of now."""

    def counters(self) -> Counters: ...

    async def drained(self) -> None:
        """Returns when this GM neither leads nor writes as one that does."""


class OwnEndpoints:
    def __init__(self, gm: Gm) -> None:
        self._gm = gm
        self._routes: dict[str, tuple[str, Handler]] = {
            "/livez": ("GET", self._livez),
            "/readyz": ("GET", self._readyz),
            "/metrics": ("GET", self._metrics),
            "/status": ("GET", self._status),
            "/drain": ("POST", self._drain),
        }

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        route = self._routes.get(request.path)
        if route is None:
            paths = ", ".join(self._routes)
            return _text(404, f"unknown path {request.path!r:.120}: there are {paths}")
        method, handler = route
        allowed = ("GET", "HEAD", "OPTIONS") if method == "GET" else (method, "OPTIONS")
        if request.method not in allowed:
            refusal = _text(405, f"{request.method} is not allowed on {request.path}")
            refusal.headers["Allow"] = ", ".join(allowed)
            return refusal
        if request.method == "OPTIONS":
            return web.Response(status=204, headers={"Allow": ", ".join(allowed)})
        try:
            return await handler(request)
        except BadInput as error:
            return _text(400, str(error))

    async def _livez(self, request: web.BaseRequest) -> web.StreamResponse:
        return _text(200, "ok")

    async def _readyz(self, request: web.BaseRequest) -> web.StreamResponse:
        leader = _query(request, "leader").get("leader", "false")
        if leader not in ("true", "false", "1", "0"):
            raise BadInput(f"leader={leader!r:.80}: write leader=true")
        status = self._gm.status()
        if status.lack:
            return _text(503, f"not ready: {status.lack}")
        if leader in ("true", "1") and not status.leader.is_leader:
            return _text(503, f"not the leader: that is {status.leader.holder or 'nobody'}")
        return _text(200, "ok")

    async def _metrics(self, request: web.BaseRequest) -> web.StreamResponse:
        text = render(measure(self._gm.status(), self._gm.counters()))
        return web.Response(body=text.encode(), headers={"Content-Type": CONTENT_TYPE})

    async def _status(self, request: web.BaseRequest) -> web.StreamResponse:
        body = self._gm.status().json()
        return web.Response(body=body, headers={"Content-Type": "application/json"})

    async def _drain(self, request: web.BaseRequest) -> web.StreamResponse:
        if not _is_local(request):
            return _text(403, "/drain is for this pod only: ask 127.0.0.1")
        try:
            async with asyncio.timeout(DRAIN_TIMEOUT):
                await self._gm.drained()
        except TimeoutError:
            return _text(503, f"still leading after {DRAIN_TIMEOUT:g}s")
        return _text(200, "does not lead")


def _query(request: web.BaseRequest, *known: str) -> dict[str, str]:
    """An unknown parameter is refused: a misspelt condition must not read as none."""
    query: dict[str, str] = {}
    for key, value in request.query.items():
        if key not in known:
            takes = ", ".join(known) or "none"
            raise BadInput(f"unknown parameter {key!r:.80}: {request.path} takes {takes}")
        if key in query:
            raise BadInput(f"parameter {key!r:.80} is given twice")
        query[key] = value
    return query


def _is_local(request: web.BaseRequest) -> bool:
    try:
        return ip_address((request.remote or "").partition("%")[0]).is_loopback
    except ValueError:
        return False


def _text(status: int, text: str) -> web.Response:
    return web.Response(status=status, text=f"{text}\n")
