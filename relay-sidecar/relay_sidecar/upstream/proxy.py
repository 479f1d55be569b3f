"""Requests of clients, passed on to upstream as they are, and their answers.

Guarantees: No write is sent twice that may change anything. A client learns whether one was
certainly not sent (503) or may have happened (504, without Retry-After, or client-go would send it
again). An answer that breaks off upstream breaks off here. A client that leaves takes the exchange
along. What is passed on ends with the link or with its client, by no deadline of ours: a proxy
subresource or a webhook may take minutes. While the link is down nothing is tried, and nothing
waits for it but the node's own signs of life (`heartbeats`). Looks into no body, but of lists and
watches of shards (`sharded`).
"""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from http import HTTPStatus
from typing import Final, Protocol, TypeVar

from aiohttp import hdrs
from multidict import CIMultiDict

from edge_sidecars.apimachinery.request.request_info import RequestInfo
from edge_sidecars.apimachinery.selection.shards import EVERYTHING, ShardSelector
from edge_sidecars.apimachinery.status import Refused, bad_request
from edge_sidecars.kubeapi import (
    ApiTransport,
    NotSent,
    Request,
    Response,
    StaleConnection,
    TooLong,
    Unreachable,
)
from edge_sidecars.runtime.web import aiohttp_web as web
from relay_sidecar.access.admission import CALLER, Caller
from relay_sidecar.core.link import LinkEvidence, is_of_api_server
from relay_sidecar.core.sharding import upstream_target
from relay_sidecar.core.upgrade_request import asks_for_upgrade
from relay_sidecar.upstream.failures import (
    broken_off,
    evidence_of,
    outcome_of_write,
    too_long,
)
from relay_sidecar.upstream.heartbeats import RETRY, Heartbeats
from relay_sidecar.upstream.messages import (
    BufferedResponse,
    ClientRequest,
    Upload,
    end_to_end,
    headers_upstream,
    upload_of,
)
from relay_sidecar.upstream.sharded import (
    accept_of_shards,
    check_shardable,
    list_in_shards,
    watch_in_shards,
)
from relay_sidecar.upstream.streaming import PATIENCE, StreamedResponse, StreamObserver, run_tunnel

# Set on a request that upstream was asked about.
IS_PASSED_ON = web.RequestKey("is_passed_on", bool)
# RFC 9110, 9.2.1.
READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
# Bytes of an answer that is to be remembered: 100,000 objects of 3 KB.
MAX_ANSWER = 512 * 1024 * 1024
# Bytes; kube-apiserver's limit of a body (MaxRequestBodyBytes) is 3 MiB.
MAX_KEPT_BODY = 8 * 1024 * 1024
# Bytes; a shorter body is taken whole before the request begins: over a connection that is kept.
SHORT_BODY = 256 * 1024
# Seconds without an answer after which a request makes the relay look at the link.
WAITING: Final = 0.5
# Renewals by kubelet, each 10 s: of nothing else is a link at rest so full as of the handshakes of
# their connections. Whether one arrived is the same to kubelet as whether it was sent: it renews.
NODE_LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/"

T = TypeVar("T")


class CallerCredentials(Protocol):
    def headers_for_upstream(self, caller: Caller) -> Mapping[str, str]: ...


class ProxyLink(Protocol):
    @property
    def may_be_asked(self) -> bool:
        """Upstream may be there, or it is another relay that answers from its cache."""
        ...

    @property
    def is_relayed(self) -> bool:
        """Upstream is another relay, which is cut off itself."""
        ...

    @property
    def cause(self) -> str:
        """Why upstream is not reached; "" while it is."""
        ...

    def met(self, outcome: LinkEvidence) -> None:
        """A request met with this."""
        ...

    def waits(self) -> None:
        """A request has been without an answer for a while."""
        ...


class Proxy:
    """`connect_timeout` in seconds. `heartbeats`: what waits for the link, on a node."""

    def __init__(
        self,
        transport: ApiTransport,
        access: CallerCredentials,
        link: ProxyLink,
        *,
        connect_timeout: float,
        heartbeats: Heartbeats | None = None,
    ) -> None:
        self._heartbeats = heartbeats
        self._transport = transport
        self._access = access
        self._link = link
        self._connect_timeout = connect_timeout
        # Done when the link goes; for tunnels, which no time-out of HTTP ends.
        self._cut: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def cut(self) -> None:
        """The link went: each tunnel ends."""
        self._cut.set_result(None)
        self._cut = asyncio.get_running_loop().create_future()

    @property
    def is_up(self) -> bool:
        """Whether upstream can be asked."""
        return self._link.may_be_asked

    @property
    def is_relayed(self) -> bool:
        return self._link.is_relayed

    @property
    def cause(self) -> str:
        return self._link.cause

    def question(self, asked: ClientRequest) -> Hashable:
        request = asked.request
        target = asked.target or request.raw_path
        headers = tuple(request.headers.items())
        return request.method, target, asked.accept, request[CALLER], headers

    async def fetch(self, asked: ClientRequest) -> BufferedResponse:
        """The whole answer to a read. Raises `Unreachable`, and `Refused` for what is too long."""
        return await self._whole(asked, None, idle_timeout=asked.header_timeout)

    async def ask(self, asked: ClientRequest, body: bytes) -> BufferedResponse:
        """The whole answer to a request with this body. Raises as `fetch`."""
        return await self._whole(asked, body, idle_timeout=asked.header_timeout)

    async def stream(
        self, asked: ClientRequest, observer: StreamObserver
    ) -> web.StreamResponse | BufferedResponse:
        """The answer to a read as it comes, where `observer` says so of its first bytes, else the
        whole answer. Over the link it is compressed, whatever the client accepts.

        Raises `Unreachable` where nothing was handed on, and `Refused` for what is too long.
        """
        response: web.StreamResponse | None = None
        try:
            async with self._asked(asked, self._headers(asked), None) as answer:
                streamed = StreamedResponse(answer)
                beginning = await streamed.beginning()
                if answer.status != HTTPStatus.OK or not observer.may_pass(beginning):
                    rest = await answer.read(limit=MAX_ANSWER, idle_timeout=PATIENCE)
                    body = streamed.first + rest
                    return await BufferedResponse.of(answer, body, limit=MAX_ANSWER)
                # A probe that is late on a busy machine breaks nothing off that still comes.
                answer.outlast_abort()
                response = _begun(asked.request, answer)
                await streamed.send(asked.request, response, observer)
                return response
        except Unreachable as error:
            return broken_off(asked.request, response, error)

    async def write(self, asked: ClientRequest) -> BufferedResponse:
        """The whole answer to a write. Raises `Refused`."""
        body = upload_of(asked.request)
        try:
            if not self._waits(asked.request):
                self._check_link()
            whole = None if body is None else await body.whole(limit=MAX_KEPT_BODY)
            answer = await self._once_up(
                asked.request, lambda: self._whole(asked, whole, idle_timeout=None)
            )
            return replace(answer, asked=whole or b"")
        except Unreachable as error:
            raise Refused(outcome_of_write(error)) from error

    async def forward(
        self, request: web.BaseRequest, shards: ShardSelector = EVERYTHING
    ) -> web.StreamResponse:
        """The answer as it comes, `shards`: to a LIST or WATCH, of which only these are handed on.
        Raises `Unreachable` for a read of which nothing was answered, `Refused` for a write."""
        if not shards.is_everything:
            target = upstream_target(request.raw_path)
            return await self._in_shards(request, shards, target)
        body = upload_of(request)
        try:
            waits = self._waits(request)
            if not waits:
                self._check_link()
            if body is not None and not body.is_within(SHORT_BODY):
                self._check_link()
                return await self._as_it_comes(request, body)
            whole = None if body is None else await body.whole(limit=SHORT_BODY)
            return await self._once_up(request, lambda: self._as_it_comes(request, whole))
        except Unreachable as error:
            if body is not None and body.failure is not None:
                raise body.failure from error
            if request.method in READS:
                raise
            raise Refused(outcome_of_write(error)) from error

    async def _in_shards(
        self, request: web.BaseRequest, shards: ShardSelector, target: str
    ) -> web.StreamResponse:
        if RequestInfo.parse(request.method, request.raw_path).verb == "watch":
            check_shardable(request)
            return await self._as_it_comes(request, None, shards, target)
        accept = accept_of_shards(request, is_list=True)
        fetched = await self.fetch(ClientRequest(request, accept, None, target))
        return await (await list_in_shards(fetched, request, shards)).send(request)

    async def _as_it_comes(
        self,
        request: web.BaseRequest,
        body: bytes | Upload | None,
        shards: ShardSelector = EVERYTHING,
        target: str | None = None,
    ) -> web.StreamResponse:
        """Raises `Unreachable` where nothing was answered."""
        response: web.StreamResponse | None = None
        ours = self._access.headers_for_upstream(request[CALLER])
        headers = headers_upstream(request, ours, upgrades_at=self._transport.url)
        asked = ClientRequest(request, None, None, target)
        if not shards.is_everything:
            headers[hdrs.ACCEPT_ENCODING] = "identity"
            headers[hdrs.ACCEPT] = accept_of_shards(request, is_list=False)
        try:
            async with self._asked(asked, headers, body) as answer:
                response = _begun(request, answer)
                chunks = watch_in_shards(answer, request, shards)
                await response.prepare(request)
                if answer.status == HTTPStatus.SWITCHING_PROTOCOLS:
                    await run_tunnel(request, answer, self._cut)
                    return response
                async for chunk in chunks:
                    await response.write(chunk)
                await response.write_eof()
                return response
        except Unreachable as error:
            return broken_off(request, response, error)

    def _waits(self, request: web.BaseRequest) -> bool:
        return self._heartbeats is not None and self._heartbeats.takes(request)

    async def _once_up(self, request: web.BaseRequest, send: Callable[[], Awaitable[T]]) -> T:
        """What `send` returns, where it may wait for the link: again only as long as no byte was
        sent. Raises as it does."""
        heartbeats = self._heartbeats
        if heartbeats is None or not heartbeats.takes(request):
            return await send()
        deadline, has_waited = heartbeats.deadline(request), False
        while True:
            has_waited = has_waited or not self.is_up
            if not await heartbeats.wait(deadline):
                self._check_link()
            if has_waited:
                heartbeats.check_after_wait(request)
            try:
                return await send()
            except NotSent:
                has_waited = True
                if not await heartbeats.wait(deadline):
                    raise
                await asyncio.sleep(RETRY)

    async def _whole(
        self, asked: ClientRequest, body: bytes | None, *, idle_timeout: float | None
    ) -> BufferedResponse:
        """Raises as `_asked`."""
        passed_on = self._passed_on(asked, self._headers(asked), body)
        with self._judged(asked.request, body):
            try:
                return await self._read(passed_on, idle_timeout)
            except StaleConnection:
                if not _may_repeat(asked, body):
                    raise
                return await self._read(replace(passed_on, connection="fresh"), idle_timeout)

    async def _read(self, passed_on: Request, idle_timeout: float | None) -> BufferedResponse:
        looking = asyncio.get_running_loop().call_later(WAITING, self._link.waits)
        try:
            async with self._transport.send(passed_on) as answer:
                looking.cancel()
                self._answered(answer)
                content = await answer.read(limit=MAX_ANSWER, idle_timeout=idle_timeout)
                return await BufferedResponse.of(answer, content, limit=MAX_ANSWER)
        finally:
            looking.cancel()

    @asynccontextmanager
    async def _asked(
        self, asked: ClientRequest, headers: CIMultiDict[str], body: bytes | Upload | None
    ) -> AsyncIterator[Response]:
        """Raises `Unreachable`, and `Refused` for what cannot be asked or is too long."""
        passed_on = self._passed_on(asked, headers, body)
        with self._judged(asked.request, body):
            async with AsyncExitStack() as stack:
                looking = asyncio.get_running_loop().call_later(WAITING, self._link.waits)
                stack.callback(looking.cancel)
                try:
                    answer = await stack.enter_async_context(self._transport.send(passed_on))
                except StaleConnection:
                    if not _may_repeat(asked, body):
                        raise
                    again = self._transport.send(replace(passed_on, connection="fresh"))
                    answer = await stack.enter_async_context(again)
                looking.cancel()
                self._answered(answer)
                yield answer

    def _passed_on(
        self, asked: ClientRequest, headers: CIMultiDict[str], body: bytes | Upload | None
    ) -> Request:
        """Raises `NotSent` while the link is down, `Refused` for what cannot be asked."""
        request = asked.request
        if not request.raw_path.startswith("/"):
            raise Refused(bad_request("the request's target is not a path"))
        self._check_link()
        request[IS_PASSED_ON] = True
        return Request(
            request.method,
            asked.target or request.raw_path,
            header_timeout=asked.header_timeout,
            connect_timeout=self._connect_timeout_of(asked),
            headers=headers.items(),
            body=body,
            identity="caller" if hdrs.AUTHORIZATION in headers else "own",
            connection="upgrade" if hdrs.UPGRADE in headers else "pooled",
            max_idle=math.inf if asked.changes_nothing or _renews_node(request) else None,
        )

    @contextmanager
    def _judged(self, request: web.BaseRequest, body: bytes | Upload | None) -> Iterator[None]:
        """What a failure says of the link."""
        try:
            yield
        except Unreachable as error:
            if not isinstance(body, Upload) or body.failure is None:
                self._link.met(evidence_of(error))
            raise
        except TooLong as error:
            raise Refused(too_long(request, error)) from error

    def _answered(self, answer: Response) -> None:
        if is_of_api_server(answer.status, answer.headers):
            self._link.met(LinkEvidence.ANSWERED)

    def _connect_timeout_of(self, asked: ClientRequest) -> float | None:
        """None where the answer is to be there sooner, the time for a connection included."""
        is_urgent = asked.header_timeout is not None and (
            asked.header_timeout < self._connect_timeout
        )
        return None if is_urgent else self._connect_timeout

    def _check_link(self) -> None:
        if not self.is_up:
            raise NotSent(self.cause or "the link is down")

    def _headers(self, asked: ClientRequest) -> CIMultiDict[str]:
        """The headers of a request whose answer is read here."""
        ours = self._access.headers_for_upstream(asked.request[CALLER])
        headers = headers_upstream(asked.request, {**ours, hdrs.ACCEPT_ENCODING: "gzip"})
        if asked.accept is not None:
            headers[hdrs.ACCEPT] = asked.accept
        return headers


def _may_repeat(asked: ClientRequest, body: bytes | Upload | None) -> bool:
    """What met the end of a pooled connection may be asked again: it changes nothing."""
    return asked.changes_nothing or (asked.request.method in READS and body is None)


def _renews_node(request: web.BaseRequest) -> bool:
    return request.method in ("PUT", "PATCH") and request.raw_path.startswith(NODE_LEASES)


def _begun(request: web.BaseRequest, answer: Response) -> web.StreamResponse:
    """The answer's head; as aiohttp frames it, the length or else chunks."""
    response = web.StreamResponse(status=answer.status, reason=answer.reason)
    response.headers.extend(end_to_end(answer.headers))
    if answer.status == HTTPStatus.SWITCHING_PROTOCOLS:
        if not asks_for_upgrade(request.headers):
            raise Unreachable("upstream changes the protocol, which nobody asked for")
        response.headers[hdrs.CONNECTION] = "Upgrade"
        response.headers.extend(
            (hdrs.UPGRADE, each) for each in answer.headers.getall(hdrs.UPGRADE, [])
        )
        response.force_close()
    return response
