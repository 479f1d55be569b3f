"""A whole answer of upstream: to be read here, and handed on to the client.

Guarantees: the client gets the bytes that upstream sent, unpacked only where it does not take them
packed; what cannot be unpacked is no answer.
"""

import asyncio
import zlib
from dataclasses import dataclass

from aiohttp import hdrs
from multidict import CIMultiDictProxy

from edge_sidecars.apimachinery.accept import takes_gzip
from edge_sidecars.kubeapi import Answer, TooLong, Unreachable
from edge_sidecars.runtime.web import aiohttp_web as web
from relay_sidecar.upstream.hop_headers import end_to_end
from relay_sidecar.upstream.streaming import PIECE, in_parts, send_long

# Bytes; more are unpacked beside the event loop: it takes some 10 ms for a packed MiB.
LONG = 128 * 1024
# Bytes that are unpacked to see how an answer begins.
HEAD = 1024


@dataclass(frozen=True, slots=True)
class Fetched:
    """`body` in the content coding that the headers tell; `content` without. `asked` is the body
    of the request."""

    status: int
    reason: str
    headers: CIMultiDictProxy[str]
    body: bytes
    content: bytes
    asked: bytes = b""

    @property
    def is_packed(self) -> bool:
        return _is_packed(self.headers)

    def decoded(self) -> bytes:
        return self.content


async def fetched(answer: Answer, body: bytes, *, limit: int) -> Fetched:
    """Raises `Unreachable` for broken bytes, `TooLong` over `limit` of them."""
    content = body
    if _is_packed(answer.headers) and body:
        content = (
            _unpacked(body, limit)
            if len(body) <= LONG
            else await asyncio.to_thread(_unpacked, body, limit)
        )
    return Fetched(answer.status, answer.reason, answer.headers, body, content)


def beginning(answer: Answer, first: bytes) -> bytes:
    """What of its content is known of an answer by its first bytes."""
    if not _is_packed(answer.headers):
        return first
    try:
        return zlib.decompressobj(16 + zlib.MAX_WBITS).decompress(first, HEAD)
    except zlib.error:
        return b""


async def answer_of(request: web.BaseRequest, fetched: Fetched) -> web.StreamResponse:
    """The same to the client."""
    headers = end_to_end(fetched.headers)
    headers.popall(hdrs.CONTENT_LENGTH, None)
    body = fetched.body
    if fetched.is_packed and not takes_gzip(request.headers.get(hdrs.ACCEPT_ENCODING, "")):
        headers.popall(hdrs.CONTENT_ENCODING)
        body = fetched.content
    is_short = len(body) <= PIECE
    kind = web.Response if is_short else web.StreamResponse
    response = kind(status=fetched.status, reason=fetched.reason)
    response.headers.extend(headers)
    if isinstance(response, web.Response):
        response.body = body
        return response
    response.content_length = len(body)
    return await send_long(request, response, in_parts(body))


def _is_packed(headers: CIMultiDictProxy[str]) -> bool:
    return headers.get(hdrs.CONTENT_ENCODING, "").lower() == "gzip"


def _unpacked(body: bytes, limit: int) -> bytes:
    unpacking = zlib.decompressobj(16 + zlib.MAX_WBITS)
    try:
        content = unpacking.decompress(body, limit + 1)
    except zlib.error as error:
        raise Unreachable(f"the answer cannot be unpacked: {error}") from error
    if len(content) > limit:
        raise TooLong(f"over {limit} bytes")
    if not unpacking.eof:
        raise Unreachable("the answer's packed bytes are not whole")
    return content
