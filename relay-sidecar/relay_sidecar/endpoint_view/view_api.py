"""The endpoint view: the relay's API, with EndpointSlices as this node's own verdicts have them.

For kube-proxy and CoreDNS. Everything but EndpointSlices is answered by the relay's ordinary API.
EndpointSlices have versions of their own here, in JSON, and are read only: a write, a form of the
path that other readers might take for another one, and a representation without JSON are refused.
Guarantees: no version of the view is ever asked for elsewhere, and none from elsewhere is waited
for here.
"""

from http import HTTPStatus
from typing import Final

from edge_sidecars.apimachinery.request.list_options import has_long_selectors
from edge_sidecars.apimachinery.request.request_info import (
    ListOptions,
    RequestInfo,
    get_version,
    representation,
)
from edge_sidecars.apimachinery.resources import ResourceName
from edge_sidecars.apimachinery.status import (
    Refused,
    Status,
    bad_request,
    expired,
    forbidden,
    not_acceptable,
    unavailable,
)
from edge_sidecars.runtime.web import aiohttp_web as web
from relay_sidecar.access.admission import CALLER, Access
from relay_sidecar.endpoint_view.view_stream import SLICES, EndpointView
from relay_sidecar.streams.streams import Streams
from relay_sidecar.web.api import Api, check_is_upstreams, is_kept
from relay_sidecar.web.reads.freshness import NotCached, StreamDenied, ready, unreachable
from relay_sidecar.web.reads.reads import Reads
from relay_sidecar.web.reads.selection import ClientRead, takes_whole

# Seconds; a disk that hangs is waited for for as long.
PATIENCE: Final = 3.0
# Characters. The relay passes longer ones on, and only the view has what it shows; to read so
# many takes some 50 ms.
LONGEST_SELECTORS: Final = 65_536


class EndpointViewApi:
    """`api`: the relay's ordinary one; `reads`: of the view's stream."""

    def __init__(
        self,
        api: Api,
        access: Access,
        reads: Reads,
        view: EndpointView,
        sources: Streams,
    ) -> None:
        self._api = api
        self._access = access
        self._reads = reads
        self._view = view
        self._sources = sources
        self._counters = sources.counters
        self._refusals = api.refusals

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        answer: web.StreamResponse
        try:
            info = RequestInfo.parse(request.method, request.raw_path)
            if not is_of_slices(info):
                _check_version(info)
                return await self._api.handle(request)
            answer = await self._answer(request, info)
        except Refused as refused:
            answer = self._refusals.answer(request, refused.status)
        self._counters.answered(request.method, answer.status, "cache")
        return answer

    async def _answer(self, request: web.BaseRequest, info: RequestInfo) -> web.StreamResponse:
        request[CALLER] = await self._access.admit(request)
        if info.method != "GET" or not info.is_canonical or info.subresource:
            raise Refused(read_only(request.method))
        if not is_kept(info, request.headers):
            why = "the endpoint view does not impersonate"
            raise Refused(forbidden(info.resource.plural, group=info.resource.group, why=why))
        read = ClientRead(request, info, representation(request.headers.get("Accept", "")))
        if not takes_whole(read.wanted):
            raise Refused(not_acceptable(("application/json",)))
        await self._api.link_known()
        if info.verb == "get":
            version = get_version(info.query)
            await self._permit(request, info)
            await self._reach(version)
            return await self._reads.get(read)
        if has_long_selectors(info.query, limit=LONGEST_SELECTORS):
            raise Refused(bad_request(f"selectors are longer than {LONGEST_SELECTORS} characters"))
        options = ListOptions.parse(info.query)
        await self._permit(request, info, str(options.labels), str(options.fields))
        await self._reach(options.resource_version)
        return await self._reads.list_or_watch(read, options)

    async def _permit(
        self, request: web.BaseRequest, info: RequestInfo, labels: str = "", fields: str = ""
    ) -> None:
        """Before anything is opened or waited for. Raises `Refused`."""
        await self._access.may(request[CALLER], info, label_selector=labels, field_selector=fields)

    async def _reach(self, version: int | None) -> None:
        """Until the view is as new as upstream's stream, which is as new as the request."""
        freshness = self._reads.freshness
        try:
            source = await ready(
                self._sources, SLICES, now=freshness.now(), since=freshness.clock()
            )
        except StreamDenied as denied:
            failure = denied.failure
            raise Refused(Status(failure.code, failure.reason, failure.message)) from denied
        except NotCached:
            raise unreachable() from None
        if not await self._view.reached(source, within=PATIENCE):
            raise Refused(unavailable("the endpoint view has not come to what upstream said last"))
        if version is not None and version > self._view.stream.version:
            # Of another life, or another relay: what is here now is not what comes after it.
            raise Refused(expired(version, self._view.stream.version))


class BuiltInFields:
    """EndpointSlices are built in: nothing is published of them."""

    async def published(self, resource: ResourceName) -> frozenset[str] | None:
        return frozenset()


def is_of_slices(info: RequestInfo) -> bool:
    return info.is_resource and info.resource == SLICES.resource


def read_only(method: str) -> Status:
    message = (
        f"{method} is not supported for EndpointSlices of the endpoint view: write at the API "
        "server, or at --listen of this relay"
    )
    return Status(HTTPStatus.METHOD_NOT_ALLOWED, "MethodNotAllowed", message)


def _check_version(info: RequestInfo) -> None:
    """Of what is not of the view. Raises `Refused`."""
    if info.method != "GET" or not info.is_resource:
        return
    if info.verb == "get":
        check_is_upstreams(get_version(info.query))
    elif info.verb in ("list", "watch"):
        check_is_upstreams(ListOptions.parse(info.query).resource_version)
