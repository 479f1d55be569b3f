"""Requests and line streams to one API server, with hard deadlines.

Guarantees: every request has its own connection, which is gone when the call ends, so that no
dead keep-alive connection delays a later one (client-go hazard H7) and a write is sent at most
once: aiohttp by itself repeats PUT and DELETE when a connection drops, which would break
compare-and-swap. Whatever happens surfaces as `ApiError` or `Unreachable`.
"""

import asyncio
import json
import ssl
from collections.abc import AsyncGenerator, Mapping
from typing import Any

import aiohttp

from .credentials import Credentials
from .errors import Unreachable, api_error

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
# Bytes; no object is longer: etcd takes 1.5 MiB (--max-request-bytes), kube-apiserver 3 MiB.
MAX_LINE = 8 * 1024 * 1024

# What a failed connection or a broken answer may raise below us.
_TRANSPORT_ERRORS = (aiohttp.ClientError, OSError, ssl.SSLError, asyncio.TimeoutError)


async def _never_resent(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """aiohttp repeats a request on its own connection errors only: it does not get to see any."""
    try:
        return await handler(request)
    except _TRANSPORT_ERRORS as error:
        raise Unreachable(_describe(error)) from error


class ApiServer:
    """An API server as one caller sees it; `user_agent` tells callers apart in its audit log."""

    def __init__(self, credentials: Credentials, *, user_agent: str) -> None:
        self._credentials = credentials
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(force_close=True, limit=0),
            headers={"User-Agent": user_agent, "Accept": JSON},
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
            middlewares=(_never_resent,),
            auto_decompress=True,
            trust_env=False,
        )

    @property
    def url(self) -> str:
        return self._credentials.server

    async def close(self) -> None:
        await self._session.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        timeout: float,
        params: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str = JSON,
    ) -> dict[str, Any]:
        """The decoded JSON object of a 2xx.

        Raises `ApiError` for any other status, `Unreachable` without a usable answer within
        `timeout` seconds, which span DNS, connect, TLS, sending and the whole body.
        """
        data = None if body is None else json.dumps(body, separators=(",", ":")).encode()
        try:
            async with (
                asyncio.timeout(timeout),
                self._session.request(
                    method,
                    self._credentials.server + path,
                    params=params,
                    data=data,
                    headers=await self._headers(content_type if data is not None else None),
                    ssl=self._tls(),
                    allow_redirects=False,
                ) as response,
            ):
                _end_with_connection(response)
                answer = await response.read()
                if response.status >= 300:
                    raise api_error(
                        response.status, answer, retry_after=response.headers.get("Retry-After")
                    )
        except TimeoutError as error:
            raise Unreachable(f"no answer from {self.url} within {timeout:g}s") from error
        except _TRANSPORT_ERRORS as error:
            raise Unreachable(_describe(error)) from error
        return _decoded(answer)

    async def lines(
        self, path: str, *, open_timeout: float, params: Mapping[str, str]
    ) -> AsyncGenerator[bytes, None]:
        """The lines of a streamed answer, as they come, until the server ends it.

        Raises `ApiError` for a status other than 2xx, `Unreachable` where it does not begin
        within `open_timeout` seconds or breaks, which an end within a line is too. How long
        silence is believed, the caller decides.
        """
        try:
            async with asyncio.timeout(open_timeout) as opening:
                async with self._session.get(
                    self._credentials.server + path,
                    params=params,
                    headers=await self._headers(None),
                    ssl=self._tls(),
                    allow_redirects=False,
                ) as response:
                    _end_with_connection(response)
                    if response.status >= 300:
                        raise api_error(
                            response.status,
                            await response.read(),
                            retry_after=response.headers.get("Retry-After"),
                        )
                    opening.reschedule(None)
                    rest = b""
                    async for chunk in response.content.iter_any():
                        *whole, rest = (rest + chunk).split(b"\n")
                        for line in whole:
                            if line:
                                yield line
                        if len(rest) > MAX_LINE:
                            raise Unreachable(f"{self.url} sends a line without an end")
                    if rest:
                        raise Unreachable(f"{self.url} ended its answer within a line")
        except TimeoutError as error:
            raise Unreachable(f"{self.url} did not begin to answer in {open_timeout:g}s") from error
        except _TRANSPORT_ERRORS as error:
            raise Unreachable(_describe(error)) from error

    async def _headers(self, content_type: str | None) -> dict[str, str]:
        headers = {} if content_type is None else {"Content-Type": content_type}
        authorization = await self._credentials.authorization()
        if authorization is not None:
            headers["Authorization"] = authorization
        return headers

    def _tls(self) -> ssl.SSLContext | bool:
        return self._credentials.tls() or True


def _end_with_connection(response: aiohttp.ClientResponse) -> None:
    """After broken framing aiohttp closes the connection, but lets the body's reader wait on."""
    content, connection = response.content, response.connection
    if connection is None or connection.protocol is None:
        return  # released: the whole body is there

    def end(closed: asyncio.Future[None] | None) -> None:
        if closed is not None and not closed.cancelled():
            closed.exception()  # retrieved, else asyncio reports it
        if not content.is_eof() and content.exception() is None:
            content.set_exception(aiohttp.ClientPayloadError("the answer broke off"))

    closed = connection.protocol.closed
    if closed is None:  # already
        end(None)
    else:
        closed.add_done_callback(end)


def _decoded(answer: bytes) -> dict[str, Any]:
    try:
        decoded = json.loads(answer)
    except (ValueError, RecursionError) as error:
        raise Unreachable(f"the answer is not JSON: {answer[:80]!r}") from error
    if not isinstance(decoded, dict):
        raise Unreachable(f"the answer is not a JSON object: {answer[:80]!r}")
    return decoded


def _describe(error: BaseException) -> str:
    return str(error) or type(error).__name__
