"""Any request to the API server, passed on as it is, with bodies that stream both ways.

Guarantees: a request is sent at most once; the failure tells whether any of it was sent
(`NotSent`) or not. Reads use kept connections; a write only one that was alive a moment ago. Bytes
of an answer are those that were sent, unless they are to be decoded; one that breaks off raises,
it never just ends. After `cut` nothing waits any more.
"""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import Self, cast
from weakref import WeakSet

import aiohttp
from aiohttp.resolver import ThreadedResolver
from multidict import CIMultiDict
from yarl import URL

from edge_sidecars.kubeapi.aiohttp_private import (
    TRANSPORT_ERRORS,
    describe,
    end_with_connection,
    never_resent,
    read_at_once,
)
from edge_sidecars.kubeapi.connector import Dialer
from edge_sidecars.kubeapi.credentials import Credentials
from edge_sidecars.kubeapi.errors import Dropped, NotSent, Unreachable
from edge_sidecars.kubeapi.pool import KeptConnections, Response
from edge_sidecars.kubeapi.resolver import Resolver
from edge_sidecars.kubeapi.response import Answer
from edge_sidecars.kubeapi.server import KEPT_FOR, UNAUTHORIZED

# RFC 9110, 9.2.1: what a server may be asked twice.
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
# Seconds; a write that meets the end of a kept connection has an unknown outcome, where a new one
# would have told that nothing was sent. No API server ends a connection so soon after an answer,
# and a controller's writes follow each other closer than this.
KEPT_FOR_WRITES = 0.2
# So many idle connections at a time, of each kind: a controller has some dozens of requests on
# their way, and makes the next ones when these are answered.
MAX_IDLE = 32
# Bytes of a body that are handed over at a time.
PIECE = 64 * 1024
# Bytes; Go's servers and clients take 1 MiB of headers, one of which may be all of it.
MAX_HEADER = 1024 * 1024
# Bytes that wait for their reader, at most twice as many; a TLS connection reads as many at once.
READ_BUFFER = 256 * 1024
# What aiohttp would add on its own.
_AUTOMATIC = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")

Body = bytes | AsyncIterable[bytes] | None
Headers = Iterable[tuple[str, str]]


class ApiTransport:
    """The API server's connections; `user_agent` for requests that do not say who asks."""

    def __init__(
        self, credentials: Credentials, *, user_agent: str, kept_for: float = KEPT_FOR
    ) -> None:
        self._credentials = credentials
        self._user_agent = user_agent
        self._resolver = Resolver(ThreadedResolver())
        self._dialers: WeakSet[Dialer] = WeakSet()
        self._openings: set[_Opening] = set()
        # Apart: a connection with our certificate would lend our identity to a caller.
        self._ours = self._pool(kept_for)
        self._callers = self._pool(kept_for)

    @property
    def url(self) -> str:
        return self._credentials.server

    async def close(self) -> None:
        await self._ours.close()
        await self._callers.close()
        await self._resolver.close()

    def cut(self) -> None:
        """Ends every connection and whatever waits for one, but for upgraded ones and those of
        answers that outlast it."""
        self._ours.drop()
        self._callers.drop()
        for opening in self._openings:
            opening.cut()
        for dialer in self._dialers:
            if not dialer.outlasts_cut:
                dialer.cut()

    @asynccontextmanager
    async def exchange(
        self,
        method: str,
        target: str,
        *,
        header_timeout: float,
        connect_timeout: float | None = None,
        headers: Headers = (),
        body: Body = None,
        is_decoded: bool = False,
        as_caller: bool = False,
        is_bare: bool = False,
        is_fresh: bool = False,
        is_upgrade: bool = False,
    ) -> AsyncIterator[Answer]:
        """One request. What is not read of its answer when the block ends is given up.

        `target`: path and query as they go over the wire, or the * of an OPTIONS. `headers`: the
        end-to-end ones; without Content-Length a streamed body is sent in chunks. `as_caller`: with
        the Authorization among them, and no credentials of ours. `is_bare`: without headers of
        ours, of which a token is many times as long as a short request. `is_fresh`: over a new
        connection. `is_upgrade`: the headers ask for one, and a 101 is expected
        (`Answer.take_over`). `is_decoded`: chunks of the answer are without its Content-Encoding.
        `header_timeout` seconds span all up to the answer's head, but for the time that the body
        takes to be sent, which over a connection of its own may be as long as it likes;
        `connect_timeout` of them at most are for having a connection. Raises `Unreachable`.
        """
        pool = self._callers if as_caller else self._ours
        is_ours = not (as_caller or is_bare)
        authorization = None
        if is_ours:
            authorization, header_timeout = await self._authorization(header_timeout)
        tls = self._credentials.tls(is_anonymous=as_caller)
        is_patient = is_upgrade or not (body is None or isinstance(body, bytes))
        idle = 0.0 if is_fresh or is_patient else None if method in SAFE else KEPT_FOR_WRITES
        async with pool.channel(tls, idle=idle) as channel:
            dialer = cast(Dialer, channel.session.connector)
            dialer.is_patient = is_patient
            opening = _Opening(dialer, self.url, header_timeout)

            async def send() -> aiohttp.ClientResponse:
                complete = CIMultiDict(headers)
                if not is_bare:
                    self._complete(complete, body)
                if is_ours:
                    complete.popall("Authorization", None)
                if authorization is not None:
                    complete["Authorization"] = authorization
                return await channel.session.request(
                    method,
                    _url(self.url, target),
                    headers=complete,
                    data=opening.paced(body),
                    ssl=tls or True,
                    server_hostname=self._credentials.tls_server_name,
                    auto_decompress=is_decoded,
                    allow_redirects=False,
                    timeout=aiohttp.ClientTimeout(total=None, connect=connect_timeout),
                )

            self._openings.add(opening)
            try:
                async with await opening.until_head(send) as response:
                    if is_ours and response.status == UNAUTHORIZED:
                        self._credentials.refused()
                    yield Answer(response, dialer, self.url)
                if not is_patient:
                    channel.used(response)
            except Unreachable:
                pool.drop()
                raise
            finally:
                self._openings.discard(opening)
                dialer.end()

    async def _authorization(self, timeout: float) -> tuple[str | None, float]:
        """Its header, and the seconds that are left. Raises `NotSent`."""
        loop = asyncio.get_running_loop()
        begun_at = loop.time()
        try:
            async with asyncio.timeout(timeout):
                found = await self._credentials.authorization()
        except TimeoutError as error:
            raise NotSent(f"no credentials for {self.url} within {timeout:g}s") from error
        except Unreachable as error:
            raise NotSent(str(error)) from error
        return found, timeout - (loop.time() - begun_at)

    def _complete(self, headers: CIMultiDict[str], body: Body) -> None:
        headers.setdefault("User-Agent", self._user_agent)
        if isinstance(body, bytes):
            headers["Content-Length"] = str(len(body))
        elif body is None:
            # Else the next request over this connection would be taken for the body.
            headers.popall("Content-Length", None)

    def _pool(self, kept_for: float) -> KeptConnections:
        return KeptConnections(_session, idle=kept_for, connector=self._dialer, max_idle=MAX_IDLE)

    def _dialer(self, *, limit: int, keepalive_timeout: float) -> Dialer:
        dialer = Dialer(limit=limit, keepalive_timeout=keepalive_timeout, resolver=self._resolver)
        self._dialers.add(dialer)
        return dialer


class _Opening:
    """The time until an answer's head, and what a failure in it means."""

    def __init__(self, dialer: Dialer, url: str, seconds: float) -> None:
        self._dialer = dialer
        self._url = url
        self._seconds = seconds
        self._deadline: asyncio.Timeout | None = None
        self._is_cut = False

    async def until_head(
        self, send: Callable[[], Awaitable[aiohttp.ClientResponse]]
    ) -> aiohttp.ClientResponse:
        self._dialer.is_connected = False
        try:
            async with asyncio.timeout(self._seconds) as self._deadline:
                response = await send()
        except TimeoutError as error:
            late = f"no answer from {self._url} within {self._seconds:g}s"
            raise self._failure("the link was cut" if self._is_cut else late) from error
        except Unreachable as error:
            raise self._failure(str(error), cause=error.__cause__) from error
        except TRANSPORT_ERRORS as error:
            raise self._failure(describe(error)) from error
        finally:
            self._deadline = None
        end_with_connection(response)
        read_at_once(response)
        return response

    def cut(self) -> None:
        self._reschedule(0.0)
        self._is_cut = True

    def paced(self, body: Body) -> Body:
        """While it is sent, no deadline runs: how long that takes is up to its sender and to the
        wire, whose end the kernel tells."""
        if body is None or (isinstance(body, bytes) and len(body) <= PIECE):
            return body
        return _Paced(body, begin=partial(self._reschedule, None), end=self._await_head)

    def _await_head(self) -> None:
        self._reschedule(self._seconds)

    def _reschedule(self, seconds: float | None) -> None:
        if self._deadline is None or self._deadline.expired() or self._is_cut:
            return
        now = asyncio.get_running_loop().time()
        self._deadline.reschedule(None if seconds is None else now + seconds)

    def _failure(self, message: str, *, cause: BaseException | None = None) -> Unreachable:
        if not self._dialer.is_connected:
            return NotSent(message)
        is_end = isinstance(cause, aiohttp.ServerDisconnectedError | aiohttp.ClientOSError)
        if is_end and self._dialer.is_reused and not self._is_cut:
            return Dropped(message)
        return Unreachable(message)


class _Paced:
    """A body in pieces; tells when the first one is asked for, and when all were taken."""

    def __init__(
        self,
        body: bytes | AsyncIterable[bytes],
        *,
        begin: Callable[[], None],
        end: Callable[[], None],
    ) -> None:
        self._pieces = _pieces(body) if isinstance(body, bytes) else aiter(body)
        self._begin: Callable[[], None] | None = begin
        self._end = end

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if self._begin is not None:
            self._begin()
            self._begin = None
        try:
            return await anext(self._pieces)
        except StopAsyncIteration:
            self._end()
            raise


async def _pieces(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), PIECE):
        yield body[start : start + PIECE]


def _session(connector: aiohttp.TCPConnector) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=connector,
        skip_auto_headers=_AUTOMATIC,
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
        middlewares=(never_resent,),
        response_class=Response,
        cookie_jar=aiohttp.DummyCookieJar(),
        read_bufsize=READ_BUFFER,
        max_field_size=MAX_HEADER,
        trust_env=False,
    )


def _url(server: str, target: str) -> URL:
    """`target` is not parsed as a part of a URL: a # in it is none of ours."""
    base = URL(server, encoded=True)
    path, _, query = target.partition("?")
    return URL.build(
        scheme=base.scheme,
        authority=base.raw_authority,
        path=target if target == "*" else base.raw_path.rstrip("/") + path,
        query_string=query,
        encoded=True,
    )
