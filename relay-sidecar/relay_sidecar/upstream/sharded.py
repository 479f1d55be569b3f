"""Answers to LISTs and WATCHes that were passed on without their shardSelector, reduced to it here.

Guarantees: no object of another shard is handed on, whatever upstream knows of shards; where the
answer is in a form that is not read here, or over an upgraded connection, the request is refused.
"""

import asyncio
import zlib
from collections.abc import AsyncIterator
from dataclasses import replace
from http import HTTPStatus
from typing import Final, Protocol

from aiohttp import hdrs

from edge_sidecars.apimachinery.go_format import parse_query
from edge_sidecars.apimachinery.objects import Malformed
from edge_sidecars.apimachinery.request.accept import is_gzip, takes_gzip
from edge_sidecars.apimachinery.selection.shards import ShardSelector
from edge_sidecars.apimachinery.status import Refused, bad_request, not_acceptable
from edge_sidecars.kubeapi import Response, Unreachable
from edge_sidecars.runtime.web import aiohttp_web as web
from relay_sidecar.core.sharding import json_filter, protobuf_filter
from relay_sidecar.core.sharding.target import INCLUDE_OBJECT, NO_OBJECT
from relay_sidecar.core.upgrade_request import asks_for_websocket
from relay_sidecar.upstream.messages import BufferedResponse
from relay_sidecar.upstream.streaming import LONG

JSON: Final = "application/json"
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
# k8s.io/apiserver: defaultGzipContentEncodingLevel.
GZIP_LEVEL: Final = 1


class WatchFilter(Protocol):
    def more(self, piece: bytes) -> bytes:
        """What is selected of the events that are whole with this piece. Raises `Malformed`."""
        ...


async def list_in_shards(
    answer: BufferedResponse, request: web.BaseRequest, shards: ShardSelector
) -> BufferedResponse:
    """A failure is left as it is. Raises `Refused`, and `Unreachable` for what is no list."""
    if shards.is_everything or answer.status != HTTPStatus.OK:
        return answer
    # Some 10 ms for a MiB, beside the event loop.
    is_short = len(answer.content) <= LONG
    arguments = answer, request, shards
    return _reduced(*arguments) if is_short else await asyncio.to_thread(_reduced, *arguments)


def _reduced(
    answer: BufferedResponse, request: web.BaseRequest, shards: ShardSelector
) -> BufferedResponse:
    try:
        if _media_type(answer.headers.get(hdrs.CONTENT_TYPE, "")) == JSON:
            hides = _hides_objects(request)
            content = json_filter.list_in_shard(answer.content, shards, hides_objects=hides)
        else:
            content = protobuf_filter.list_in_shard(answer.content, shards)
    except Malformed as error:
        raise Unreachable(f"the list cannot be read: {error}") from error
    body = content
    # Without, it goes unpacked anyway (BufferedResponse.send).
    takes_packed = takes_gzip(request.headers.get(hdrs.ACCEPT_ENCODING, ""))
    if takes_packed and is_gzip(answer.headers.get(hdrs.CONTENT_ENCODING, "")):
        body = zlib.compress(content, GZIP_LEVEL, wbits=16 + zlib.MAX_WBITS)
    return replace(answer, body=body, content=content)


def check_shardable(request: web.BaseRequest) -> None:
    """Raises `Refused` where the events could not be reduced."""
    if asks_for_websocket(request.headers):
        raise Refused(bad_request("shardSelector is not applied to a watch over a WebSocket"))


def watch_in_shards(
    answer: Response, request: web.BaseRequest, shards: ShardSelector
) -> AsyncIterator[bytes]:
    """The watch as it comes, a failure as it is. Raises `Refused`."""
    if shards.is_everything or answer.status != HTTPStatus.OK:
        return answer.chunks()
    if _media_type(answer.headers.get(hdrs.CONTENT_TYPE, "")) == JSON:
        hides = _hides_objects(request)
        return _selected(answer, json_filter.WatchInShard(shards, hides_objects=hides))
    return _selected(answer, protobuf_filter.WatchInShard(shards))


async def _selected(answer: Response, filtered: WatchFilter) -> AsyncIterator[bytes]:
    async for chunk in answer.chunks():
        try:
            selected = filtered.more(chunk)
        except Malformed as error:
            raise Unreachable(f"the watch cannot be read: {error}") from error
        if selected:
            yield selected


def _media_type(content_type: str) -> str:
    """Raises `Refused` for one in which no shard is found."""
    found = content_type.partition(";")[0].strip().lower()
    if found not in (JSON, PROTOBUF):
        raise Refused(not_acceptable((JSON, PROTOBUF)))
    return found


def _hides_objects(request: web.BaseRequest) -> bool:
    query = parse_query(request.raw_path.partition("?")[2])
    return query.get(INCLUDE_OBJECT, ("",))[0] == NO_OBJECT
