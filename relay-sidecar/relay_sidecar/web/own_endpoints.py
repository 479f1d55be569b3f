"""The relay's own endpoints, on a port of their own: on the other one each path is Kubernetes'.

`/livez`: this process answers. `/readyz`: so does the Kubernetes API, cut off or not;
`?upstream=true`: and the link is up. `/metrics`, `/status`. They show no object.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol

from aiohttp import web

from relay_sidecar.metrics import Counters, measure
from relay_sidecar.status import RelayStatus
from sidecar.metrics import CONTENT_TYPE, render
from sidecar.values import BadInput

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

ALLOWED = ("GET", "HEAD", "OPTIONS")


class Relay(Protocol):
    @property
    def counters(self) -> Counters: ...

    def status(self) -> RelayStatus:
        """As of now."""
        ...


class OwnEndpoints:
    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self._routes: dict[str, Handler] = {
            "/livez": self._livez,
            "/readyz": self._readyz,
            "/metrics": self._metrics,
            "/status": self._status,
        }

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        handler = self._routes.get(request.path)
        if handler is None:
            paths = ", ".join(self._routes)
            return _text(404, f"unknown path {request.path!r:.120}: there are {paths}")
        if request.method not in ALLOWED:
            refusal = _text(405, f"{request.method} is not allowed on {request.path}")
            refusal.headers["Allow"] = ", ".join(ALLOWED)
            return refusal
        if request.method == "OPTIONS":
            return web.Response(status=204, headers={"Allow": ", ".join(ALLOWED)})
        try:
            return await handler(request)
        except BadInput as error:
            return _text(400, str(error))

    async def _livez(self, request: web.BaseRequest) -> web.StreamResponse:
        return _text(200, "ok")

    async def _readyz(self, request: web.BaseRequest) -> web.StreamResponse:
        upstream = _query(request, "upstream").get("upstream", "false")
        if upstream not in ("true", "false", "1", "0"):
            raise BadInput(f"upstream={upstream!r:.80}: write upstream=true")
        status = self._relay.status()
        if status.lack:
            return _text(503, f"not ready: {status.lack}")
        if upstream in ("true", "1") and not status.link.is_up:
            return _text(503, f"{status.link.server} is out of reach")
        return _text(200, "ok")

    async def _metrics(self, request: web.BaseRequest) -> web.StreamResponse:
        text = render(measure(self._relay.status(), self._relay.counters))
        return web.Response(body=text.encode(), headers={"Content-Type": CONTENT_TYPE})

    async def _status(self, request: web.BaseRequest) -> web.StreamResponse:
        body = self._relay.status().json()
        return web.Response(body=body, headers={"Content-Type": "application/json"})


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


def _text(status: int, text: str) -> web.Response:
    return web.Response(status=status, text=f"{text}\n")
