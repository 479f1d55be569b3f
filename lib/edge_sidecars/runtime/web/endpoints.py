"""What endpoints for probes, Prometheus and people have in common.

Knows none of them. Guarantees: A path that is not there, a method that is not allowed and bad input
are answered with what there is instead. Wherever GET works, HEAD and OPTIONS answer with the same
status and headers and without a body, because health checks ask by any of the three (HAProxy's
`option httpchk` by OPTIONS).
"""

from collections.abc import Callable, Iterable, Mapping

from edge_sidecars.runtime import process_metrics
from edge_sidecars.runtime.cli.values import BadInput
from edge_sidecars.runtime.metrics import CONTENT_TYPE, Metric, render
from edge_sidecars.runtime.web import aiohttp_web as web
from edge_sidecars.runtime.web import listener_metrics
from edge_sidecars.runtime.web.connections import Handler
from edge_sidecars.runtime.web.cross_site import READS as READS
from edge_sidecars.runtime.web.page.asked import Page

# A method, GET or POST, and who answers.
Route = tuple[str, Handler]


def own_routes(
    *,
    ready: Handler,
    measure: Callable[[], Iterable[Metric]],
    status: Callable[[], bytes],
) -> dict[str, Route]:
    """What kubelet, Prometheus and people ask of each process: /livez (it answers), /readyz,
    /metrics and /status, whose document is JSON."""

    async def live(_: web.BaseRequest) -> web.StreamResponse:
        return text(200, "ok")

    async def measured(_: web.BaseRequest) -> web.StreamResponse:
        return metrics(measure())

    async def described(_: web.BaseRequest) -> web.StreamResponse:
        return json(status())

    return {
        "/livez": ("GET", live),
        "/readyz": ("GET", ready),
        "/metrics": ("GET", measured),
        "/status": ("GET", described),
    }


async def routed(
    request: web.BaseRequest, routes: Mapping[str, Route], page: Page | None = None
) -> web.StreamResponse:
    """The answer of the path's route, or of the page; 404 with all paths where there is none."""
    route = routes.get(request.path)
    if page is not None and page.has(request):
        route = "GET", page.answer
    if route is None:
        paths = ", ".join(routes)
        return text(404, f"unknown path {request.path!r:.120}: there are {paths}")
    return await served(request, route)


async def served(request: web.BaseRequest, route: Route) -> web.StreamResponse:
    """The route's answer; 405 for another method, 400 for `BadInput`."""
    method, handler = route
    allowed = ", ".join(READS if method == "GET" else (method, "OPTIONS"))
    if request.method not in allowed.split(", "):
        refusal = text(405, f"{request.method} is not allowed on {request.path}")
        refusal.headers["Allow"] = allowed
        return refusal
    if request.method == "OPTIONS" and method != "GET":
        return web.Response(status=204, headers={"Allow": allowed})
    try:
        answer = await handler(request)
    except BadInput as error:
        answer = text(400, str(error))
    return options(answer, allowed) if request.method == "OPTIONS" else answer


def options(answer: web.StreamResponse, allowed: str) -> web.StreamResponse:
    """The answer of GET as OPTIONS gives it; a stream is not to be begun for it."""
    if not isinstance(answer, web.Response):
        raise TypeError("OPTIONS was answered with a stream")
    answer.body = None
    answer.headers["Allow"] = allowed
    return answer


def query(request: web.BaseRequest, *known: str) -> dict[str, str]:
    """An unknown parameter is refused: a misspelt condition must not read as none."""
    found: dict[str, str] = {}
    for key, value in request.query.items():
        if key not in known:
            takes = ", ".join(known) or "none"
            raise BadInput(f"unknown parameter {key!r:.80}: {request.path} takes {takes}")
        if key in found:
            raise BadInput(f"parameter {key!r:.80} is given twice")
        found[key] = value
    return found


def is_asked(request: web.BaseRequest, name: str) -> bool:
    """Whether the only parameter of the path is given, and true."""
    told = query(request, name).get(name, "false")
    if told not in ("true", "false", "1", "0"):
        raise BadInput(f"{name}={told!r:.80}: write {name}=true")
    return told in ("true", "1")


def text(status: int, line: str, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.Response(status=status, text=f"{line}\n", headers=headers)


def json(body: bytes) -> web.Response:
    return web.Response(body=body, headers={"Content-Type": "application/json"})


def metrics(measured: Iterable[Metric]) -> web.Response:
    """With what every process measures of itself and its listeners."""
    body = render([*measured, *listener_metrics.measure(), *process_metrics.measure()])
    return web.Response(body=body.encode(), headers={"Content-Type": CONTENT_TYPE})
