"""Requests and line streams to one API server, with hard deadlines.

Guarantees: a request is sent at most once: aiohttp by itself repeats PUT and DELETE when a
connection drops, which would break compare-and-swap. It has its own connection, which is gone when
the call ends, so that no dead one delays a later request (client-go hazard H7); only one that says
`kept` uses a connection again, which any failure of any request puts out of use. Where setting one
up takes long (`set_up`), any request may use one again over which an answer has just come. The time
of a request counts from when it has its connection, for which it waits as long at most.
Whatever happens surfaces as `ApiError` or `Unreachable`.
"""

import json
import ssl
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import aiohttp

from edge_sidecars.kubeapi.aiohttp_private import (
    TRANSPORT_ERRORS,
    describe,
    end_with_connection,
    never_resent,
)
from edge_sidecars.kubeapi.connection_setup import Attempt, Connector, SetUps
from edge_sidecars.kubeapi.credentials import Credentials
from edge_sidecars.kubeapi.errors import ApiError, NotSent, Unreachable, api_error
from edge_sidecars.kubeapi.pool import MAX_IDLE, KeptConnections, Response

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
# Bytes; no object is longer: etcd takes 1.5 MiB (--max-request-bytes), kube-apiserver 3 MiB.
MAX_LINE = 8 * 1024 * 1024
# Bytes of a list: 100,000 objects of 5 KB.
MAX_ANSWER = 512 * 1024 * 1024
# Seconds; shorter than servers, proxies and address translation keep an idle connection.
KEPT_FOR = 10.0
# Seconds in which an answer proves that a connection lives, where another one takes long.
JUST_USED = 1.0
UNAUTHORIZED = 401
# Besides 5xx: what another API server, or another connection, might answer otherwise.
SHUN_STATUSES = (401, 408, 421, 429)


class ApiServer:
    """An API server as one caller sees it; `user_agent` tells callers apart in its audit log.

    A connection that is kept for `kept` requests is used again within `kept_for` seconds; so many
    of them may be idle at a time. An answer of more than `longest` bytes is none.
    """

    def __init__(
        self,
        credentials: Credentials,
        *,
        user_agent: str,
        kept_for: float = KEPT_FOR,
        max_idle: int = MAX_IDLE,
        longest: int = MAX_ANSWER,
    ) -> None:
        self._credentials = credentials
        self._longest = longest
        self._user_agent = user_agent
        self._set_ups = SetUps()
        self._session = self._open_session(Connector(self._set_ups, force_close=True))
        self._kept = KeptConnections(
            self._open_session,
            idle=kept_for,
            connector=partial(Connector, self._set_ups),
            max_idle=max_idle,
        )

    @property
    def url(self) -> str:
        return self._credentials.server

    async def close(self) -> None:
        await self._kept.close()
        await self._session.close()
        await self._set_ups.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        timeout: float,
        params: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str = JSON,
        kept: bool = False,
    ) -> dict[str, Any]:
        """The decoded JSON object of a 2xx; else as `fetch`."""
        answer = await self.fetch(
            method,
            path,
            timeout=timeout,
            params=params,
            body=body,
            content_type=content_type,
            kept=kept,
        )
        with self._failures_are_ours():
            return _decoded(answer)

    async def fetch(
        self,
        method: str,
        path: str,
        *,
        timeout: float,
        params: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str = JSON,
        accept: str = JSON,
        kept: bool = False,
    ) -> bytes:
        """The body of a 2xx. What is sent is bytes as they are, or anything that is JSON.

        `kept`: over a connection that an earlier such request left, where one is fit for use. A
        second attempt beside a first that got no answer is to take one of its own.
        Raises `ApiError` for any other status, `Unreachable` without a usable answer: `NotSent`
        after `timeout` seconds without a connection (DNS, connect, TLS), which goes on being set
        up; then within `timeout` seconds for sending and the whole body.
        """
        options: dict[str, Any] = {"params": params}
        if body is not None:
            is_encoded = isinstance(body, bytes)
            options["data"] = (
                body if is_encoded else json.dumps(body, separators=(",", ":")).encode()
            )
        attempt = Attempt(timeout)
        late = f"no answer from {self.url} within {timeout:g}s"
        with self._failures_are_ours(attempt, late=late):
            async with attempt:
                headers = await self._headers(None if body is None else content_type, accept)
                options |= {
                    "headers": headers,
                    "ssl": self._tls(),
                    "server_hostname": self._credentials.tls_server_name,
                }
                if kept or self._set_ups.is_slow:
                    async with self._kept.channel(
                        headers.get("Authorization"),
                        options["ssl"],
                        idle=None if kept else JUST_USED,
                    ) as channel:
                        if not channel.is_new:
                            attempt.connected()
                        response, answer = await _sent(
                            channel.session, method, self.url + path, options, self._longest
                        )
                        channel.used(response)
                else:
                    response, answer = await _sent(
                        self._session, method, self.url + path, options, self._longest
                    )
            if response.status >= 300:
                self._note(response.status)
                raise api_error(
                    response.status, answer, retry_after=response.headers.get("Retry-After")
                )
            return answer

    async def lines(
        self,
        path: str,
        *,
        open_timeout: float,
        params: Mapping[str, str],
        accept: str = JSON,
    ) -> AsyncGenerator[bytes, None]:
        """The lines of a streamed answer, as they come, until the server ends it.

        Raises `ApiError` for a status other than 2xx, `Unreachable` where it does not begin
        within `open_timeout` seconds or breaks, which an end within a line is too. How long
        silence is believed, the caller decides.
        """
        late = f"{self.url} did not begin to answer in {open_timeout:g}s"
        attempt = Attempt(open_timeout)
        with self._failures_are_ours(attempt, late=late):
            async with (
                attempt as opening,
                self._session.get(
                    self.url + path,
                    params=params,
                    headers=await self._headers(None, accept),
                    ssl=self._tls(),
                    server_hostname=self._credentials.tls_server_name,
                    allow_redirects=False,
                ) as response,
            ):
                end_with_connection(response)
                if response.status >= 300:
                    self._note(response.status)
                    raise api_error(
                        response.status,
                        await _read(response, longest=MAX_LINE),
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

    @contextmanager
    def _failures_are_ours(
        self, attempt: Attempt | None = None, *, late: str = ""
    ) -> Iterator[None]:
        """Kept connections may lead to the same place: after a failure none is used again. That
        setting one up takes long says nothing of the others."""
        try:
            yield
        except ApiError as error:
            if error.status in SHUN_STATUSES or error.status >= 500:
                self._drop()
            raise
        except Unreachable:
            self._drop()
            raise
        except TimeoutError as error:
            if attempt is not None and not attempt.is_connected:
                raise NotSent(f"no connection: {late}") from error
            self._drop()
            raise Unreachable(late) from error
        except TRANSPORT_ERRORS as error:
            self._drop()
            raise Unreachable(describe(error)) from error

    def _drop(self) -> None:
        self._kept.drop()
        self._set_ups.drop()

    def _open_session(self, connector: aiohttp.BaseConnector) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=connector,
            headers={"User-Agent": self._user_agent},
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
            middlewares=(never_resent,),
            response_class=Response,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=True,
            trust_env=False,
        )

    async def _headers(self, content_type: str | None, accept: str) -> dict[str, str]:
        headers = {"Accept": accept}
        if content_type is not None:
            headers["Content-Type"] = content_type
        authorization = await self._credentials.authorization()
        if authorization is not None:
            headers["Authorization"] = authorization
        return headers

    def _note(self, status: int) -> None:
        if status == UNAUTHORIZED:
            self._credentials.refused()

    def _tls(self) -> ssl.SSLContext | bool:
        return self._credentials.tls() or True


async def _sent(
    session: aiohttp.ClientSession,
    method: str,
    url: str,
    options: Mapping[str, Any],
    longest: int,
) -> tuple[aiohttp.ClientResponse, bytes]:
    async with session.request(method, url, allow_redirects=False, **options) as response:
        end_with_connection(response)
        return response, await _read(response, longest=longest)


async def _read(response: aiohttp.ClientResponse, *, longest: int) -> bytes:
    """The whole body. Raises `Unreachable` for more than `longest` bytes."""
    found = bytearray()
    async for chunk in response.content.iter_any():
        found += chunk
        if len(found) > longest:
            raise Unreachable(f"{response.url.origin()} answers with over {longest} bytes")
    return bytes(found)


def _decoded(answer: bytes) -> dict[str, Any]:
    try:
        decoded = json.loads(answer)
    except (ValueError, RecursionError) as error:
        raise Unreachable(f"the answer is not JSON: {answer[:80]!r}") from error
    if not isinstance(decoded, dict):
        raise Unreachable(f"the answer is not a JSON object: {answer[:80]!r}")
    return decoded
