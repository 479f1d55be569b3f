"""The Kubernetes API on localhost: who may, what is asked, and which part of the relay answers.

Every path belongs to Kubernetes. What is neither kept nor shared goes upstream as it is. A write is
sent once or refused, never faked; one whose outcome is unknown is answered as such, and never sent
again. Whatever goes wrong is a Status object.
"""

from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus
from time import monotonic
from typing import Final

from aiohttp import hdrs
from multidict import MultiMapping

from edge_sidecars.apimachinery.request.accept import accept_header
from edge_sidecars.apimachinery.request.list_options import has_long_selectors, shard_selector
from edge_sidecars.apimachinery.request.request_info import ListOptions, RequestInfo, representation
from edge_sidecars.apimachinery.selection.shards import EVERYTHING, ShardSelector
from edge_sidecars.apimachinery.status import (
    Refused,
    expired,
    no_such_resource,
    not_shown_as,
    unavailable,
)
from edge_sidecars.kubeapi import NotSent, Unreachable
from edge_sidecars.runtime.web import aiohttp_web as web
from relay_sidecar.access.admission import CALLER, Access
from relay_sidecar.core.caching import NEVER_KEPT as NEVER_KEPT
from relay_sidecar.core.caching import may_be_kept
from relay_sidecar.core.link import SERVER
from relay_sidecar.core.min_resource_version import FIRST_OF_VIEW
from relay_sidecar.core.upgrade_request import asks_for_upgrade
from relay_sidecar.telemetry.metrics import Source
from relay_sidecar.upstream.documents.documents import DocumentCache
from relay_sidecar.upstream.messages import ClientRequest, Upstream
from relay_sidecar.upstream.proxy import IS_PASSED_ON, READS
from relay_sidecar.web.discovery import Discovery
from relay_sidecar.web.reads.reads import Reads
from relay_sidecar.web.reads.selection import ClientRead
from relay_sidecar.web.responses import Refusals

# Each is held against each of the streams', and against each object. No client on a node has more.
MAX_REQUIREMENTS: Final = 128
# Those that change their object, of all built-in and custom resources (pkg/registry of Kubernetes
# 1.37); `token` changes nothing, and what else there is connects.
WRITTEN_SUBRESOURCES: Final = frozenset(
    {"", "status", "scale", "eviction", "binding", "ephemeralcontainers", "resize", "finalize"}
)
# Seconds; what took longer was no blip of the link.
QUICK: Final = 1.0
WRITES: Final = frozenset({"create", "update", "patch", "delete", "deletecollection"})

# Of a request whose answer is not longer under way than its bytes are.
TIMED: Final = WRITES | {"get", "list"}
TIMED_VERB = web.RequestKey("timed_verb", str)

Answer = Callable[[web.BaseRequest, RequestInfo], Awaitable[web.StreamResponse | None]]


class Api:
    def __init__(
        self,
        access: Access,
        upstream: Upstream,
        reads: Reads,
        discovery: Discovery,
        *,
        link_known: Callable[[], Awaitable[None]],
        link_settled: Callable[[], Awaitable[bool]],
        is_link_open: Callable[[], bool],
        logs_refusals: bool = False,
        answered_before: Sequence[Answer] = (),
    ) -> None:
        """`link_settled` returns whether upstream can be reached, once an outage is no blip;
        `answered_before` are asked first about each request for a resource."""
        self._access = access
        self._link_settled = link_settled
        self._upstream = upstream
        self._reads = reads
        self._discovery = discovery
        self._is_cluster_scoped = discovery.documents.is_cluster_scoped
        self.link_known = link_known
        self._answered_before = answered_before
        self.refusals = Refusals(
            reads.streams.counters, are_logged=logs_refusals, is_link_open=is_link_open
        )

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        answer: web.StreamResponse
        began_at = monotonic()
        try:
            answer = await self._answer_over_blips(request)
        except Refused as refused:
            answer = self.refusals.answer(request, refused.status)
        except Unreachable as error:
            status = unavailable(f"upstream is out of reach: {error}")
            answer = self.refusals.answer(request, status)
            # A relay before this one is to know who says so.
            answer.headers[hdrs.SERVER] = SERVER
        counters = self._reads.streams.counters
        source: Source = "upstream" if IS_PASSED_ON in request else "cache"
        counters.answered(request.method, answer.status, source)
        if TIMED_VERB in request:
            counters.took(request[TIMED_VERB], source, monotonic() - began_at)
        return answer

    async def _answer_over_blips(self, request: web.BaseRequest) -> web.StreamResponse:
        """A read that the link's going has made unavailable is answered once more if that is back
        in a moment. A client is asked to repeat only what may succeed then. What is asked of the
        API server itself is not: a relay before this one asks so whether the link is up, and has to
        learn of each outage, since its watches miss what this one's do."""
        began_at = monotonic()
        try:
            return await self._answer(request)
        except (Refused, Unreachable) as error:
            if not _is_for_want_of_link(error):
                raise
            if not RequestInfo.parse(request.method, request.raw_path).is_resource:
                raise
            if not await self._link_settled():
                raise
            is_quick = monotonic() - began_at < QUICK
            if not is_quick or request.can_read_body:
                raise
            if not may_be_repeated(request.method, request.headers, error):
                raise
        return await self._answer(request)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        caller = request[CALLER] = await self._access.admit(request)
        info = RequestInfo.parse(request.method, request.raw_path)
        await self.link_known()
        if not info.is_resource:
            if request.method == "GET" and DocumentCache.is_kept(info.path):
                await self._access.may(caller, info, label_selector="", field_selector="")
                return await self._discovery.answer(request, info.path)
            return await self._upstream.forward(request)
        if info.verb in TIMED and info.subresource in WRITTEN_SUBRESOURCES:
            request[TIMED_VERB] = info.verb
        for each in self._answered_before:
            answer = await each(request, info)
            if answer is not None:
                return answer
        if info.verb in WRITES and changes_object(info):
            return await self._write(request, info)
        if not is_kept(info, request.headers):
            return await self._forward(request, info)
        if self._is_nowhere(info):
            if not self._upstream.is_up:
                raise Refused(no_such_resource())
            return await self._forward(request, info)
        if has_long_selectors(info.query) or not is_of_known_shards(info):
            return await self._forward(request, info)
        read = ClientRead(request, info, representation(request.headers.get("Accept", "")))
        if not read.wanted.fits(info.verb):
            if not self._upstream.is_up:
                raise Refused(not_shown_as(list_wanted=read.wanted.of_list))
            return await self._forward(request, info)
        if info.verb == "get":
            return await self._reads.get(read)
        options = ListOptions.parse(info.query)
        if info.verb == "watch" and not options.send_initial_events:
            check_is_upstreams(options.resource_version)
        if has_many_requirements(options):
            return await self._forward(request, info)
        return await self._reads.list_or_watch(read, options)

    def _is_nowhere(self, info: RequestInfo) -> bool:
        """The path of a namespace, for a resource that is in none: no stream answers it, though one
        of all objects would have none of that namespace."""
        is_namespace = info.resource.plural == "namespaces" and not info.resource.group
        return bool(info.namespace) and not is_namespace and self._is_cluster_scoped(info.resource)

    async def _forward(self, request: web.BaseRequest, info: RequestInfo) -> web.StreamResponse:
        return await self._upstream.forward(request, shards_of(info))

    async def _write(self, request: web.BaseRequest, info: RequestInfo) -> web.StreamResponse:
        """Raises `Refused` where upstream is out of reach, or its answer was lost."""
        if "dryRun" in info.query:
            return await self._upstream.forward(request)
        writes = self._reads.writes
        wanted = representation(request.headers.get("Accept", ""))
        are_many = info.verb == "deletecollection"
        asked_at = self._reads.freshness.wall()
        answer = await self._upstream.write(
            ClientRequest(request, accept_header(wanted, is_list=are_many), None)
        )
        if answer.status in (200, 201, 202):
            if is_learned_from(info, request.headers):
                await writes.written(info, wanted, answer, asked_at)
            else:
                writes.changed(info, wanted, answer)
        return await answer.send(request)


def may_be_repeated(method: str, headers: MultiMapping[str], error: Refused | Unreachable) -> bool:
    """Whether it does nothing twice: an upgrade, which is a GET, may run a command in a container
    (`exec`), unless it was certainly not sent."""
    if method not in READS:
        return False
    is_unsent = not isinstance(error, Unreachable) or isinstance(error, NotSent)
    return is_unsent or not asks_for_upgrade(headers)


def _is_for_want_of_link(error: Refused | Unreachable) -> bool:
    if isinstance(error, Unreachable):
        return True
    return error.status.code == HTTPStatus.SERVICE_UNAVAILABLE and error.status.retry_after is None


def is_kept(info: RequestInfo, headers: MultiMapping[str]) -> bool:
    """Whether this read may be answered from what is kept, ever."""
    return (
        info.is_canonical
        and info.method == "GET"
        and info.verb in ("get", "list", "watch")
        and is_learned_from(info, headers)
        and not info.subresource
    )


def has_many_requirements(options: ListOptions) -> bool:
    asked = len(options.labels.requirements) + len(options.fields.requirements)
    return asked > MAX_REQUIREMENTS


def check_is_upstreams(version: int | None) -> None:
    """A version of the endpoint view would be waited for for ever. Raises `Refused`."""
    if version is not None and version >= FIRST_OF_VIEW:
        raise Refused(expired(version))


def shards_of(info: RequestInfo) -> ShardSelector:
    """To which the answer to a request that is passed on is reduced; what else looks at the
    parameter, or how else it is written, upstream knows."""
    is_read = info.method == "GET" and info.verb in ("list", "watch") and not info.subresource
    return shard_selector(info.query) if is_read and is_of_known_shards(info) else EVERYTHING


def is_of_known_shards(info: RequestInfo) -> bool:
    """Whether its shardSelector, if any, is of the grammar that is evaluated here."""
    try:
        shard_selector(info.query)
    except Refused:
        return False
    return True


def changes_object(info: RequestInfo) -> bool:
    """Whether this write changes an object that may be kept here, whatever it is answered with."""
    return (
        info.is_canonical
        and may_be_kept(info.resource)
        and info.subresource in WRITTEN_SUBRESOURCES
    )


def is_learned_from(info: RequestInfo, headers: MultiMapping[str]) -> bool:
    """An upgrade that it asks for is no matter: a watch is served over a WebSocket as well, and of
    the others kube-apiserver takes no notice of it either."""
    return (
        info.is_canonical
        and may_be_kept(info.resource)
        and info.subresource in ("", "status")
        and not any(name.lower().startswith("impersonate-") for name in headers)
    )
