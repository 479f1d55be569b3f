"""`--shard-pushdown`: a shardSelector is passed on where upstream applies it.

For big objects over a thin link: each client's LIST or WATCH of a shard is then its own upstream,
and nothing of it is cached. Guarantees: what upstream answers is reduced to the shard all the same;
where upstream is not known to apply shards to a resource, or a live stream holds what is asked, the
request is answered as without the flag. What upstream does is asked once per resource, and again
after each change of the link: it may be another API server.
"""

from typing import Final
from urllib.parse import quote

import msgspec
from msgspec import Raw, Struct

from edge_sidecars.apimachinery.request.list_options import SHARD_SELECTOR
from edge_sidecars.apimachinery.request.request_info import RequestInfo
from edge_sidecars.apimachinery.scope import ListScope, ResourceName
from edge_sidecars.apimachinery.selection.shards import ShardSelector
from edge_sidecars.kubeapi import Unreachable
from edge_sidecars.runtime.web import aiohttp_web as web
from relay_sidecar.streams.streams import Streams
from relay_sidecar.upstream.messages import ClientRequest
from relay_sidecar.web.upstream import Upstream

# One hash of 2^64: no object has it.
NOTHING: Final = "shardRange(object.metadata.uid,'0x0000000000000000','0x0000000000000001')"
_SELECTS_NOTHING: Final = f"{SHARD_SELECTOR}={quote(NOTHING)}"


class _Metadata(Struct, rename="camel"):
    shard_info: object = None


class _List(Struct):
    metadata: _Metadata
    items: list[Raw] | None


_LIST: Final = msgspec.json.Decoder(_List)


class ShardPushdown:
    """`timeout` in seconds, of a question about a resource."""

    def __init__(self, upstream: Upstream, streams: Streams, *, timeout: float) -> None:
        self._upstream = upstream
        self._streams = streams
        self._timeout = timeout
        self._applied: dict[ResourceName, bool] = {}

    def link(self, is_up: bool) -> None:
        self._applied.clear()

    async def answer(
        self,
        request: web.BaseRequest,
        info: RequestInfo,
        scope: ListScope | None,
        shards: ShardSelector,
    ) -> web.StreamResponse | None:
        """Upstream's answer; None where it is to be answered as without the flag. `scope`: of the
        stream that could serve it; None if none could."""
        scope = scope or ListScope(info.resource, info.namespace)
        if shards.is_everything or not self._upstream.is_up:
            return None
        if self._streams.at_hand(scope) is not None:
            return None
        try:
            if await self._is_applied(request, scope):
                return await self._upstream.forward(request, shards, tells_shards=True)
        except Unreachable:
            pass
        return None

    async def _is_applied(self, request: web.BaseRequest, scope: ListScope) -> bool:
        resource = scope.resource
        if resource not in self._applied:
            found = await self._asked(request, scope)
            if found is None:
                return False
            self._applied[resource] = found
        return self._applied[resource]

    async def _asked(self, request: web.BaseRequest, scope: ListScope) -> bool | None:
        """None where that cannot be told: refused, or there is no object. Raises `Unreachable`."""
        selected = await self._listed(request, f"{scope.path}?limit=1&{_SELECTS_NOTHING}")
        if selected is None or selected.metadata.shard_info is not None:
            return None if selected is None else True
        if selected.items:
            return False
        # Of a custom resource kube-apiserver does not say that it was filtered.
        there = await self._listed(request, f"{scope.path}?limit=1")
        return True if there is not None and there.items else None

    async def _listed(self, request: web.BaseRequest, target: str) -> _List | None:
        asked = ClientRequest(request, "application/json", self._timeout, target)
        answer = await self._upstream.fetch(asked)
        try:
            return _LIST.decode(answer.content) if answer.status == 200 else None
        except (ValueError, RecursionError):
            return None
