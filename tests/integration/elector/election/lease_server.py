"""A scripted API server for one Lease: makes answers that a real one cannot be made to give.

A real HTTP server on port 0 with Kubernetes' own compare-and-swap and watches; what is scripted
with `answer` comes before that, once. Strict: a call that it does not know is kept in `unexpected`,
which the fixture asserts to be empty.
"""

import asyncio
import copy
import json
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

from aiohttp import web

from tools.harness.controlplane.clients.answer import boottime
from tools.harness.controlplane.settling import end

NAMESPACE = "edge"
LEASE = "controller"
COLLECTION = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
EVENTS = f"/api/v1/namespaces/{NAMESPACE}/events"
CALL_TIMEOUT = 10.0

Json = dict[str, Any]
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Scripted:
    """One answer. `is_applied`: a write is done first, whatever is said then.

    `body` None: a Status object; `is_truncated`: the connection ends before the announced length.
    """

    status: int
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    is_applied: bool = False
    is_truncated: bool = False


@dataclass(frozen=True)
class Call:
    """`at` on CLOCK_BOOTTIME; `status` as it was answered."""

    at: float
    verb: str
    status: int


class LeaseServer:
    """Serves while it is entered, from a thread of its own. Verbs: get, watch, create, update."""

    def __init__(self) -> None:
        self.port = 0
        self.calls: list[Call] = []
        self.unexpected: list[str] = []
        self._scripts: dict[str, deque[Scripted]] = defaultdict(deque)
        self._version = 100
        self._lease: Json | None = self._stored({"spec": {}, "metadata": {"uid": "uid-1"}})
        self._news: list[tuple[int, bytes]] = []
        self._watches: set[asyncio.Queue[bytes | None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="lease-server")

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._open(), self._loop).result(CALL_TIMEOUT)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._shut(), self._loop).result(CALL_TIMEOUT)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    # ── the script ──

    def answer(self, verb: str, *scripted: Scripted) -> None:
        """The next calls of the verb are answered so, in this order."""
        self._call(lambda: self._scripts[verb].extend(scripted))

    def is_used_up(self, verb: str) -> bool:
        """Whether everything scripted for the verb was asked for."""
        return self._call(lambda: not self._scripts[verb])

    def say(self, line: bytes) -> None:
        """A raw line to every open watch."""
        self._call(lambda: self._tell(line))

    def silence(self) -> None:
        """The watches of now stay open and hear nothing any more."""
        self._call(self._watches.clear)

    def end_watches(self) -> None:
        """In order, as the API server does after its time."""
        self._call(lambda: self._tell(None))

    def lease(self) -> Json:
        lease = self._call(lambda: copy.deepcopy(self._lease))
        assert lease is not None
        return lease

    def edit(self, **spec: object) -> None:
        """As an administrator: the fields of spec."""

        def change() -> None:
            assert self._lease is not None
            self._store({**self._lease, "spec": {**self._lease["spec"], **spec}})

        self._call(change)

    def count(self, verb: str, *, since: float = 0.0) -> int:
        return sum(call.verb == verb and call.at >= since for call in list(self.calls))

    def _call(self, function: Callable[[], _Result]) -> _Result:
        async def call() -> _Result:
            return function()

        return asyncio.run_coroutine_threadsafe(call(), self._loop).result(CALL_TIMEOUT)

    # ── in its own thread ──

    async def _open(self) -> None:
        self._runner = web.ServerRunner(
            web.Server(self._handle, handler_cancellation=True), shutdown_timeout=0.1
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def _shut(self) -> None:
        await end(self._runner)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        verb = self._verb(request)
        if verb == "event":
            # No rule for Events: an elector must do without.
            return _status(403, "no rule for events")
        if verb is None:
            self.unexpected.append(f"{request.method} {request.path_qs}")
            return _status(500, "this call is not in the script")
        body = json.loads(await request.read() or b"{}")
        at = boottime()
        scripted = self._scripts[verb].popleft() if self._scripts[verb] else None
        if scripted is None and verb == "watch":
            self.calls.append(Call(at, verb, 200))
            return await self._follow(request)
        response: web.StreamResponse | None = None
        if scripted is None or scripted.is_applied:
            response = self._perform(verb, body)
        if scripted is not None:
            response = await _play(request, scripted)
        assert response is not None
        self.calls.append(Call(at, verb, response.status))
        return response

    def _verb(self, request: web.BaseRequest) -> str | None:
        match request.method, request.path:
            case "GET", path if path == f"{COLLECTION}/{LEASE}" and not request.query:
                return "get"
            case "PUT", path if path == f"{COLLECTION}/{LEASE}":
                return "update"
            case "POST", path if path == COLLECTION:
                return "create"
            case "POST", path if path == EVENTS:
                return "event"
            case "GET", path if path == COLLECTION:
                query = request.query
                selected = query.get("fieldSelector") == f"metadata.name={LEASE}"
                return "watch" if selected and query.get("watch") == "true" else None
        return None

    def _perform(self, verb: str, body: Json) -> web.Response:
        present = self._lease
        if verb == "create":
            if present is not None:
                return _status(409, "AlreadyExists")
            return _json(201, self._store(body))
        if present is None:
            return _status(404, "NotFound")
        if verb == "update":
            for key in ("uid", "resourceVersion"):
                if body["metadata"].get(key) != present["metadata"][key]:
                    return _status(409, "Conflict")
            return _json(200, self._store(body))
        return _json(200, present)

    def _store(self, lease: Json) -> Json:
        self._version += 1
        self._lease = self._stored(lease)
        line = event("MODIFIED", self._lease)
        self._news.append((self._version, line))
        self._tell(line)
        return self._lease

    def _tell(self, line: bytes | None) -> None:
        for watch in self._watches:
            watch.put_nowait(line)

    def _stored(self, lease: Json) -> Json:
        metadata = {**lease["metadata"], "name": LEASE, "namespace": NAMESPACE}
        metadata["resourceVersion"] = str(self._version)
        kind = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
        return {**kind, "metadata": metadata, "spec": lease["spec"]}

    async def _follow(self, request: web.BaseRequest) -> web.StreamResponse:
        since = int(request.query.get("resourceVersion") or 0)
        watch: asyncio.Queue[bytes | None] = asyncio.Queue()
        for version, line in self._news:
            if version > since:
                watch.put_nowait(line)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        self._watches.add(watch)
        try:
            await response.prepare(request)
            while (news := await watch.get()) is not None:
                await response.write(news + b"\n")
        except ConnectionResetError:
            pass
        finally:
            self._watches.discard(watch)
        return response


async def _play(request: web.BaseRequest, scripted: Scripted) -> web.StreamResponse:
    status = _encoded(_status_object(scripted.status, "scripted"))
    body = status if scripted.body is None else scripted.body
    response = web.StreamResponse(status=scripted.status, headers=scripted.headers)
    response.content_type = "application/json"
    response.content_length = len(body) + (1000 if scripted.is_truncated else 0)
    await response.prepare(request)
    await response.write(body)
    if scripted.is_truncated and request.transport is not None:
        request.transport.close()
    return response


def _encoded(body: Json) -> bytes:
    return json.dumps(body).encode()


def _json(status: int, body: Json) -> web.Response:
    return web.Response(status=status, body=_encoded(body), content_type="application/json")


def _status_object(code: int, message: str) -> Json:
    return {"kind": "Status", "code": code, "reason": message, "message": message}


def _status(code: int, message: str) -> web.Response:
    return _json(code, _status_object(code, message))


def event(kind: str, lease: Json) -> bytes:
    """A line of a watch."""
    return _encoded({"type": kind, "object": lease})
