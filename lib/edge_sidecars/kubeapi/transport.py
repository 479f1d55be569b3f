"""The transport: sends each request to the API server, over connections of one caller.

The one place that decides on the Authorization header, deadlines, what a failure means, whether a
connection is used again, and what an abort ends. Guarantees: a request is sent at most once; the
failure says whether any of it was sent (`NotSent`) or not; after one, no connection of before is
used again. Bytes of a response are those that were sent, unless they are to be decoded; one that
breaks off raises, it never just ends. After `abort` nothing waits any more.
"""

import asyncio
import math
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from weakref import WeakSet

import aiohttp
from aiohttp.resolver import ThreadedResolver
from multidict import CIMultiDict

from edge_sidecars.kubeapi.aiohttp_private import (
    TRANSPORT_ERRORS,
    ask_again,
    describe,
    end_with_connection,
    never_resent,
    read_at_once,
)
from edge_sidecars.kubeapi.connector import SILENCE, Connector, Resolver
from edge_sidecars.kubeapi.credentials import Credentials
from edge_sidecars.kubeapi.errors import NotSent, ProxyRefused, StaleConnection, Unreachable
from edge_sidecars.kubeapi.messages import (
    PIECE,
    SAFE,
    Body,
    Request,
    Response,
    paced,
)
from edge_sidecars.kubeapi.pool import (
    CONNECT_TIMEOUT,
    MAX_AGE,
    BackgroundConnects,
    Channel,
    ConnectionPool,
)
from edge_sidecars.runtime.cli.proxies import HttpProxy

# Seconds; shorter than servers, proxies and address translation keep an idle connection.
POOLED_FOR = 10.0
# Seconds; a write that meets the end of a pooled connection has an unknown outcome, where a new one
# would have shown that nothing was sent. No API server ends a connection so soon after an answer,
# and a controller's writes follow each other closer than this.
POOLED_FOR_WRITES = 0.2
# So many idle connections at a time, of each kind: a controller has some dozens of requests on
# their way, and makes the next ones when these are answered.
MAX_IDLE = 32
# Bytes; Go's servers and clients take 1 MiB of headers, one of which may be all of it.
MAX_HEADER = 1024 * 1024
# Bytes that wait for their reader, at most twice as many; a TLS connection reads as many at once.
READ_BUFFER = 256 * 1024
UNAUTHORIZED = 401
# RFC 9110, 15.5.8: of a proxy, never of a server.
PROXY_UNAUTHORIZED = 407
# Deadlines are the caller's (`_Opening`).
_NO_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=None)
# What aiohttp would add on its own.
_AUTOMATIC = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")


class ApiTransport:
    """`user_agent` is for requests without one among their headers. In seconds: an idle connection
    is used again for `pooled_for`, one that is older than `max_age` is not, and after `silence` the
    peer is asked whether it is there.

    `background`: makes the connections, which outlast the requests that began them.
    `are_bodies_timed`: the time of a request includes sending its body, however long that is.

    `detour`: the proxy through which a connection is made instead of that of the credentials, if
    any. Both are asked for each request, and no connection is used again that was made another way
    than they say now.
    """

    def __init__(
        self,
        credentials: Credentials,
        *,
        user_agent: str,
        pooled_for: float = POOLED_FOR,
        silence: float = SILENCE,
        max_idle: int = MAX_IDLE,
        max_age: float = MAX_AGE,
        background: BackgroundConnects | None = None,
        are_bodies_timed: bool = False,
        detour: Callable[[], HttpProxy | None] = lambda: None,
    ) -> None:
        self._credentials = credentials
        self._detour = detour
        self._user_agent = user_agent
        self._pooled_for = pooled_for
        self._silence = silence
        self._background = background
        self._are_bodies_timed = are_bodies_timed
        # When a byte of an answer's body was read last, by the loop's clock.
        self._received_at = -math.inf
        self._resolver = Resolver(ThreadedResolver())
        self._connectors: WeakSet[Connector] = WeakSet()
        self._openings: set[_Opening] = set()
        # The Authorization header that was sent last in our name.
        self._authorization: str | None = None
        # Apart: a connection with our certificate would lend our identity to a caller.
        self._own, self._callers = (
            ConnectionPool(self._session, idle=pooled_for, max_idle=max_idle, max_age=max_age)
            for _ in range(2)
        )

    @property
    def url(self) -> str:
        return self._credentials.server

    @property
    def proxy(self) -> HttpProxy | None:
        """Through which the API server is reached, where no detour is taken."""
        return self._credentials.proxy

    @property
    def is_forwarded(self) -> bool:
        """What is sent is read by a proxy, which may answer in the server's place."""
        return self.proxy is not None and self.url.startswith("http:")

    async def close(self) -> None:
        await self._own.close()
        await self._callers.close()
        if self._background is not None:
            await self._background.close()
        await self._resolver.close()

    def retire(self) -> None:
        """No present connection is used again."""
        self._own.retire()
        self._callers.retire()
        if self._background is not None:
            self._background.retire()

    def abort(self) -> None:
        """Ends every connection and whatever waits for one, but for upgraded ones and those of
        responses that outlast it."""
        self.retire()
        for opening in self._openings:
            if not opening.outlasts_abort:
                opening.abort()
        for connector in self._connectors:
            if not connector.outlasts_abort:
                connector.abort()

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Response]:
        """The response; what is not read of it when the block ends is given up. Raises
        `Unreachable`, `NotSent` where no connection came about."""
        proxy = self._detour() or self._credentials.proxy
        is_forwarded = proxy is not None and self.url.startswith("http:")
        opening = _Opening(
            request,
            self.url,
            proxy,
            connect_timeout=self._connect_timeout(request),
            is_body_timed=self._are_bodies_timed,
        )
        is_own, is_callers = request.identity == "own", request.identity == "caller"
        if is_own:
            self._authorization = await opening.wait_for(self._credentials.authorization())
        pool = self._callers if is_callers else self._own
        tls = self._credentials.tls(is_anonymous=is_callers)
        key = tls, None if is_callers else self._authorization, proxy
        headers = self._headers(request, self._authorization)
        if proxy is not None and is_forwarded:
            headers.update(proxy.headers)
        async with pool.channel(key, idle=_max_idle(request)) as channel:
            connector = channel.connector
            connector.is_patient = request.is_streamed
            connector.outlasts_abort = request.outlasts_abort
            ask = partial(self._ask, channel, request, headers, opening, tls, proxy)
            self._openings.add(opening)
            try:
                async with await opening.until_head(connector, ask) as response:
                    if is_forwarded and response.status == PROXY_UNAUTHORIZED:
                        raise opening.refused(response.status, response.reason)
                    if is_own and response.status == UNAUTHORIZED:
                        self._credentials.refused()
                    yield Response(
                        response,
                        connector,
                        self.url,
                        deadline=opening.deadline,
                        waited=opening.waited,
                        received=self._received,
                    )
                if request.connection == "pooled" and not request.is_streamed:
                    channel.used()
            except Unreachable as error:
                self._retire_after(error, pool)
                raise
            finally:
                self._openings.discard(opening)
                connector.end()

    async def _ask(
        self,
        channel: Channel,
        request: Request,
        headers: CIMultiDict[str],
        opening: "_Opening",
        tls: ssl.SSLContext | None,
        proxy: HttpProxy | None,
    ) -> aiohttp.ClientResponse:
        is_forwarded = proxy is not None and self.url.startswith("http:")
        url = request.url(self.url, is_forwarded=is_forwarded)
        is_short = request.body is None and request.method in SAFE and proxy is None
        if is_short and request.connection == "pooled" and url.raw_user is None:
            connection = await channel.connector.reconnect()
            if connection is not None:
                return await ask_again(
                    connection,
                    request.method,
                    url,
                    headers,
                    auto_decompress=request.is_decoded,
                    read_bufsize=READ_BUFFER,
                    max_field_size=MAX_HEADER,
                )
        return await channel.session.request(
            request.method,
            url,
            headers=headers,
            data=opening.paced(request.body),
            ssl=tls or True,
            server_hostname=self._credentials.tls_server_name,
            auto_decompress=request.is_decoded,
            allow_redirects=False,
            timeout=_NO_TIMEOUT,
            proxy=None if proxy is None else proxy.url,
            proxy_headers=None if proxy is None or is_forwarded else proxy.headers,
        )

    def has_received_since(self, at: float) -> bool:
        """Whether a part of any answer's body was read since then, by the loop's clock."""
        return self._received_at >= at

    def _received(self) -> None:
        self._received_at = asyncio.get_running_loop().time()

    def _connect_timeout(self, request: Request) -> float | None:
        """On a link over which connections take long, one is waited for as long."""
        if request.connect_timeout is None or self._background is None:
            return request.connect_timeout
        return min(max(request.connect_timeout, 2 * self._background.took), CONNECT_TIMEOUT)

    def _retire_after(self, error: Unreachable, pool: ConnectionPool) -> None:
        """Connections of a pool may lead to the same place."""
        if isinstance(error, ProxyRefused) and error.is_full:
            return
        if self._background is None:
            pool.retire()
        elif not (isinstance(error, NotSent) and error.is_late):
            # That connecting takes long is no sign about the others.
            self.retire()

    def _headers(self, request: Request, authorization: str | None) -> CIMultiDict[str]:
        headers = CIMultiDict(request.headers)
        if request.identity == "none":
            return headers
        headers.setdefault("User-Agent", self._user_agent)
        if isinstance(request.body, bytes):
            headers["Content-Length"] = str(len(request.body))
        elif request.body is None:
            # Else the next request over this connection would be taken for the body.
            headers.popall("Content-Length", None)
        if request.identity == "own":
            headers.popall("Authorization", None)
            if authorization is not None:
                headers["Authorization"] = authorization
        return headers

    def _session(self) -> aiohttp.ClientSession:
        connector = Connector(
            keepalive_timeout=self._pooled_for,
            resolver=self._resolver,
            maker=self._background,
            silence=self._silence,
        )
        self._connectors.add(connector)
        return aiohttp.ClientSession(
            connector=connector,
            skip_auto_headers=_AUTOMATIC,
            timeout=_NO_TIMEOUT,
            middlewares=(never_resent,),
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=READ_BUFFER,
            max_field_size=MAX_HEADER,
            trust_env=False,
        )


def _max_idle(request: Request) -> float:
    """Seconds."""
    if request.connection != "pooled" or request.is_streamed:
        return 0.0
    if request.max_idle is not None:
        return request.max_idle
    return math.inf if request.method in SAFE else POOLED_FOR_WRITES


class _Opening:
    """The time until the head of a response, and what a failure in it means."""

    def __init__(
        self,
        request: Request,
        url: str,
        proxy: HttpProxy | None,
        *,
        connect_timeout: float | None,
        is_body_timed: bool,
    ) -> None:
        self._seconds = request.header_timeout
        self._connect_seconds = connect_timeout
        self._url = url
        self._proxy = proxy
        self._is_body_timed = is_body_timed
        self.outlasts_abort = request.outlasts_abort
        self._is_aborted = False
        self._timeout: asyncio.Timeout | None = None
        # By the loop's clock.
        self._connected_at: float | None = None
        # Seconds from when there was a connection to the response's head.
        self.waited = 0.0
        first = self._seconds if connect_timeout is None else connect_timeout
        self.deadline = None if first is None else asyncio.get_running_loop().time() + first

    @property
    def _is_connected(self) -> bool:
        return self._connected_at is not None

    async def wait_for(self, authorization: Awaitable[str | None]) -> str | None:
        """Raises `NotSent`."""
        try:
            async with asyncio.timeout_at(self.deadline):
                return await authorization
        except TimeoutError as error:
            late = f"no credentials for {self._url} in time"
            raise NotSent(late) from error
        except Unreachable as error:
            raise NotSent(str(error)) from error

    async def until_head(
        self, connector: Connector, send: Callable[[], Awaitable[aiohttp.ClientResponse]]
    ) -> aiohttp.ClientResponse:
        connector.on_connected = self._connected
        try:
            async with asyncio.timeout_at(self.deadline) as self._timeout:
                response = await send()
        except TimeoutError as error:
            raise self._late() from error
        except (Unreachable, *TRANSPORT_ERRORS) as error:
            raise self._failure(error, is_reused=connector.is_reused) from error
        finally:
            self._timeout = None
        if self._connected_at is not None:
            self.waited = asyncio.get_running_loop().time() - self._connected_at
        end_with_connection(response)
        read_at_once(response)
        return response

    def refused(self, status: int, reason: str | None) -> ProxyRefused:
        """The proxy's own answer."""
        proxy = "" if self._proxy is None else self._proxy.url
        said = f"{status} {reason or ''}".strip()
        remedy = ""
        if status == PROXY_UNAUTHORIZED:
            remedy = "; give it user and password, as http://user:password@host:port"
        return ProxyRefused(f"the proxy {proxy} refuses {self._url}: {said}{remedy}", status)

    def abort(self) -> None:
        self._reschedule(asyncio.get_running_loop().time())
        self._is_aborted = True

    def paced(self, body: Body) -> Body:
        """While it is sent, no deadline runs: how long that takes is up to its sender and to the
        wire, whose end the kernel reports."""
        is_short = isinstance(body, bytes) and (len(body) <= PIECE or self._is_body_timed)
        if body is None or is_short:
            return body
        return paced(body, begin=partial(self._reschedule, None), end=self._restart)

    def _connected(self) -> None:
        self._connected_at = asyncio.get_running_loop().time()
        if self._connect_seconds is not None:
            self._restart()

    def _restart(self) -> None:
        seconds = self._seconds
        self.deadline = None if seconds is None else asyncio.get_running_loop().time() + seconds
        self._reschedule(self.deadline)

    def _reschedule(self, deadline: float | None) -> None:
        if self._timeout is not None and not self._timeout.expired() and not self._is_aborted:
            self._timeout.reschedule(deadline)

    def _late(self) -> Unreachable:
        if self._is_aborted:
            late = "the link was cut"
        elif self._connect_seconds is not None and not self._is_connected:
            late = (
                f"no connection: no answer from {self._url} within {self._connect_seconds:g}s"
                f"{self._through}"
            )
        else:
            late = f"no answer from {self._url} within {self._seconds:g}s{self._through}"
        return Unreachable(late) if self._is_connected else NotSent(late)

    def _failure(self, error: BaseException, *, is_reused: bool) -> Unreachable:
        cause = error.__cause__ if isinstance(error, Unreachable) else error
        if isinstance(cause, aiohttp.ClientHttpProxyError):
            return self.refused(cause.status, cause.message)
        message = f"{describe(error)}{self._through}"
        if not self._is_connected:
            return NotSent(message)
        is_end = isinstance(cause, aiohttp.ServerDisconnectedError | aiohttp.ClientOSError)
        if is_end and is_reused and not self._is_aborted:
            return StaleConnection(message)
        return Unreachable(message)

    @property
    def _through(self) -> str:
        """Behind a message, which alone does not show that the proxy may be what fails."""
        return "" if self._proxy is None else f" (through the proxy {self._proxy.url})"
