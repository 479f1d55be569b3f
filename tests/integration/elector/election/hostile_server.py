"""An API server that answers one kind of call wrongly, at once and every time, and the rest well.

Each namespace is a case of its own: which call, which fault. What a loop makes of it is
counted here, where a request cannot be overlooked. Knows Leases, pods and Events, as far as an
elector asks for them; no time passes in it.
"""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from aiohttp import web

from tools.harness.controlplane.reservation import LOOPBACK
from tools.harness.controlplane.settling import end

Json = dict[str, Any]


class Fault(Enum):
    """How a call is answered."""

    ENDED = "200, and the end"
    CUT = "closed without an answer"
    GONE = "410"
    EXPIRED = "200, and an ERROR event that says 410"
    FAILED = "500"
    BUSY = "429, Retry-After: 0"
    FORBIDDEN = "403"
    MISSING = "404"
    GARBLED = "200, and no JSON"
    IGNORED = "200 and another version, but nothing was written"
    UNDONE = "200, and an event that it was undone"


@dataclass
class Case:
    """`broken`: the calls that meet the fault, from `is_on` on; all are counted, for `seconds`."""

    name: str
    broken: frozenset[str]
    fault: Fault
    lease: Json | None
    is_on: bool = True
    seconds: float = 0.0
    calls: Counter[str] = field(default_factory=Counter)
    version: int = 100
    events: asyncio.Queue[Json] = field(default_factory=asyncio.Queue)

    @property
    def is_met(self) -> bool:
        return all(self.calls[call] for call in self.broken)


class HostileServer:
    def __init__(self, cases: list[Case]) -> None:
        self.url = ""
        self._cases = {case.name: case for case in cases}

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        runner = web.ServerRunner(
            web.Server(self._handle, handler_cancellation=True), shutdown_timeout=0.1
        )
        await runner.setup()
        await web.TCPSite(runner, LOOPBACK, 0).start()
        self.url = f"http://{LOOPBACK}:{runner.addresses[0][1]}"
        try:
            yield
        finally:
            await end(runner)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        parts = request.path.split("/")
        case = self._cases[
            parts[2] if parts[1] == "notify" else parts[parts.index("namespaces") + 1]
        ]
        call = _call(request, parts)
        case.calls[call] += 1
        body = json.loads(await request.read() or b"{}")
        if call in case.broken and case.is_on:
            return await _broken(request, case)
        return await self._well(request, case, call, body)

    async def _well(
        self, request: web.BaseRequest, case: Case, call: str, body: Json
    ) -> web.StreamResponse:
        match call:
            case "get lease":
                return (
                    _json(200, case.lease)
                    if case.lease
                    else _json(404, {"kind": "Status", "code": 404})
                )
            case "update lease" | "create lease":
                case.version += 1
                metadata = {"uid": "u", **body["metadata"], "resourceVersion": str(case.version)}
                case.lease = {**body, "metadata": metadata}
                return _json(200, case.lease)
            case "list pods":
                return _json(200, {"metadata": {"resourceVersion": "1"}, "items": []})
            case "patch pod":
                return _json(200, {})
            case "watch lease" | "watch pods":
                response = web.StreamResponse()
                await response.prepare(request)
                while call == "watch pods":
                    await response.write(json.dumps(await case.events.get()).encode() + b"\n")
                await asyncio.Event().wait()
        return _json(201, {})


async def _broken(request: web.BaseRequest, case: Case) -> web.StreamResponse:
    match case.fault:
        case Fault.ENDED:
            return web.Response(status=200)
        case Fault.CUT:
            if request.transport is not None:
                request.transport.abort()
            return web.Response(status=500)
        case Fault.EXPIRED:
            status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
            return web.Response(
                body=json.dumps({"type": "ERROR", "object": status}).encode() + b"\n"
            )
        case Fault.BUSY:
            return _json(429, {"code": 429}, {"Retry-After": "0"})
        case Fault.GARBLED:
            return web.Response(body=b"<html>\n")
        case Fault.IGNORED:
            case.version += 1
            lease = case.lease or {"metadata": {"uid": "u"}, "spec": {}}
            metadata = {**lease["metadata"], "resourceVersion": str(case.version)}
            return _json(200, {**lease, "metadata": metadata})
        case Fault.UNDONE:
            pod = {"metadata": {"name": request.path.rpartition("/")[2]}}
            case.events.put_nowait({"type": "DELETED", "object": pod})
            return _json(200, pod)
    code = {Fault.GONE: 410, Fault.FAILED: 500, Fault.FORBIDDEN: 403, Fault.MISSING: 404}
    number = code[case.fault]
    return _json(number, {"kind": "Status", "code": number, "message": "as always"})


def _call(request: web.BaseRequest, parts: list[str]) -> str:
    if parts[1] == "notify":
        return "notify"
    what = "lease" if "leases" in parts else "pods" if "pods" in parts else "event"
    match request.method:
        case "GET" if "watch" in request.query:
            return f"watch {what}"
        case "GET":
            return "get lease" if what == "lease" else "list pods"
        case "PATCH":
            return "patch pod"
        case "PUT":
            return "update lease"
    return "create lease" if what == "lease" else "create event"


def _json(status: int, body: Any, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(
        status=status,
        body=json.dumps(body).encode(),
        headers={"Content-Type": "application/json", **(headers or {})},
    )
