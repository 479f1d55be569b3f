"""Requests of clients, passed on to upstream as they are, and their answers.

Guarantees: nothing is sent twice; a client learns whether a write was certainly not sent (503) or
may have happened (504, without Retry-After, or client-go would send it again); an answer that
breaks off upstream breaks off here; whoever leaves takes the exchange along. Never looks into a
body.
"""

import zlib
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from aiohttp import hdrs, web
from multidict import CIMultiDict, CIMultiDictProxy

from kubeapi import Answer, ApiTransport, NotSent, TooLong, Unreachable
from relay_sidecar.access.admission import CALLER, Caller
from relay_sidecar.core.link import Outcome
from relay_sidecar.core.status import (
    Refused,
    Status,
    timeout_outcome_unknown,
    unavailable,
)
from relay_sidecar.web.answers import takes_gzip

# Set on a request that upstream was asked about.
IS_PASSED_ON = web.RequestKey("is_passed_on", bool)
# RFC 9110, 7.6.1, and what aiohttp says itself.
HOP_BY_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-connection",
        "proxy-authenticate",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
# Bytes of an answer that is to be remembered: 100,000 objects of 3 KB.
MAX_ANSWER = 512 * 1024 * 1024
# Bytes; kube-apiserver's limit of a body (MaxRequestBodyBytes) is 3 MiB.
MAX_KEPT_BODY = 8 * 1024 * 1024
# Seconds; kube-apiserver's --request-timeout, which what is not a watch never exceeds by itself.
LONGEST_REQUEST = 60.0


@dataclass(frozen=True, slots=True)
class Fetched:
    """A whole answer; `body` in the content coding that the headers tell."""

    status: int
    reason: str
    headers: CIMultiDictProxy[str]
    body: bytes

    def decoded(self) -> bytes:
        if self.headers.get(hdrs.CONTENT_ENCODING) == "gzip":
            return zlib.decompress(self.body, 16 + zlib.MAX_WBITS)
        return self.body


class Credentials(Protocol):
    def headers_for_upstream(self, caller: Caller) -> Mapping[str, str]: ...


class Proxy:
    """`is_up` tells of the link, `met` hears what each request met with."""

    def __init__(
        self,
        transport: ApiTransport,
        access: Credentials,
        *,
        is_up: Callable[[], bool],
        met: Callable[[Outcome], None],
    ) -> None:
        self._transport = transport
        self._access = access
        self._is_up = is_up
        self._met = met

    @property
    def is_up(self) -> bool:
        return self._is_up()

    async def fetch(
        self, request: web.BaseRequest, *, accept: str | None, header_timeout: float
    ) -> Fetched:
        """The whole answer to a read. Raises `Unreachable`."""
        headers = self._headers(request)
        if accept is not None:
            headers[hdrs.ACCEPT] = accept
        headers[hdrs.ACCEPT_ENCODING] = "gzip"
        return await self._whole(request, headers, None, header_timeout)

    async def write(
        self, request: web.BaseRequest, *, accept: str | None, header_timeout: float
    ) -> Fetched:
        """The whole answer to a write. Raises `Refused`."""
        headers = self._headers(request)
        if accept is not None:
            headers[hdrs.ACCEPT] = accept
        if not self.is_up:
            raise Refused(unavailable("upstream is out of reach, nothing was written"))
        body = await _kept_body(request)
        try:
            return await self._whole(request, headers, body, header_timeout)
        except NotSent as error:
            raise Refused(unavailable(f"nothing was written: {error}")) from error
        except Unreachable as error:
            raise Refused(timeout_outcome_unknown()) from error

    async def forward(self, request: web.BaseRequest) -> web.StreamResponse:
        """The answer as it comes. Raises `Unreachable` for a read of which nothing was answered,
        `Refused` for a write."""
        is_read = request.method in ("GET", "HEAD", "OPTIONS")
        if not is_read and not self.is_up:
            raise Refused(unavailable("upstream is out of reach, nothing was written"))
        response: web.StreamResponse | None = None
        request[IS_PASSED_ON] = True
        try:
            async with self._transport.exchange(
                request.method,
                request.raw_path,
                header_timeout=LONGEST_REQUEST,
                headers=self._headers(request).items(),
                body=request.content.iter_any() if request.can_read_body else None,
                as_caller=self._is_callers(request),
            ) as answer:
                self._met(Outcome.ANSWERED)
                response = web.StreamResponse(status=answer.status, reason=answer.reason)
                _copy_head(answer, response)
                await response.prepare(request)
                async for chunk in answer.chunks():
                    await response.write(chunk)
                await response.write_eof()
                return response
        except Unreachable as error:
            self._met(_outcome(error))
            if response is not None:
                # What was begun cannot be taken back: it breaks off, as it did upstream.
                if request.transport is not None:
                    request.transport.abort()
                return response
            if is_read:
                raise
            if isinstance(error, NotSent):
                raise Refused(unavailable(f"nothing was written: {error}")) from error
            raise Refused(timeout_outcome_unknown()) from error

    async def _whole(
        self,
        request: web.BaseRequest,
        headers: CIMultiDict[str],
        body: bytes | None,
        header_timeout: float,
    ) -> Fetched:
        request[IS_PASSED_ON] = True
        try:
            async with self._transport.exchange(
                request.method,
                request.raw_path,
                header_timeout=header_timeout,
                headers=headers.items(),
                body=body,
                as_caller=self._is_callers(request),
            ) as answer:
                self._met(Outcome.ANSWERED)
                found = await answer.read(limit=MAX_ANSWER, idle_timeout=LONGEST_REQUEST)
        except Unreachable as error:
            self._met(_outcome(error))
            raise
        except TooLong as error:
            raise Refused(unavailable(f"an answer of upstream is {error}")) from error
        return Fetched(answer.status, answer.reason, answer.headers, found)

    def _is_callers(self, request: web.BaseRequest) -> bool:
        return bool(self._access.headers_for_upstream(request[CALLER]))

    def _headers(self, request: web.BaseRequest) -> CIMultiDict[str]:
        named = {
            name.strip().lower() for name in request.headers.get(hdrs.CONNECTION, "").split(",")
        }
        dropped = HOP_BY_HOP | named | {"host", "authorization"}
        headers = CIMultiDict(
            (name, value) for name, value in request.headers.items() if name.lower() not in dropped
        )
        headers.update(self._access.headers_for_upstream(request[CALLER]))
        return headers


def _outcome(error: Unreachable) -> Outcome:
    is_late = isinstance(error.__cause__, TimeoutError)
    return Outcome.TIMED_OUT if is_late else Outcome.REFUSED


async def answer_of(request: web.BaseRequest, fetched: Fetched) -> web.StreamResponse:
    """The same to the client, unpacked where it does not take gzip."""
    body = fetched.body
    response = web.Response(status=fetched.status, reason=fetched.reason)
    _copy_headers(fetched.headers, response.headers)
    response.headers.popall(hdrs.CONTENT_LENGTH, None)
    if fetched.headers.get(hdrs.CONTENT_ENCODING) == "gzip" and not takes_gzip(request):
        body = fetched.decoded()
        response.headers.popall(hdrs.CONTENT_ENCODING)
    response.body = body
    return response


async def _kept_body(request: web.BaseRequest) -> bytes | None:
    """Raises `Refused`."""
    if not request.can_read_body:
        return None
    found = bytearray()
    async for chunk in _pieces(request):
        found += chunk
        if len(found) > MAX_KEPT_BODY:
            raise Refused(
                Status(
                    code=413,
                    reason="RequestEntityTooLarge",
                    message=f"the limit is {MAX_KEPT_BODY} bytes",
                )
            )
    return bytes(found)


def _pieces(request: web.BaseRequest) -> AsyncIterator[bytes]:
    return request.content.iter_any()


def _copy_head(answer: Answer, response: web.StreamResponse) -> None:
    _copy_headers(answer.headers, response.headers)
    if hdrs.CONTENT_LENGTH in answer.headers:
        response.content_length = int(answer.headers[hdrs.CONTENT_LENGTH])


def _copy_headers(upstream: Mapping[str, str], ours: CIMultiDict[str]) -> None:
    for name, value in upstream.items():
        if name.lower() not in HOP_BY_HOP:
            ours.add(name, value)
