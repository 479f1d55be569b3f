"""A whole answer of upstream: to be read here, and handed on to the client.

Guarantees: the client gets the bytes that upstream sent, inflated only where it does not accept
gzip; what cannot be inflated is no answer.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from aiohttp import hdrs
from multidict import CIMultiDictProxy

from edge_sidecars.apimachinery.accept import is_gzip, takes_gzip
from edge_sidecars.kubeapi import Response, TooLong
from edge_sidecars.runtime.web import aiohttp_web as web
from relay_sidecar.upstream.client_request import end_to_end
from relay_sidecar.upstream.streaming import LONG, PIECE, Inflation, in_parts, send_long


@dataclass(frozen=True, slots=True)
class BufferedResponse:
    """`body` in the content coding that the headers tell; `content` without. `asked` is the body
    of the request."""

    status: int
    reason: str
    headers: CIMultiDictProxy[str]
    body: bytes
    content: bytes
    asked: bytes = b""

    @classmethod
    async def of(cls, answer: Response, body: bytes, *, limit: int) -> "BufferedResponse":
        """Raises `Unreachable` for broken bytes, `TooLong` over `limit` of them."""
        content = body
        if body and _is_gzip(answer.headers):
            # More are inflated beside the event loop: it takes some 10 ms for a compressed MiB.
            is_short = len(body) <= LONG
            content = (
                _inflated(body, limit)
                if is_short
                else await asyncio.to_thread(_inflated, body, limit)
            )
        return cls(answer.status, answer.reason, answer.headers, body, content)

    async def send(self, request: web.BaseRequest) -> web.StreamResponse:
        """The same to the client."""
        headers = end_to_end(self.headers)
        headers.popall(hdrs.CONTENT_LENGTH, None)
        body = self.body
        if _is_gzip(self.headers) and not takes_gzip(request.headers.get(hdrs.ACCEPT_ENCODING, "")):
            headers.popall(hdrs.CONTENT_ENCODING)
            body = self.content
        if len(body) <= PIECE:
            return web.Response(status=self.status, reason=self.reason, headers=headers, body=body)
        response = web.StreamResponse(status=self.status, reason=self.reason, headers=headers)
        response.content_length = len(body)
        return await send_long(request, response, in_parts(body))


def _is_gzip(headers: Mapping[str, str]) -> bool:
    return is_gzip(headers.get(hdrs.CONTENT_ENCODING, ""))


def _inflated(body: bytes, limit: int) -> bytes:
    # One piece, as a rule: joining several needs the memory twice.
    inflation, pieces, size = Inflation(limit + 1), [], 0
    for piece in inflation.pieces(body):
        size += len(piece)
        if size > limit:
            raise TooLong(f"over {limit} bytes")
        pieces.append(piece)
    inflation.end()
    return b"".join(pieces)
