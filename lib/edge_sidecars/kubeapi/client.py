"""JSON requests, line streams and watch events of one API server, with hard deadlines.

A layer over `transport`. Guarantees: a request is sent at most once: aiohttp by itself repeats PUT
and DELETE when a connection drops, which would break compare-and-swap. It has its own connection,
which is gone when the call ends, so that no dead one delays a later request (client-go hazard H7).
Only one that is `pooled` uses a connection again, which any failure of any request puts out of use.
Where connecting takes long (`pool.BackgroundConnects`), any request may use one again over which an
answer has just come. The time of a request counts from when it has its connection, for which it
waits as long at most. Whatever happens surfaces as `ApiError` or `Unreachable`. How a watch event
is framed is in `apimachinery.watch_events`, which is pure and the relay's too. See
https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes.
"""

import asyncio
import json
import math
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Required, TypedDict, TypeVar, Unpack

from yarl import URL

from edge_sidecars.apimachinery.watch_events import Bookmark, EventType, Failure, parse_line
from edge_sidecars.kubeapi.credentials import Credentials
from edge_sidecars.kubeapi.errors import Unreachable, status_error
from edge_sidecars.kubeapi.messages import Request, Response, TooLong
from edge_sidecars.kubeapi.pool import BackgroundConnects
from edge_sidecars.kubeapi.transport import POOLED_FOR, ApiTransport
from edge_sidecars.runtime.cli.proxies import HttpProxy

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
# Bytes; no object is longer: etcd takes 1.5 MiB (--max-request-bytes), kube-apiserver 3 MiB.
MAX_LINE = 8 * 1024 * 1024
# Lines that came together are few: their reader is not behind.
FEW_LINES = 16
# Bytes of a list: 100,000 objects of 5 KB.
MAX_BODY = 512 * 1024 * 1024
# Idle connections at a time.
MAX_IDLE = 8
# Seconds in which an answer proves that a connection lives, where another one takes long.
JUST_USED = 1.0
# Besides 5xx: what another API server, or another connection, might answer otherwise.
SHUN_STATUSES = (401, 408, 421, 429)

T = TypeVar("T")


class RequestOptions(TypedDict, total=False):
    """Those of `ApiClient.fetch`, which says what they mean."""

    timeout: Required[float]
    params: Mapping[str, str] | None
    body: object
    content_type: str
    accept: str
    pooled: bool


class ApiClient:
    """An API server as one caller sees it; `user_agent` tells callers apart in its audit log.

    A connection that a `pooled` request leaves is used again within `pooled_for` seconds;
    `max_idle` of them may be idle at a time. A body of more than `max_body` bytes is an error.
    `detour`: as for `ApiTransport`.
    """

    def __init__(
        self,
        credentials: Credentials,
        *,
        user_agent: str,
        pooled_for: float = POOLED_FOR,
        max_idle: int = MAX_IDLE,
        max_body: int = MAX_BODY,
        detour: Callable[[], HttpProxy | None] = lambda: None,
    ) -> None:
        self._background = BackgroundConnects()
        self._transport = ApiTransport(
            credentials,
            user_agent=user_agent,
            pooled_for=pooled_for,
            max_idle=max_idle,
            background=self._background,
            are_bodies_timed=True,
            detour=detour,
        )
        self._max_body = max_body
        # The Date header of the last whole answer: by the API server's clock, or its proxy's.
        self.answered_at: str | None = None

    @property
    def url(self) -> str:
        return self._transport.url

    @property
    def proxy(self) -> HttpProxy | None:
        """As `ApiTransport.proxy`."""
        return self._transport.proxy

    async def close(self) -> None:
        await self._transport.close()

    async def request(
        self, method: str, path: str, **options: Unpack[RequestOptions]
    ) -> dict[str, Any]:
        """The decoded JSON object of a 2xx; else as `fetch`."""
        content = await self.fetch(method, path, **options)
        try:
            decoded = json.loads(content)
        except (ValueError, RecursionError) as error:
            self._transport.retire()
            raise Unreachable(f"the answer is not JSON: {content[:80]!r}") from error
        if not isinstance(decoded, dict):
            self._transport.retire()
            raise Unreachable(f"the answer is not a JSON object: {content[:80]!r}")
        return decoded

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
        pooled: bool = False,
    ) -> bytes:
        """The body of a 2xx. What is sent is bytes as they are, or anything that is JSON.

        `pooled`: over a connection that an earlier such request left, where one is fit for use. A
        second attempt beside a first that got no answer is to take one of its own.
        Raises `ApiError` for any other status, `Unreachable` without a usable answer: `NotSent`
        after `timeout` seconds without a connection (DNS, connect, TLS), which goes on being made;
        then within `timeout` seconds for sending and the whole body.
        """
        headers = _headers(accept)
        if body is not None:
            headers["Content-Type"] = content_type
            if not isinstance(body, bytes):
                body = json.dumps(body, separators=(",", ":")).encode()
        may_pool = pooled or self._background.is_slow
        if not may_pool:
            headers["Connection"] = "close"
        request = Request(
            method,
            _target(path, params),
            header_timeout=timeout,
            connect_timeout=timeout,
            headers=headers.items(),
            body=body,
            connection="pooled" if may_pool else "fresh",
            max_idle=math.inf if pooled else JUST_USED,
            is_decoded=True,
        )
        async with self._transport.send(request) as response:
            content = await self._read(response, timeout=timeout, limit=self._max_body)
        self.answered_at = response.headers.get("Date")
        self._check(response, content)
        return content

    async def lines(
        self,
        path: str,
        *,
        open_timeout: float,
        params: Mapping[str, str],
        accept: str = JSON,
        pause: Callable[[], float] = lambda: 0.0,
    ) -> AsyncGenerator[bytes, None]:
        """The lines of a streamed answer, as they come, until the server ends it.

        `pause`: seconds without a read after each few lines that came together, asked each time.
        A line after a longer silence still comes at once.
        Raises `ApiError` for a status other than 2xx, `Unreachable` where it does not begin
        within `open_timeout` seconds or breaks, which an end within a line is too. How long
        silence is believed, the caller decides, who is at work on a line without awaiting.
        """
        request = Request(
            "GET",
            _target(path, params),
            header_timeout=open_timeout,
            connect_timeout=open_timeout,
            headers=(_headers(accept) | {"Connection": "close"}).items(),
            connection="fresh",
            is_decoded=True,
        )
        async with self._transport.send(request) as response:
            if response.status >= 300:
                content = await self._read(response, timeout=open_timeout, limit=MAX_LINE)
                self._check(response, content)
            async for lines in response.batches(max_line=MAX_LINE, gathers=False):
                for line in lines:
                    yield line
                if len(lines) <= FEW_LINES and (seconds := pause()):
                    await response.gather(seconds)

    async def _read(self, response: Response, *, timeout: float, limit: int) -> bytes:
        try:
            async with asyncio.timeout_at(response.deadline):
                return await response.read(limit=limit)
        except TimeoutError as error:
            raise Unreachable(f"no answer from {self.url} within {timeout:g}s") from error
        except TooLong as error:
            raise Unreachable(f"{self.url} answers with {error}") from error

    def _check(self, response: Response, content: bytes) -> None:
        if response.status < 300:
            return
        if response.status in SHUN_STATUSES or response.status >= 500:
            self._transport.retire()
        raise response.error(content)


def _headers(accept: str) -> dict[str, str]:
    return {"Accept": accept, "Accept-Encoding": "gzip, deflate"}


def _target(path: str, params: Mapping[str, str] | None) -> str:
    return str(URL(path).extend_query(params)) if params else path


@dataclass(frozen=True, slots=True)
class WatchEvent(Generic[T]):
    """`type` is ADDED, MODIFIED or DELETED."""

    type: EventType
    object: T


def parse_event(line: bytes, decode: Callable[[bytes], T]) -> WatchEvent[T] | Bookmark:
    """`decode` raises ValueError for what is no object.

    Raises `ApiError` for an ERROR event, as its Status says (`Gone` above all), and `Unreachable`
    for no event.
    """
    try:
        event = parse_line(line, lambda type, raw: WatchEvent(type, decode(raw)))
    except (ValueError, RecursionError) as error:
        raise Unreachable(f"no event of a watch: {error}: {line[:80]!r}") from error
    if isinstance(event, Failure):
        raise status_error(event.code, event.reason, event.message)
    return event
