"""A whole answer of upstream: to be read here, and handed on to the client.

Guarantees: the client gets the bytes that upstream sent, inflated only where it does not accept
gzip; what cannot be inflated is no answer.
"""

import asyncio
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from aiohttp import hdrs
from multidict import CIMultiDictProxy

from edge_sidecars.apimachinery.accept import takes_gzip
from edge_sidecars.kubeapi import Answer, TooLong, Unreachable
from edge_sidecars.runtime.web import aiohttp_web as web
from relay_sidecar.upstream.hop_headers import end_to_end
from relay_sidecar.upstream.streaming import PIECE, in_parts, send_long

# Bytes; more are inflated beside the event loop: it takes some 10 ms for a compressed MiB.
LONG = 128 * 1024
# Bytes of content that are looked at to see how an answer begins.
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
        return is_packed(self.headers)

    def decoded(self) -> bytes:
        return self.content


async def fetched(answer: Answer, body: bytes, *, limit: int) -> Fetched:
    """Raises `Unreachable` for broken bytes, `TooLong` over `limit` of them."""
    content = body
    if is_packed(answer.headers) and body:
        content = (
            _unpacked(body, limit)
            if len(body) <= LONG
            else await asyncio.to_thread(_unpacked, body, limit)
        )
    return Fetched(answer.status, answer.reason, answer.headers, body, content)


def beginning(answer: Answer, first: bytes) -> bytes:
    """The first bytes of an answer's content, as far as `first` of its body holds them."""
    if not is_packed(answer.headers):
        return first[:HEAD]
    try:
        return next(Inflation(HEAD).pieces(first), b"")
    except Unreachable:
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


def is_packed(headers: Mapping[str, str]) -> bool:
    """Whether a body with these headers is gzip."""
    return headers.get(hdrs.CONTENT_ENCODING, "").lower() == "gzip"


class Inflation:
    """A gzip body (RFC 1952: one or more members), inflated as it arrives.

    At most `size` bytes at a time, so that a body that inflates a thousandfold takes no more memory
    than others.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._member = _member()

    def pieces(self, packed: bytes) -> Iterator[bytes]:
        """What `packed` adds to the content. Raises `Unreachable` for what is no gzip."""
        while True:
            if self._member.eof and packed:
                self._member = _member()
            try:
                piece = self._member.decompress(packed, self._size)
            except zlib.error as error:
                raise Unreachable(f"the answer cannot be unpacked: {error}") from error
            if piece:
                yield piece
            packed = self._member.unconsumed_tail or self._member.unused_data
            # A full piece may leave more of them in the decompressor.
            if not packed and (self._member.eof or len(piece) < self._size):
                return

    def end(self) -> None:
        """Raises `Unreachable` where the last member is not whole."""
        if not self._member.eof:
            raise Unreachable("the answer's packed bytes are not whole")


def _member() -> "zlib._Decompress":
    return zlib.decompressobj(16 + zlib.MAX_WBITS)


def _unpacked(body: bytes, limit: int) -> bytes:
    # One piece, as a rule: joining several needs the memory twice.
    inflation, pieces, size = Inflation(limit + 1), [], 0
    for piece in inflation.pieces(body):
        size += len(piece)
        if size > limit:
            raise TooLong(f"over {limit} bytes")
        pieces.append(piece)
    inflation.end()
    return b"".join(pieces)
