"""HTTP messages that are passed on, and upstream as the handlers of requests see it.

Headers between two neighbours stay behind (RFC 9110, 7.6.1 and 7.8), and so does what says who the
caller is. Guarantees of a request's body: a client that waits to be asked for it (Expect:
100-continue) is asked once upstream takes it; what is not whole never ends as if it were; why it
failed is known afterwards. Of a response: the client gets the bytes that upstream sent, inflated
only where it does not accept gzip; what cannot be inflated is no answer.
"""

import asyncio
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Final, NoReturn, Protocol

from aiohttp import hdrs
from aiohttp.web_protocol import RequestPayloadError
from multidict import CIMultiDict, CIMultiDictProxy, MultiMapping
from yarl import URL

from edge_sidecars.apimachinery.request.accept import is_gzip, takes_gzip
from edge_sidecars.apimachinery.selection.shards import EVERYTHING, ShardSelector
from edge_sidecars.apimachinery.status import Refused, Status, bad_request
from edge_sidecars.kubeapi import Response, TooLong
from edge_sidecars.runtime.web import aiohttp_web as web
from edge_sidecars.runtime.web.connections import Connection
from relay_sidecar.core.upgrade_request import (
    asks_for_upgrade,
    connection_options,
    drop_websocket_token,
    names_itself,
)
from relay_sidecar.streams.list_encoder import Pieces
from relay_sidecar.upstream.streaming import LONG, PIECE, Inflation, StreamObserver, send_long

HOP_BY_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
# Headers that are not forwarded; the relay sets Host itself.
_OURS = (hdrs.HOST, hdrs.AUTHORIZATION, hdrs.EXPECT)
CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


@dataclass(frozen=True, slots=True)
class ClientRequest:
    """A client's request on its way upstream. `accept` takes the place of what the client accepts,
    None: as it says; upstream may think for `header_timeout` seconds, None: for as long as the link
    is up. `target` takes the place of
    the request's own. `changes_nothing` at upstream, though its method says that it may."""

    request: web.BaseRequest
    accept: str | None
    header_timeout: float | None
    target: str | None = None
    changes_nothing: bool = False


def headers_upstream(
    request: web.BaseRequest, ours: Mapping[str, str], *, upgrades_at: str | None = None
) -> CIMultiDict[str]:
    """Those of the client's request that go on; `ours` say who asks. `upgrades_at`: the URL of the
    server whose answer may be in the protocol that the client asks for."""
    headers = end_to_end(request.headers)
    for name in _OURS:
        headers.popall(name, None)
    headers.update(ours)
    drop_websocket_token(headers)
    if upgrades_at is not None and asks_for_upgrade(request.headers):
        headers[hdrs.CONNECTION] = "Upgrade"
        headers.extend((hdrs.UPGRADE, each) for each in request.headers.getall(hdrs.UPGRADE))
        if names_itself(request.headers):
            # The server is another one there; a relay would refuse the Origin of any other.
            url = URL(upgrades_at)
            headers[hdrs.ORIGIN] = f"{url.scheme}://{url.host_port_subcomponent}"
    return headers


def end_to_end(headers: MultiMapping[str]) -> CIMultiDict[str]:
    """Those that are passed on, in their order, each as often as it came."""
    dropped = HOP_BY_HOP
    if hdrs.CONNECTION in headers:
        dropped |= connection_options(headers)
    return CIMultiDict([pair for pair in headers.items() if pair[0].lower() not in dropped])


class Upload:
    """An iterator; `failure` is the answer to the client, or that it has gone."""

    def __init__(self, request: web.BaseRequest) -> None:
        self._request = request
        self._is_expected = request.headers.get(hdrs.EXPECT, "").lower() == "100-continue"
        self.failure: Refused | ConnectionError | None = None

    def __aiter__(self) -> "Upload":
        return self

    async def __anext__(self) -> bytes:
        try:
            if self._is_expected:
                self._is_expected = False
                await self._ask()
            chunk = await self._request.content.readany()
        except RequestPayloadError as error:
            self.failure = Refused(bad_request("the body is not what its headers say"))
            raise self.failure from error
        except ConnectionError as error:
            self.failure = error
            raise
        if not chunk:
            raise StopAsyncIteration
        return chunk

    def is_within(self, limit: int) -> bool:
        """Whether it says that it is no longer than `limit` bytes."""
        length = self._request.content_length
        return length is not None and length <= limit

    async def whole(self, *, limit: int) -> bytes:
        """Raises `Refused` where it is longer than `limit` bytes or no body."""
        if (self._request.content_length or 0) > limit:
            raise Refused(too_large(limit))
        found = bytearray()
        if isinstance(self._request.protocol, Connection):
            self._request.protocol.gathers_body = True
        async for chunk in self:
            found += chunk
            if len(found) > limit:
                raise Refused(too_large(limit))
        return bytes(found)

    async def _ask(self) -> None:
        writer = self._request.writer
        await writer.write(CONTINUE)
        # It is no part of the answer, of which nothing was sent yet.
        writer.output_size = 0


def upload_of(request: web.BaseRequest) -> Upload | None:
    """None where there is none."""
    return Upload(request) if request.can_read_body else None


def too_large(limit: int) -> Status:
    """NewRequestEntityTooLargeError of apimachinery's pkg/api/errors."""
    return Status(
        code=413,
        reason="RequestEntityTooLarge",
        message=f"Request entity is too large: limit is {limit}",
    )


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
        return await send_long(request, response, Pieces([body]))


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


class Upstream(Protocol):
    """Upstream, as a request may reach it. Raises `kubeapi.Unreachable`."""

    @property
    def is_up(self) -> bool: ...

    @property
    def is_relayed(self) -> bool:
        """The API server is offline: upstream is another relay, which answers from its cache."""
        ...

    @property
    def cause(self) -> str:
        """Why the API server is not reached; "" while it is."""
        ...

    def question(self, asked: ClientRequest) -> Hashable:
        """Equal for reads that upstream cannot tell apart: of the same thing, in the same form, by
        the same caller."""
        ...

    async def fetch(self, asked: ClientRequest) -> BufferedResponse: ...

    async def stream(
        self, asked: ClientRequest, observer: StreamObserver
    ) -> web.StreamResponse | BufferedResponse:
        """As it comes, where `observer` says so of how it begins; else whole."""
        ...

    async def write(self, asked: ClientRequest) -> BufferedResponse:
        """Raises `Refused` with what is known of the outcome."""
        ...

    async def forward(
        self, request: web.BaseRequest, shards: ShardSelector = EVERYTHING
    ) -> web.StreamResponse:
        """`shards`: of a LIST or WATCH, to which the answer is reduced, whatever upstream knows of
        them. Raises `Refused` where it cannot be."""
        ...


class NoUpstream:
    """For who answers from its streams alone: whatever would be asked of upstream raises
    `refusal()`."""

    is_up = False
    is_relayed = False
    cause = ""

    def __init__(self, refusal: Callable[[], Exception]) -> None:
        self._refusal = refusal

    def question(self, asked: ClientRequest) -> Hashable:
        return asked

    async def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise self._refusal()

    fetch = stream = write = forward = _refuse
