"""A reverse proxy that keeps what kube-apiserver's audit log would keep of the same requests.

For API servers without such a log. Guarantees, as those of `audit`: an event is kept before the
answer, or what a watch tells of it, is passed on, so that whoever saw an effect finds its cause;
a write is passed on to its end even if its client is gone, so that none is missed; a server that
dies takes its connections along.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
import threading
import time
import uuid
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any, TypeVar, Unpack

import aiohttp
from aiohttp import web
from yarl import URL

from tools.harness.controlplane.audit import (
    REQUEST_RECEIVED,
    RESPONSE_COMPLETE,
    RESPONSE_STARTED,
    AuditEvent,
    AuditSelectors,
    is_selected,
)
from tools.harness.controlplane.reservation import LOOPBACK, Reservation
from tools.harness.controlplane.settling import end

# Seconds for a start or an end.
CONTROL_TIMEOUT = 20.0
# Seconds that the end grants to watches.
SHUTDOWN_TIMEOUT = 0.1
# Between two neighbours only (RFC 9110, 7.6.1), or about the form of a body that is read here.
DROPPED = frozenset(
    {"connection", "transfer-encoding", "content-length", "accept-encoding", "host"}
)
# As k8s.io/apiserver's RequestInfoFactory reads a path, for what tests ask.
_PATH = re.compile(
    r"/(?:api|apis/(?P<group>[^/]+))/v[^/]+(?:/namespaces/(?P<namespace>[^/]+)(?=/))?"
    r"/(?P<resource>[^/]+)(?:/(?P<name>[^/]+)(?:/(?P<subresource>[^/]+))?)?"
)
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}

_Result = TypeVar("_Result")


class Recorder:
    """Passes on to a port of 127.0.0.1, from `start` to `stop`, in its own thread."""

    def __init__(self, target_port: int) -> None:
        self._target = f"http://{LOOPBACK}:{target_port}"
        self._reservation = Reservation()
        self.port = self._reservation.port
        self._lock = threading.Lock()
        self._events: list[AuditEvent] = []
        self._writes: set[asyncio.Future[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="recorder", daemon=True)

    def start(self) -> None:
        """Returns when it listens."""
        self._thread.start()
        self._run(self._open())

    def stop(self) -> None:
        """Cuts everything off; may be called again."""
        if not self._thread.is_alive():
            return
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CONTROL_TIMEOUT)
        self._loop.close()
        self._reservation.release()

    def events(
        self, *, stage: str | None, **selectors: Unpack[AuditSelectors]
    ) -> Sequence[AuditEvent]:
        """As AuditLog.events."""
        with self._lock:
            found = list(self._events)
        return [
            event
            for event in found
            if (stage is None or event.stage == stage) and is_selected(event, selectors)
        ]

    def _run(self, coroutine: Coroutine[Any, Any, _Result]) -> _Result:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(CONTROL_TIMEOUT)

    # In the recorder's own thread

    async def _open(self) -> None:
        # No connection is used twice: one that its server has closed meanwhile would be a fault
        # that no client of the server meets.
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(force_close=True, limit=0),
            timeout=aiohttp.ClientTimeout(total=None),
            skip_auto_headers=("Accept-Encoding", "User-Agent"),
        )
        self._runner = web.ServerRunner(
            web.Server(self._pass_on, access_log=None), shutdown_timeout=SHUTDOWN_TIMEOUT
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, LOOPBACK, self.port, reuse_address=True)
        await site.start()

    async def _close(self) -> None:
        await end(self._runner)
        await self._session.close()

    async def _pass_on(self, request: web.BaseRequest) -> web.StreamResponse:
        received_at = time.time()
        body = await request.read()
        event = _received(request, body, received_at)
        self._note(event)
        try:
            if event.verb == "watch":
                return await self._watch(request, event)
            if request.method == "GET":
                return await self._exchange(request, body, event)
            with self._writing():
                return await self._exchange(request, body, event)
        except (aiohttp.ClientError, ConnectionError):
            # Whichever end is gone: the other one sees its connection end.
            if request.transport is not None:
                request.transport.abort()
            return web.Response()

    async def _exchange(
        self, request: web.BaseRequest, body: bytes, event: AuditEvent
    ) -> web.StreamResponse:
        async with self._ask(request, body) as answer:
            content = await answer.read()
        self._note(_answered(event, answer.status, content))
        return web.Response(status=answer.status, headers=_kept(answer), body=content)

    async def _watch(self, request: web.BaseRequest, event: AuditEvent) -> web.StreamResponse:
        async with self._ask(request, b"") as answer:
            self._note(_at(event, RESPONSE_STARTED, answer.status))
            response = web.StreamResponse(status=answer.status, headers=_kept(answer))
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                if self._writes:
                    # Who hears of a write finds it: it is answered at any moment.
                    await asyncio.wait(self._writes)
                await response.write(chunk)
        self._note(_at(event, RESPONSE_COMPLETE, answer.status))
        return response

    def _ask(
        self, request: web.BaseRequest, body: bytes
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        headers = [(key, value) for key, value in request.headers.items() if not _is_dropped(key)]
        url = URL(self._target + request.raw_path, encoded=True)
        return self._session.request(request.method, url, headers=headers, data=body or None)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        done = self._loop.create_future()
        self._writes.add(done)
        try:
            yield
        finally:
            self._writes.discard(done)
            done.set_result(None)

    def _note(self, event: AuditEvent) -> None:
        with self._lock:
            self._events.append(event)


def _received(request: web.BaseRequest, body: bytes, received_at: float) -> AuditEvent:
    found = _PATH.match(request.path)
    reference = {key: value or "" for key, value in found.groupdict().items()} if found else {}
    name = reference.get("name", "")
    return AuditEvent(
        audit_id=str(uuid.uuid4()),
        stage=REQUEST_RECEIVED,
        verb=_verb(request, is_named=bool(name)),
        user="",
        user_agent=request.headers.get("User-Agent", ""),
        request_uri=request.raw_path,
        api_group=reference.get("group", ""),
        resource=reference.get("resource", ""),
        subresource=reference.get("subresource", ""),
        namespace=reference.get("namespace", ""),
        name=name,
        status=None,
        received_at=received_at,
        stage_at=received_at,
        request_object=_decoded(body),
        response_object=None,
    )


def _verb(request: web.BaseRequest, *, is_named: bool) -> str:
    if request.method != "GET":
        verb = _VERBS.get(request.method, request.method.lower())
        return "deletecollection" if verb == "delete" and not is_named else verb
    if is_named:
        return "get"
    return "watch" if request.query.get("watch") in ("true", "1") else "list"


def _at(event: AuditEvent, stage: str, status: int) -> AuditEvent:
    return dataclasses.replace(event, stage=stage, status=status, stage_at=time.time())


def _answered(event: AuditEvent, status: int, content: bytes) -> AuditEvent:
    """POST of an object names it in the body only."""
    stored = _decoded(content)
    name = event.name or ((stored or {}).get("metadata") or {}).get("name", "")
    complete = _at(event, RESPONSE_COMPLETE, status)
    return dataclasses.replace(complete, name=name, response_object=stored)


def _decoded(content: bytes) -> dict[str, Any] | None:
    try:
        decoded = json.loads(content)
    except ValueError:
        return None
    return decoded if isinstance(decoded, dict) else None


def _kept(answer: aiohttp.ClientResponse) -> list[tuple[str, str]]:
    return [(name, value) for name, value in answer.headers.items() if not _is_dropped(name)]


def _is_dropped(name: str) -> bool:
    return name.lower() in DROPPED
