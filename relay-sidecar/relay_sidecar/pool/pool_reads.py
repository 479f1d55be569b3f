"""What peers of the pool may read here: its pool-scoped streams, and nothing else.

Guarantees: A request needs the token of the pool-sidecar. Only GET, LIST and WATCH of what
--pool-resource names. Only from streams that the API server itself feeds and that are live, so that
no hub is fed by a hub, and nothing is asked of upstream for a peer. A watch ends when this is no
longer so. Where it is not so, the answer is 503 with Retry-After.
"""

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from aiohttp import hdrs

from edge_sidecars.apimachinery.request.request_info import (
    ListOptions,
    RequestInfo,
    representation,
)
from edge_sidecars.apimachinery.scope import ListScope, ResourceName
from edge_sidecars.apimachinery.status import Refused, forbidden, unauthorized, unavailable
from edge_sidecars.kubeapi.credentials import WatchedFiles
from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.formats.bearer import authorizes
from edge_sidecars.runtime.web import aiohttp_web as web
from relay_sidecar.access.admission import CALLER, Caller
from relay_sidecar.config.preload import Preload
from relay_sidecar.journal.journal import Journal
from relay_sidecar.streams.stream import Stream
from relay_sidecar.streams.streams import Streams
from relay_sidecar.upstream.messages import NoUpstream
from relay_sidecar.upstream.reflector.source import CLOUD
from relay_sidecar.web.api import is_kept
from relay_sidecar.web.reads.freshness import ReadSettings
from relay_sidecar.web.reads.reads import Reads
from relay_sidecar.web.reads.selection import ClientRead, SelectableFields, by_name
from relay_sidecar.web.responses import status_answer


def shared_stream(streams: Streams, declared: Preload) -> Stream | None:
    """The one that holds what was declared, the best of all versions."""
    found = [it for it in streams if is_declared(declared, it)]
    return max(found, key=lambda it: (it.is_live(), it.collection.is_synced), default=None)


def is_declared(declared: Preload, stream: Stream) -> bool:
    """Whether a stream is what was declared, no more and no less."""
    return _scope(declared, stream.scope.resource) == stream.scope


def is_shared(declared: Preload, scope: ListScope) -> bool:
    """Whether what was declared holds all of it."""
    whole = _scope(declared, scope.resource)
    return whole is not None and whole.covers(scope)


def _scope(declared: Preload, resource: ResourceName) -> ListScope | None:
    """In the resource's version; None of another resource."""
    is_named = (resource.plural, resource.group) == (declared.plural, declared.group)
    return declared.scope(resource.version) if is_named else None


# Seconds for which a stream may lack the proof that nothing is missing: its watch begins anew.
GRACE: Final = 3.0
# Seconds between two looks at it.
LOOK: Final = 0.5
RETRY_AFTER: Final = "1"


class PoolReads:
    """`token`: of the pool-sidecar of this node."""

    def __init__(
        self,
        declared: Sequence[Preload],
        streams: Streams,
        schemas: SelectableFields,
        token: WatchedFiles[str],
        settings: ReadSettings,
    ) -> None:
        self._declared = declared
        self._streams = streams
        self._token = token
        self._reads = Reads(
            _EveryPeer(),
            NoUpstream(_not_asked),
            streams,
            schemas,
            Journal(None),
            replace(settings, reads_cache=True),
        )

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            answer = await self._answer(request)
        except Refused as refused:
            answer = status_answer(refused.status)
            if refused.status.code == 503:
                answer.headers[hdrs.RETRY_AFTER] = RETRY_AFTER
        return answer

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if not authorizes(request.headers.get(hdrs.AUTHORIZATION), self._token.get()):
            raise Refused(unauthorized())
        request[CALLER] = Caller()
        info = RequestInfo.parse(request.method, request.raw_path)
        if not info.is_resource or not is_kept(info, request.headers):
            raise Refused(forbidden("", why="peers read pool-scoped resources only"))
        read = ClientRead(request, info, representation(request.headers.get("Accept", "")))
        if info.verb == "get":
            await self._wait_fed(by_name(info))
            return await self._reads.get(read)
        options = ListOptions.parse(info.query)
        scope = ListScope(info.resource, info.namespace, options.labels, options.fields)
        await self._wait_fed(scope)
        if info.verb == "list":
            # A page would be one of a list that upstream is asked for.
            whole = replace(options, limit=0, continue_token="")
            return await self._reads.list_or_watch(read, whole)
        watching = asyncio.create_task(self._end_unfed(request, scope))
        try:
            return await self._reads.list_or_watch(read, options)
        finally:
            watching.cancel()

    async def _wait_fed(self, scope: ListScope) -> None:
        """Raises `Refused`."""
        deadline = boottime() + GRACE
        while not self._is_fed(scope):
            if not self._is_shared(scope) or boottime() >= deadline:
                raise Refused(unavailable(f"{scope} is no live stream of the API server here"))
            await asyncio.sleep(LOOK)

    async def _end_unfed(self, request: web.BaseRequest, scope: ListScope) -> None:
        fed_at = boottime()
        while boottime() - fed_at <= GRACE:
            await asyncio.sleep(LOOK)
            if self._is_fed(scope):
                fed_at = boottime()
        if request.transport is not None:
            request.transport.close()

    def _is_shared(self, scope: ListScope) -> bool:
        """Whether a stream that runs here would answer, as soon as it is live."""
        return any(
            stream.is_started and stream.scope.covers(scope)
            for stream in self._streams.of(scope.resource)
            if any(is_declared(it, stream) for it in self._declared)
        )

    def _is_fed(self, scope: ListScope) -> bool:
        """Whether a declared stream that holds this is live, and the API server's."""
        return any(
            stream.source == CLOUD and stream.is_live()
            for stream in self._streams.covering(scope)
            if any(is_declared(it, stream) for it in self._declared)
        )


class _EveryPeer:
    """Members of the pool: what they may read, is what is declared."""

    async def admit(self, request: web.BaseRequest) -> Caller:
        return Caller()

    async def may(
        self, caller: Caller, info: RequestInfo, *, label_selector: str, field_selector: str
    ) -> float:
        return math.inf

    def is_of_node(self, caller: Caller) -> bool:
        return False

    def link(self, is_up: bool) -> None:
        """Peers need no review."""

    def headers_for_upstream(self, caller: Caller) -> Mapping[str, str]:
        return {}


def _not_asked() -> Refused:
    return Refused(unavailable("for peers, upstream is not asked"))
