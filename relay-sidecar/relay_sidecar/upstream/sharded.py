"""Answers to LISTs and WATCHes that were passed on without their shardSelector, reduced to it here.

Guarantees: no object of another shard is handed on, whatever upstream knows of shards; what is
asked for in no JSON, or over an upgraded connection, is refused.
"""

import asyncio
import zlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Final

from aiohttp import hdrs

from edge_sidecars.apimachinery.go_format import parse_query
from edge_sidecars.apimachinery.objects import Malformed
from edge_sidecars.apimachinery.request.accept import (
    accept_header,
    is_gzip,
    representation,
    takes_gzip,
)
from edge_sidecars.apimachinery.selection.shards import ShardSelector
from edge_sidecars.apimachinery.status import Refused, bad_request, not_acceptable
from edge_sidecars.kubeapi import Response, Unreachable
from edge_sidecars.runtime.formats.media_type import media_type
from edge_sidecars.runtime.web import aiohttp_web as web
from relay_sidecar.core.sharding import INCLUDE_OBJECT, NO_OBJECT, WatchInShard, list_in_shard
from relay_sidecar.core.upgrade_request import asks_for_websocket
from relay_sidecar.upstream.messages import BufferedResponse
from relay_sidecar.upstream.streaming import LONG

JSON: Final = "application/json"
# k8s.io/apiserver: defaultGzipContentEncodingLevel.
GZIP_LEVEL: Final = 1


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
        _check_json(answer.headers)
        hides = _hides_objects(request)
        content = list_in_shard(answer.content, shards, hides_objects=hides)
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


def accept_of_shards(request: web.BaseRequest, *, is_list: bool) -> str:
    """The Accept that asks upstream for the same in JSON. Raises `Refused` for a client that takes
    none."""
    wanted = representation(request.headers.get(hdrs.ACCEPT, ""))
    accept = accept_header(wanted, is_list=is_list)
    if accept is None:
        raise Refused(not_acceptable((JSON,)))
    return accept


def watch_in_shards(
    answer: Response, request: web.BaseRequest, shards: ShardSelector
) -> AsyncIterator[bytes]:
    """The watch as it comes, a failure as it is. Raises `Refused`."""
    if shards.is_everything or answer.status != HTTPStatus.OK:
        return answer.chunks()
    _check_json(answer.headers)
    hides = _hides_objects(request)
    return _selected(answer, WatchInShard(shards, hides_objects=hides))


async def _selected(answer: Response, filtered: WatchInShard) -> AsyncIterator[bytes]:
    async for chunk in answer.chunks():
        try:
            selected = filtered.more(chunk)
        except Malformed as error:
            raise Unreachable(f"the watch cannot be read: {error}") from error
        if selected:
            yield selected


def _check_json(headers: Mapping[str, str]) -> None:
    """Raises `Refused` for an answer in which no shard is found."""
    content_type = headers.get(hdrs.CONTENT_TYPE, "")
    if media_type(content_type) != JSON:
        raise Refused(not_acceptable((JSON,)))


def _hides_objects(request: web.BaseRequest) -> bool:
    query = parse_query(request.raw_path.partition("?")[2])
    return query.get(INCLUDE_OBJECT, ("",))[0] == NO_OBJECT
