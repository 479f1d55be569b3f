"""A listener of the relay behind which nothing stands but the proxy."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace

from aiohttp import web

from edge_sidecars.apimachinery.status import Refused
from edge_sidecars.kubeapi import ApiTransport, Credentials, NotSent, Plain, Unreachable
from edge_sidecars.runtime.web.connections import Handler
from relay_sidecar.access.admission import CALLER, Caller
from relay_sidecar.core.link import LinkEvidence
from relay_sidecar.upstream.messages import ClientRequest
from relay_sidecar.upstream.proxy import Proxy
from relay_sidecar.web.responses import status_answer
from tests.integration.raw_client import RawClient
from tests.integration.relay.hosted import Hosted
from tools.harness.pods.wire.raw_server import Connection, RawServer

# How a request wants to be passed on: "forward" if it does not say.
MODE = "X-Mode"
# What a test gets where the web layer would look for an answer of its own.
UNANSWERED = {NotSent: 590, Unreachable: 591}
TIMEOUT = 3.0
# So an answer begins that mode "stream" hands on as it comes.
STREAMED = b'{"kind":"ConfigMapList"'


@contextmanager
def through(
    serve: Callable[[Connection], None], *, token: str | None = None
) -> Iterator[tuple[RawServer, RawClient]]:
    """A server, and a client that goes there through a proxy."""
    with (
        RawServer(serve) as server,
        Passing(Plain(server.url), token=token).host() as relay,
        RawClient(relay.port) as client,
    ):
        yield server, client


class Passing:
    """Before `credentials`; with `token` in the name of callers who bring it."""

    def __init__(self, credentials: Credentials, *, token: str | None = None) -> None:
        self.may_be_asked = True
        self.is_relayed = False
        self.cause = ""
        self.evidence: list[LinkEvidence] = []
        self.pieces: list[bytes] = []
        self._credentials = credentials
        self._token = token

    def host(self, *, tls: ssl.SSLContext | None = None) -> Hosted:
        return Hosted(self._open, tls=tls)

    def may_pass(self, beginning: bytes) -> bool:
        return beginning.startswith(STREAMED)

    def passed(self, piece: bytes) -> None:
        self.pieces.append(piece)

    def met(self, outcome: LinkEvidence) -> None:
        self.evidence.append(outcome)

    def waits(self) -> None:
        """There is no probe."""

    def headers_for_upstream(self, caller: Caller) -> Mapping[str, str]:
        return {} if self._token is None else {"Authorization": f"Bearer {self._token}"}

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[Handler]:
        transport = ApiTransport(self._credentials, user_agent="relay-sidecar/test")
        proxy = Proxy(transport, self, self, connect_timeout=5.0)

        async def handle(request: web.BaseRequest) -> web.StreamResponse:
            request[CALLER] = Caller()
            try:
                return await self._pass(proxy, request)
            except Refused as refused:
                return status_answer(refused.status)
            except Unreachable as error:
                status = next(code for kind, code in UNANSWERED.items() if isinstance(error, kind))
                return web.Response(status=status, text=str(error))

        try:
            yield handle
        finally:
            await transport.close()
            await asyncio.sleep(0)

    async def _pass(self, proxy: Proxy, request: web.BaseRequest) -> web.StreamResponse:
        asked = ClientRequest(request, None, TIMEOUT)
        match request.headers.get(MODE, "forward"):
            case "fetch":
                fetched = await proxy.fetch(asked)
                return await fetched.send(request)
            case "stream":
                answer = await proxy.stream(asked, self)
                if isinstance(answer, web.StreamResponse):
                    return answer
                return await answer.send(request)
            case "write":
                fetched = await proxy.write(asked)
                return await fetched.send(request)
            case "change-nothing":
                asked = replace(asked, changes_nothing=True)
                fetched = await proxy.ask(asked, await request.read())
                return await fetched.send(request)
            case _:
                return await proxy.forward(request)
