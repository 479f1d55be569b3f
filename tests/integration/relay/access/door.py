"""A listener of the relay behind which nothing stands but the question whether its caller may.

Answers 200 with the seconds for which the permission stands, or the Status of the refusal.
"""

import json
import math
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from aiohttp import web

from edge_sidecars.apimachinery.request.request_info import RequestInfo
from edge_sidecars.apimachinery.status import Refused
from edge_sidecars.kubeapi import ApiTransport, Credentials
from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.web.connections import Handler
from relay_sidecar.access.admission import Access
from relay_sidecar.access.authorization_store import SPACE, AuthorizationStore
from relay_sidecar.access.caller import CallerAccess
from relay_sidecar.access.reviews import Reviews
from relay_sidecar.journal.journal import Journal
from relay_sidecar.web.responses import status_answer
from tests.integration.relay.hosted import Hosted


def door(opened: Callable[[], AbstractAsyncContextManager[Access]]) -> Hosted:
    @asynccontextmanager
    async def handler() -> AsyncIterator[Handler]:
        async with opened() as access:

            async def answer(request: web.BaseRequest) -> web.StreamResponse:
                try:
                    return await _permission(access, request)
                except Refused as refused:
                    return status_answer(refused.status)

            yield answer

    return Hosted(handler)


async def _permission(access: Access, request: web.BaseRequest) -> web.StreamResponse:
    caller = await access.admit(request)
    info = RequestInfo.parse(request.method, request.raw_path)
    until = await access.may(
        caller,
        info,
        label_selector=request.query.get("labelSelector", ""),
        field_selector=request.query.get("fieldSelector", ""),
    )
    stands = until - time.monotonic()
    body = json.dumps({"stands": None if math.isinf(stands) else stands})
    return web.Response(body=body.encode(), headers={"Content-Type": "application/json"})


class Callers:
    """`--access caller` before an API server; `is_up` is what the link is said to be."""

    def __init__(
        self,
        credentials: Credentials,
        *,
        directory: Path | None = None,
        ttl: float = 60.0,
        offline_ttl: float = 3600.0,
        timeout: float = 5.0,
    ) -> None:
        self.is_up = True
        self._credentials = credentials
        self._directory = directory
        self._ttl = ttl
        self._offline_ttl = offline_ttl
        self._timeout = timeout

    def door(self) -> Hosted:
        return door(self._open)

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[Access]:
        transport = ApiTransport(self._credentials, user_agent="relay-sidecar/test")
        journal = await Journal.open(self._directory)
        saved = await journal.load()
        store = await AuthorizationStore.open(
            journal,
            saved.kept.get(SPACE, {}),
            heard_at=boottime,
            ttl=self._ttl,
            offline_ttl=self._offline_ttl,
        )
        reviews = Reviews(transport, timeout=self._timeout)
        access = CallerAccess(reviews, store, is_up=lambda: self.is_up)
        try:
            yield access
        finally:
            await access.close()
            await journal.close()
            await transport.close()
